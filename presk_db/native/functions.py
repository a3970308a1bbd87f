"""function: the NumPy twin of a correctly rounded function, by name and type."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.native import functions_f32, functions_f64

Array = np.ndarray[Any, np.dtype[Any]]


def function(name: str, type_: str) -> Callable[[Array], Array]:
    """Elementwise `name` on arrays of `type_` (f32 or f64)."""
    return {"f32": functions_f32, "f64": functions_f64}[type_].FUNCTIONS[name]
