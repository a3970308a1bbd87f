"""An emission from a database in memory, which has one connection alone."""

from pathlib import Path

from pipeline import FIXTURES

from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording


def test_an_emission_from_memory_is_that_from_a_file(tmp_path: Path) -> None:
    recording = recorded(spec_from(f"{FIXTURES / 'user' / 'mlp.py'}:forward", {}))
    found = []
    for target in ("sqlite://", str(tmp_path / "presk.db")):
        engine = open_database(target, create=True)
        stored = write_recording(engine, recording)
        folder = tmp_path / str(len(found))
        with emission_reader(engine, stored.id) as reader:
            emit_to(reader, stored, generator("c_program"), folder, {})
        found.append({p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()})
        engine.dispose()
    assert found[0] == found[1]
