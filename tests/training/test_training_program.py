"""The emitted program of entries for training gives the native run's bytes, and refuses scalars that are not finite."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.exact import exact_report
from presk_db.conformance.program import Build, built, ran
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import ProgramFailed
from presk_db.models.families import model_from_config
from presk_db.specs.record import recorded
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from tests.training.training_cases import CONFIGS, spec_of
from tests.training.training_matrix import ENTRIES, QUICK, TYPES, MatrixCase, all_cases, check_case


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_bytes(tmp_path: Path, cached_compiler: Callable[[str], str], case: MatrixCase) -> None:
    assert check_case(case, tmp_path, "-O0", quick=True, compiler=cached_compiler("cc")) == 4


def test_the_quick_cases_hold_every_entry_type_and_family() -> None:
    for held, wanted in zip(
        zip(*((c.entry, c.type, c.config) for c in QUICK), strict=True), (ENTRIES, TYPES, CONFIGS), strict=True
    ):
        assert set(held) == set(wanted)


def test_every_case_of_the_matrix_has_dimensions_that_its_family_takes() -> None:
    for case in all_cases(list(CONFIGS)):
        model = model_from_config(CONFIGS[case.config])
        assert model.dimensions(case.flags.get("dims", {}), case.entry), case


def test_a_scalar_that_is_not_finite(tmp_path: Path, cached_compiler: Callable[[str], str]) -> None:
    database = open_database(str(tmp_path / "presk.db"), create=True)
    recording = write_recording(database, recorded(spec_of(tmp_path, "gpt2", "train_step_sgd")))
    folder = tmp_path / "program"
    with emission_reader(database, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), folder, {"straight_line": True})
    program = built(folder, Build(cached_compiler("cc"), "-O0"))
    source = SafetensorsFile(str(folder / "conformance/inputs.safetensors"))
    for value in (np.nan, np.inf):
        arrays = {n: source.read(n) for n in source.names()} | {"lr": np.array(value)}
        write_safetensors(tmp_path / "bad.safetensors", arrays)
        with pytest.raises(ProgramFailed, match="finite"):
            ran(program, folder / "weights.safetensors", tmp_path / "bad.safetensors", tmp_path / "outputs")


@pytest.mark.parametrize(("config", "entry"), [("gpt2", "loss_grad"), ("llama", "train_step")])
def test_against_the_exact_reals(tmp_path: Path, config: str, entry: str) -> None:
    database = open_database(str(tmp_path / "presk.db"), create=True)
    recording = write_recording(database, recorded(spec_of(tmp_path, config, entry, type="f64")))
    for output in exact_report(database, recording).outputs:
        if output.name in ("loss", "norm"):
            assert output.error.max_ulp < 2.0
        elif "qkv.b" not in output.name:  # the gradient of a key's bias is exactly 0
            assert output.error.mean_ulp < 1000.0
