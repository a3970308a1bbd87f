"""Files for the commands' tests."""

import sys
from pathlib import Path

import pytest
from pipeline import FIXTURES, ROOT

sys.path.insert(0, str(ROOT / "tests" / "checkpoints"))
from gguf_bytes import LLAMA, gguf_bytes, llama_arrays, raw_f32


@pytest.fixture
def fixtures() -> Path:
    """The repository's fixtures."""
    return FIXTURES


@pytest.fixture
def gguf() -> bytes:
    """A Llama of one layer as a GGUF file."""
    return gguf_bytes(LLAMA, [raw_f32(name, array) for name, array in llama_arrays().items()])
