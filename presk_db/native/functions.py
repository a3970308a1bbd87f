"""The correctly rounded functions of kernels, by name and type."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def function(name: str, type_: str) -> Callable[[Array], Array]:
    """The function `name` on arrays of `type_` (f32 or f64)."""
    raise NotImplementedError(f"{name}.{type_}")
