"""The correctly rounded functions of kernels, by name and type."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.native import functions_f32, functions_f64

Array = np.ndarray[Any, np.dtype[Any]]


def function(name: str, type_: str) -> Callable[[Array], Array]:
    """The function `name` on arrays of `type_` (f32 or f64)."""
    tables: dict[str, Any] = {"f32": functions_f32.FUNCTIONS, "f64": functions_f64.FUNCTIONS}
    found: Callable[[Array], Array] = tables[type_][name]
    return found
