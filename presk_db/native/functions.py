"""The elementary functions by name and type: correctly rounded, in NumPy, for any shape."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.native import functions_f32, functions_f64
from presk_db.native.chunks import chunked

Function = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]

# sqrt is exact in IEEE 754, so NumPy's own does
FUNCTIONS: dict[str, dict[str, Function]] = {
    "f32": {**functions_f32.FUNCTIONS, "sqrt": chunked(np.sqrt, np.float32)},
    "f64": {**functions_f64.FUNCTIONS, "sqrt": chunked(np.sqrt, np.float64)},
}


def function(name: str, type: str) -> Function:
    """Returns the function `name` on arrays of `type`: (S…) -> (S…), each element rounded correctly.

    Args:
        name: exp, expm1, log, log1p, tanh, sin, cos, erf, sigmoid, silu, gelu (the exact one, x·Phi(x)) or sqrt.
        type: f32 or f64; the array passed must have it (TypeError otherwise).

    Raises:
        KeyError: For another name or type.
    """
    return FUNCTIONS[type][name]
