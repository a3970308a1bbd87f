"""Applies an elementwise function piece by piece, so that its temporaries stay in the cache, and quietly."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 32768  # of the array passed: f32 functions compute in f64, f64 functions with more arrays
T = TypeVar("T", bound=np.floating[Any])


def chunked(f: Callable[[NDArray[T]], NDArray[T]], scalar: type[T]) -> Callable[[NDArray[T]], NDArray[T]]:
    """Returns f for arrays of any shape (S…) -> (S…), with NumPy's floating-point warnings off.

    Args:
        f: A function of contiguous one-dimensional arrays, element by element.
        scalar: The element type; an array of another type is refused with a TypeError.
    """

    def whole(x: NDArray[T]) -> NDArray[T]:
        if x.dtype != scalar:
            raise TypeError(f"expected {np.dtype(scalar)}, got {x.dtype}")
        flat = np.ascontiguousarray(x).reshape(-1)
        out = np.empty_like(flat)
        chunk = CHUNK_BYTES // flat.itemsize
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, chunk):
                out[start : start + chunk] = f(flat[start : start + chunk])
        return out.reshape(x.shape)

    return whole
