"""The emitted program of a step: the native run's bytes, structured and as a straight line; caches in and out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline import GPT2, LLAMA, config_file

from presk_db.conformance.check import checked
from presk_db.conformance.program import Build
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.check import check_database
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from presk_db.store.read import read_launch_order

CASES = [("gpt2", "f32", 1), ("gpt2", "bf16", 3), ("llama", "f64", 4)]


@pytest.mark.parametrize(("family", "type_", "count"), CASES)
def test_bytes(tmp_path: Path, cached_compiler: Callable[[str], str], family: str, type_: str, count: int) -> None:
    config = config_file(tmp_path, {"gpt2": GPT2, "llama": LLAMA}[family])
    dims = {"C": count, "B": 2}
    database = open_database(str(tmp_path / "presk.db"), create=True)
    recording = recorded(spec_from(config, {"entry": "decode", "type": type_, "dims": dims, "seed": 5}))
    row = write_recording(database, recording)
    assert read_launch_order(database, row.id) == recording.order
    assert not check_database(str(tmp_path / "presk.db"))
    for result in checked(database, row, [Build(cached_compiler("cc"), "-O1")], straight_line=(False, True)):
        assert result.bytes > 100
