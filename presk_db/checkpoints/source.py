"""TensorSource: where parameters are read from, by name, as exact reals, one tensor at a time."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorInfo:
    """What a file says of one tensor: its name, its storage type (`F32`, `BF16`, `Q4_1`) and its shape, row-major."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The product of the shape; 1 for a scalar."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product


class TensorSource(Protocol):
    """Named tensors of one checkpoint, read lazily.

    `read` returns the exact reals, in the shape that `info` states: float32 where the storage type's every value is a
    float32, float64 for the other real types, int64 for integers and truth values. The array may be a read-only view
    of the file. Unknown names raise TensorMissing (E1104), types that presk does not read TensorTypeBad (E1107).
    """

    def names(self) -> list[str]:
        """All names, sorted by code point (which is the order of their UTF-8 bytes)."""
        ...

    def info(self, name: str) -> TensorInfo:
        """The tensor's type and shape, without reading it."""
        ...

    def read(self, name: str) -> Array:
        """The tensor's exact values: float32, float64 or int64."""
        ...

    def digest(self) -> str:
        """The SHA-256, in hexadecimal, of the file's content; of several files, see `digest_of_files`."""
        ...

    def describe(self) -> str:
        """One line for people: the path as given, the format, the number of tensors."""
        ...


def is_float32(values: Array) -> bool:
    """Whether every element of a float64 array is a float32: a conversion there and back changes no value."""
    flat = values.reshape(-1)
    piece = 1 << 20
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, flat.size, piece):
            part = flat[start : start + piece]
            back = part.astype(np.float32).astype(np.float64)
            if not bool(np.all((back == part) | (part != part))):
                return False
    return True
