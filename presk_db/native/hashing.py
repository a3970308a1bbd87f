"""hash_of: the 64-bit hash of what a launch writes, as `presk_hash.h` defines it."""

from functools import lru_cache

import numpy as np

from presk_db.native.numbers import Array, canonical

PIECE = 1 << 14
"""Elements of a piece: what is computed of one stays in the cache."""

_STEP = 0x9E3779B97F4A7C15
_WORD = 2**64


def hash_of(array: Array, type_: str) -> int:
    """The hash of a flat array of a storage type, in [0, 2**64).

    With the bits x[i] of its n elements, every NaN the canonical one, cut into pieces of 2**14: h = n, then for each piece
    h = mix(h + sum of (x[i] ^ x[i] >> 32) * (mix((i + 1) * 0x9e3779b97f4a7c15) | 1)) modulo 2**64, i counted within the
    piece; mix is the finalizer of splitmix64.
    """
    h = array.size
    for start in range(0, array.size, PIECE):
        piece = array[start : start + PIECE]
        if type_ == "bf16" or (piece.dtype.kind == "f" and bool(np.isnan(piece).any())):
            piece = canonical(piece, type_)
        words = np.ascontiguousarray(piece).view(f"u{piece.dtype.itemsize}").astype(np.uint64)
        if piece.dtype.itemsize == 8:
            words ^= words >> np.uint64(32)
        words *= _factors()[: words.size]
        h = mixed((h + int(np.add.reduce(words))) % _WORD)
    return h


@lru_cache(maxsize=1)
def _factors() -> Array:
    """What each element of a piece is multiplied by: odd, so that no single change is lost."""
    return np.array([mixed((i + 1) * _STEP % _WORD) | 1 for i in range(PIECE)], np.uint64)


def mixed(z: int) -> int:
    """The finalizer of splitmix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % _WORD
    return z ^ (z >> 31)
