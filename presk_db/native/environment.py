"""check_float_environment: whether this thread rounds to nearest and keeps subnormals, as the bits demand."""

import numpy as np

from presk_db.errors import FloatEnvironmentBad

_REMEDY = (
    "a library loaded into this process was probably linked with -ffast-math; "
    "run presk in a process without it, or import presk_db and run first"
)


def check_float_environment() -> None:
    """Raises FloatEnvironmentBad (E4001) where subnormals are flushed or rounding is not to nearest."""
    with np.errstate(all="ignore"):
        for dtype in (np.float32, np.float64):
            info = np.finfo(dtype)
            # From bits, so that no conversion that is itself flushed decides what is tested.
            integer = np.int32 if dtype is np.float32 else np.int64
            subnormal = np.array([1, 3], integer).view(dtype)
            normal = np.array([info.smallest_normal], dtype)
            if not ((normal * dtype(0.5)).view(integer) != 0).all():
                raise FloatEnvironmentBad(f"subnormal results of {info.dtype} become zero: {_REMEDY}")
            if not ((subnormal + subnormal).view(integer) == np.array([2, 6], integer)).all():
                raise FloatEnvironmentBad(f"subnormal operands of {info.dtype} are taken as zero: {_REMEDY}")
            one, tiny = np.array([1, -1], dtype), np.array([info.eps / 8], dtype)
            if not ((one + tiny == one) & (one - tiny == one)).all():
                raise FloatEnvironmentBad(f"{info.dtype} does not round to nearest: {_REMEDY}")
            tie = np.array([info.eps / 2], dtype)
            if not (one + tie == one).all() or (one[0] + dtype(3) * tie != one[0] + dtype(4) * tie).any():
                raise FloatEnvironmentBad(f"{info.dtype} does not round ties to even: {_REMEDY}")
