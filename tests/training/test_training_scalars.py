"""Scalars in the library's struct: by value, unless a run updates them in place; new values go back between steps."""

from pathlib import Path

from pipeline import GPT2, config_file, stored

from presk_db.conformance.check import checked
from presk_db.conformance.program import Build
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database

HALVED = """
from presk_db import language as L
def parameters(dims): return L.Record(w=L.parameter("w", 3))
def inputs(dims): return {"x": L.real_input(3), "rate": L.scalar_input(2.0), "n": L.int_input(limit=5)}
def forward(p, x, rate, n):
    return {"rate": L.update(rate * 0.5, rate), "y": x * p.w * rate + L.real(n), "later": x * rate}
"""


def test_numbers_are_fields(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "presk.db"), create=True)
    recording = stored(engine, config_file(tmp_path, GPT2), dims={"T": 3}, entry="train_step")
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), tmp_path / "out", {})
    header = (tmp_path / "out/model.h").read_text()
    assert "\n    double lr; /* () */\n" in header
    assert "\n    double *step; /* (), updated by a run */\n" in header
    assert "tiny_run(" in header and "&in->lr" in (tmp_path / "out/model.c").read_text()


def test_a_number_whose_new_value_lies_apart(tmp_path: Path) -> None:
    """It is read after its new value is made, so that this has memory of its own and is copied into the field."""
    (tmp_path / "halved.py").write_text(HALVED)
    engine = open_database(str(tmp_path / "presk.db"), create=True)
    recording = stored(engine, f"{tmp_path / 'halved.py'}:forward")
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), tmp_path / "out", {})
    text = (tmp_path / "out/main.c").read_text()
    assert "memcpy(&in.rate, out.rate" in text
    (result,) = checked(engine, recording, [Build("cc", "-O1")], steps=3)
    assert result.bytes > 50
