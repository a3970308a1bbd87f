"""The parity tests need PyTorch: they are not even read where they are deselected, and fail loudly where it is missing."""

from pathlib import Path

import pytest
from parity_sizes import Sizes, sizes_from_options


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out this folder's tests where the marker expression deselects them all."""
    wanted = "not parity" not in str(config.getoption("markexpr"))
    return None if wanted or not collection_path.name.startswith("test_") else True


def pytest_configure(config: pytest.Config) -> None:
    """Sizes that do not fit together are one line, before any test."""
    sizes_from_options(config)


@pytest.fixture(scope="session")
def sizes(pytestconfig: pytest.Config) -> Sizes:
    """What --tokens, --heads and their like ask for."""
    return sizes_from_options(pytestconfig)
