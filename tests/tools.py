"""What tests need of the machine: `needs` and `not_run` skip a test loudly, and fail it in continuous integration."""

import os
import shutil
from pathlib import Path

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


def has_fma() -> bool:
    """Whether this is an x86 CPU with fused multiply-adds, as Linux tells."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and " fma " in cpuinfo.read_text()
