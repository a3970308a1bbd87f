"""The correctly rounded functions of kernels, by name and type."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.native import functions_f32, functions_f64

Array = np.ndarray[Any, np.dtype[Any]]

_BY_TYPE: dict[str, dict[str, Callable[[Array], Array]]] = {
    "f32": functions_f32.FUNCTIONS,
    "f64": functions_f64.FUNCTIONS,
}


def function(name: str, type_: str) -> Callable[[Array], Array]:
    """The function `name` on arrays of `type_` (f32 or f64)."""
    return _BY_TYPE[type_][name]
