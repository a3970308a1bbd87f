"""A database and presk's objects for all tests of the structured program."""

import pytest
from building import Runtime
from sqlalchemy import Engine

from presk_db.store.engine import open_database


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """presk's objects, compiled when first asked for."""
    return Runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """One database for all recordings."""
    return open_database(str(tmp_path_factory.mktemp("database") / "presk.db"), create=True)
