"""presk_hash.c and its twin in NumPy: one hash for the same elements, another for any others."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_runtime import FIXTURES, RUNTIME, SANITIZED, STRICT, compile_c

from presk_db.native.hashing import PIECE, hash_of
from presk_db.native.numbers import STORAGE

DTYPES = {"f64": 0, "f32": 1, "bf16": 3, "i64": 4, "bool": 9}
"""The types' numbers in presk_tensors.h."""
COUNTS = (0, 1, 7, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5)


def random_array(type_: str, count: int) -> np.ndarray[Any, Any]:
    """Any bits: NaNs of both signs with payloads, infinities, subnormals."""
    draw = np.random.default_rng(count)
    dtype = STORAGE[type_]
    if type_ == "bool":
        return draw.integers(0, 2, count, np.uint8)
    words = draw.integers(0, 2 ** (8 * dtype.itemsize), count, f"u{dtype.itemsize}")
    return words.view(dtype)


@pytest.mark.parametrize("type_", DTYPES)
def test_c_and_numpy_agree(type_: str, tmp_path: Path) -> None:
    files = [FIXTURES / "hash.c", RUNTIME / "presk_hash.c", RUNTIME / "presk_header.c", RUNTIME / "presk_json.c"]
    files += [RUNTIME / "presk_rt.c"]
    done = compile_c(tmp_path / "hash", files, [*STRICT, *SANITIZED, "-DPRESK_HASH"])
    assert (done.returncode, done.stderr) == (0, "")
    arrays = [random_array(type_, n) for n in COUNTS]
    given = b"".join(np.array([DTYPES[type_], a.size], "<i8").tobytes() + a.tobytes() for a in arrays)
    subprocess.run([tmp_path / "hash", tmp_path / "out"], input=given, check=True)
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[2:-1] == [f"{n} main 0 ? {hash_of(a, type_):016x}" for n, a in enumerate(arrays)]
    assert lines[-1] == f"end {len(COUNTS)}"


def test_every_symbol_takes_the_prefix(tmp_path: Path) -> None:
    flags = [*STRICT, "-O1", "-c", "-DPRESK_HASH", "-DPRESK_PREFIX=gpt_"]
    for compiler in ("gcc", "clang-19"):
        done = compile_c(tmp_path / "hash.o", [RUNTIME / "presk_hash.c"], flags, compiler)
        assert (done.returncode, done.stderr) == (0, "")
    out = subprocess.run(
        ["nm", "-g", "--defined-only", tmp_path / "hash.o"], capture_output=True, text=True, check=True
    )
    symbols = [line.split()[2] for line in out.stdout.splitlines()]
    assert len(symbols) == 6 and all(symbol.startswith("gpt_presk_hash_") for symbol in symbols)


def test_known_values() -> None:
    """Frozen: recordings hold them."""
    assert [f"{hash_of(np.arange(n, dtype=np.int64), 'i64'):016x}" for n in (0, 1, 100000)] == KNOWN


KNOWN = ["0000000000000000", "5692161d100b05e5", "108f4af395fd44e2"]


@pytest.mark.parametrize("type_", DTYPES)
def test_any_change_changes_the_hash(type_: str) -> None:
    array = random_array(type_, PIECE + 9)
    array = np.where(array != array, array.dtype.type(1), array)
    right = hash_of(array, type_)
    seen = {right}
    bits = array.view(f"u{array.dtype.itemsize}")
    for at in (0, 1, PIECE - 1, PIECE, PIECE + 8):
        changed = bits.copy()
        changed[at] ^= 1
        seen.add(hash_of(changed.view(array.dtype), type_))
    seen.add(hash_of(array[::-1].copy(), type_))
    seen.add(hash_of(array[:-1], type_))
    if array.dtype.kind == "f":
        seen.add(hash_of(-array, type_))
    assert len(seen) == 8 + (array.dtype.kind == "f")


def test_every_nan_is_one() -> None:
    a = np.array([0x7FC00000, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    assert hash_of(a, "f32") == hash_of(np.full(3, np.nan, np.float32), "f32")
    b = np.array([0x7FC0, 0xFFC0, 0x7F81], np.uint16)
    assert hash_of(b, "bf16") == hash_of(np.full(3, 0x7FC0, np.uint16), "bf16")
