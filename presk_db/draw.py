"""Weights and inputs drawn from a seed: each tensor from the seed's key's child of its name."""

import hashlib
import math
from typing import Any

import numpy as np

from presk_db.keys import Key

Array = np.ndarray[Any, np.dtype[Any]]


def tensor_key(seed: int, name: str) -> Key:
    """The child of the seed's key whose number is the first 8 bytes of SHA-256 of the name, halved, little-endian."""
    digest = hashlib.sha256(name.encode()).digest()
    return Key.from_seed(seed).child(int.from_bytes(digest[:8], "little") >> 1)


def drawn_weight(seed: int, tensor: str, shape: tuple[int, ...], low: float, high: float) -> Array:
    """float32 numbers uniform in [low, high): low + u (high - low) in f64, in row-major order, rounded once to f32."""
    u = tensor_key(seed, tensor).uniform(math.prod(shape))
    values: Array = (low + u * (high - low)).astype(np.float32)
    return values.reshape(shape)


def drawn_input(seed: int, name: str, shape: tuple[int, ...], limit: int | None) -> Array:
    """int64 numbers floor(u limit), or, without a limit, float32 numbers uniform in [-1, 1)."""
    u = tensor_key(seed, f"inputs/{name}").uniform(math.prod(shape))
    if limit is None:
        reals: Array = (2.0 * u - 1.0).astype(np.float32)
        return reals.reshape(shape)
    tokens: Array = np.floor(u * limit).astype(np.int64)
    return tokens.reshape(shape)
