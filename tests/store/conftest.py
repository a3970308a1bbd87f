"""A database with one recording of the small transformer."""

from pathlib import Path

import pytest
from sqlalchemy import Engine
from synthetic import recording, transformer

from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The path of a database that does not exist yet."""
    return tmp_path / "presk.db"


@pytest.fixture
def engine() -> Engine:
    """An empty database in memory."""
    return open_database("sqlite://", create=True)


@pytest.fixture
def stored(engine: Engine) -> Engine:
    """A database in memory with the small transformer as recording 1."""
    write_recording(engine, recording(transformer()))
    return engine
