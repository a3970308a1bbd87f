"""An archive of a small recording, and how a changed one is made."""

from pathlib import Path

import pytest
from archive_files import Archive
from pipeline import GPT2, config_file, stored

from presk_db.conformance.archive_write import write_archive
from presk_db.store.engine import open_database


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of a GPT-2 with two layers, from a seed."""
    folder = tmp_path_factory.mktemp("archive")
    engine = open_database(str(folder / "presk.db"), create=True)
    recording = stored(engine, config_file(folder, GPT2), dims={"B": 1, "T": 3})
    write_archive(engine, recording, str(folder / "tiny.tar.gz"))
    return Archive.read(folder / "tiny.tar.gz")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
