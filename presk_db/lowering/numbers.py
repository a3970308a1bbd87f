"""Exact reals rounded once to a compute type."""

import numpy as np


def rounded(value: float, type_: str) -> float:
    """The f64 `value` rounded to `type_` (f32 or f64), as a Python float; overflow gives an infinity."""
    if type_ == "f64":
        return value
    with np.errstate(all="ignore"):
        return float(np.float32(value))
