"""A program that draws: keys, uniform numbers and tokens have the native bits; what the database says of them."""

from pathlib import Path

import numpy as np
from building import Runtime, check_both, emitted_to, query, run_program, stored
from pipeline import FIXTURES
from safetensors.numpy import load_file, save_file
from sqlalchemy import Engine

from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.keys import Key
from presk_db.store.emission import emission_reader

ENTRY = f"{FIXTURES / 'user' / 'sampling.py'}:forward"


def test_a_program_that_draws(engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    recording = stored(engine, ENTRY)
    model = check_both(engine, recording, tmp_path, runtime)
    assert "/* layers 1 to 2 */" in model  # the parts of a key are the layers of a fold
    header = (tmp_path / "program/model.h").read_text()
    for line in ("double temperature; /* () */", "int64_t count; /* () in [0, 6) */", "int64_t *key; /* (8)"):
        assert f"    {line}" in header
    kinds = "select kind, count(*) from operations where recording_id = :r group by kind order by kind"
    assert query(engine, kinds, recording) == [("launch", 6), ("sample", 3), ("scalar", 9)]
    given = load_file(tmp_path / "program/conformance/inputs.safetensors")
    out = load_file(tmp_path / "program/out")
    key = Key(tuple(int(w) for w in given["key"]))
    assert out["key"].tolist() == list(key.child(0).key)
    assert out["greedy"].tolist() == out["logits"][:, :60].argmax(1).tolist()
    words = given["key"].copy()
    words[3] = 2**32
    save_file({**given, "key": words}, tmp_path / "program/conformance/inputs.safetensors")
    result = run_program(tmp_path / "program")
    assert result.returncode == 1 and "error E1204: key: " in result.stderr and result.stderr.count("\n") == 1


def test_nests_alone_are_nests(engine: Engine, tmp_path: Path) -> None:
    """The routines of a recording are no loops: the generator of nests leaves them out."""
    recording = stored(engine, ENTRY, dims={"B": 2})
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("scop"), tmp_path / "scop", {})
    text = (tmp_path / "scop/nests.c").read_text()
    assert "k_linear" in text and "sample" not in text and "uniform" not in text


def test_types_change_no_draw(engine: Engine, tmp_path: Path) -> None:
    """Uniform numbers are f64 in every realization, and so are the scalars of a sample."""
    for type_ in ("bf16", "f64"):
        recording = stored(engine, ENTRY, type=type_)
        types = "select distinct type from buffers where recording_id = :r and name like '%uniform%'"
        assert query(engine, types, recording) == [("f64",)]
        emitted_to(engine, recording, tmp_path / type_)
    assert np.isfinite(load_file(tmp_path / "f64/conformance/outputs.safetensors")["logits"]).all()
