"""check_float_environment: whether this thread rounds to nearest and keeps subnormals, as the bits demand."""

from typing import Any

import numpy as np

from presk_db.errors import FloatEnvironmentBad
from presk_db.native.numbers import COMPUTED, KEYS, Array

_REMEDY = (
    "a library loaded into this process was probably linked with -ffast-math; "
    "run presk in a process without it, or import presk_db and run first"
)


def check_float_environment() -> None:
    """Raises FloatEnvironmentBad (E4001) where subnormals are flushed or rounding is not to nearest."""
    with np.errstate(all="ignore"):
        for type_ in ("f32", "f64"):
            _check(type_, COMPUTED[type_], KEYS[type_])


def _check(type_: str, dtype: np.dtype[Any], bits: np.dtype[Any]) -> None:
    info = np.finfo(dtype)
    exponent = 1 << info.nmant  # the bits of the smallest normal number
    # Operands from bits, results as bits, so that no conversion that is itself flushed decides what is tested.
    normal: Array = np.array([exponent], bits).view(dtype)
    if (normal * dtype.type(0.5)).view(bits)[0] != exponent // 2:
        raise FloatEnvironmentBad(f"subnormal results of {type_} become zero: {_REMEDY}")
    subnormal: Array = np.array([1, 3], bits).view(dtype)
    if (subnormal + subnormal).view(bits).tolist() != [2, 6]:
        raise FloatEnvironmentBad(f"subnormal operands of {type_} are taken as zero: {_REMEDY}")
    one: Array = np.array([1, -1], dtype)
    ulp: Array = np.array([2.0**-info.nmant], dtype)
    near = [(one + ulp / 8 == one).all(), (one - ulp / 8 == one).all(), (one[:1] + ulp / 2 == one[:1]).all()]
    if not all(near) or one[:1] + ulp * dtype.type(1.5) != one[:1] + ulp * dtype.type(2):
        raise FloatEnvironmentBad(f"{type_} does not round to nearest, ties to even: {_REMEDY}")
