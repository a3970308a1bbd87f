"""drawn_weight, drawn_input: tensors drawn from a seed, the same on every machine."""

import hashlib
from math import prod
from typing import Any

import numpy as np

from presk_db.keys import Key

_PIECE = 1 << 20  # draws at a time


def tensor_key(seed: int, tensor: str) -> Key:
    """The key of a tensor: the child of the seed's key whose number is the first 8 bytes of SHA-256 of the name."""
    name = hashlib.sha256(tensor.encode("utf-8")).digest()
    return Key.from_seed(seed).child(int.from_bytes(name[:8], "little"))


def drawn_weight(
    seed: int, tensor: str, shape: tuple[int, ...], low: float, high: float
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The tensor's elements, in row-major order, uniform in [low, high): `shape`.

    Element i is low + u * (high - low) in f64, u the i-th uniform number of the tensor's key, rounded once to f32.
    So an element can round up to `high`.
    """
    key = tensor_key(seed, tensor)
    n = prod(shape)
    out = np.empty(n, np.float32)
    for start in range(0, n, _PIECE):
        count = min(_PIECE, n - start)
        scaled = key.uniform(count, start) * (np.float64(high) - np.float64(low))
        out[start : start + count] = np.float64(low) + scaled
    return out.reshape(shape)


def drawn_input(
    seed: int, name: str, shape: tuple[int, ...], limit: int | None, low: float = -1.0, high: float = 1.0
) -> np.ndarray[Any, np.dtype[Any]]:
    """An input's elements from the key of `inputs/NAME`: `shape`.

    Integers floor(u * limit) as int64; without a limit, float32 numbers uniform in [low, high), as a weight's are.
    """
    u = tensor_key(seed, f"inputs/{name}").uniform(prod(shape))
    if limit is not None:
        whole: np.ndarray[Any, np.dtype[np.int64]] = np.floor(u * limit).astype(np.int64)
        return whole.reshape(shape)
    reals: np.ndarray[Any, np.dtype[np.float32]] = (low + u * (high - low)).astype(np.float32)
    return reals.reshape(shape)
