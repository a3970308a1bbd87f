"""check_float_environment: whether this thread rounds to nearest, once, and keeps subnormals, as the bits demand."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.errors import FloatEnvironmentBad
from presk_db.native.numbers import COMPUTED, KEYS, Array

Sum = Callable[[Array, Array], Array]

_REMEDY = (
    "a library loaded into this process was probably linked with -ffast-math; "
    "run presk in a process without it, or import presk_db and run first"
)


def check_float_environment() -> None:
    """Raises FloatEnvironmentBad (E4001) where subnormals are flushed or sums are not rounded to nearest, once."""
    with np.errstate(all="ignore"):
        for type_ in ("f32", "f64"):
            _check_subnormals(type_, COMPUTED[type_], KEYS[type_])
            check_rounding(type_, np.add)


def _check_subnormals(type_: str, dtype: np.dtype[Any], bits: np.dtype[Any]) -> None:
    exponent = 1 << np.finfo(dtype).nmant  # the bits of the smallest normal number
    # Operands from bits, results as bits, so that no conversion that is itself flushed decides what is tested.
    normal: Array = np.array([exponent], bits).view(dtype)
    if (normal * dtype.type(0.5)).view(bits)[0] != exponent // 2:
        raise FloatEnvironmentBad(f"subnormal results of {type_} become zero: {_REMEDY}")
    subnormal: Array = np.array([1, 3], bits).view(dtype)
    if (subnormal + subnormal).view(bits).tolist() != [2, 6]:
        raise FloatEnvironmentBad(f"subnormal operands of {type_} are taken as zero: {_REMEDY}")


def check_rounding(type_: str, add: Sum) -> None:
    """Raises FloatEnvironmentBad (E4001) unless `add` rounds the sums of a compute type to nearest, ties to even, once.

    1 and a hair more than half a unit is 1 and a unit; x87 rounds it to 64 bits first, which is a tie, and then to 1.
    """
    dtype = COMPUTED[type_]
    ulp: Array = np.array([2.0 ** -np.finfo(dtype).nmant], dtype)
    one: Array = np.array([1], dtype)
    up = ulp / 2 * (1 + ulp)
    near = [add(one, ulp / 8) == one, add(-one, -ulp / 8) == -one, add(one, ulp / 2) == one]
    near += [add(one, ulp * dtype.type(1.5)) == add(one, ulp * 2), add(-one, ulp / 16) == -one]
    if not all(n.all() for n in near):
        raise FloatEnvironmentBad(f"{type_} does not round to nearest, ties to even: {_REMEDY}")
    if (add(one, up) != one + ulp).any() or (add(-one, -up) != -(one + ulp)).any():
        raise FloatEnvironmentBad(f"{type_} is rounded twice, as x87 does: use a Python that computes with SSE2")
