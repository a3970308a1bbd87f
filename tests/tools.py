"""needs: a tool that a test runs; without it the test is skipped, loudly, and in continuous integration it fails."""

import os
import shutil

import pytest


def needs(tool: str, package: str | None = None) -> None:
    """Skips the test where `tool` is not installed; fails it where CI is set."""
    if shutil.which(tool) is not None:
        return
    reason = f"not run: {tool} is not installed (Debian: {package or tool})"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
