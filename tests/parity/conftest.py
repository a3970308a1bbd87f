"""The parity tests need PyTorch: they are not even read where they are deselected, and fail loudly where it is missing."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out this folder's tests where the marker expression deselects them all."""
    wanted = "not parity" not in str(config.getoption("markexpr"))
    return None if wanted or not collection_path.name.startswith("test_") else True
