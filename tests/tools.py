"""needs, not_run: a tool that a test runs; without it the test is skipped, loudly, and in continuous integration it fails."""

import os
import shutil

import pytest


def needs(tool: str, package: str | None = None) -> None:
    """Skips the test where `tool` is not installed; fails it where CI is set."""
    if shutil.which(tool) is None:
        not_run(f"{tool} is not installed (Debian: {package or tool})")


def not_run(reason: str) -> None:
    """Skips the test for this reason; fails it where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(f"not run: {reason}")
    pytest.skip(f"not run: {reason}")
