"""The correctly rounded value of an elementary function, by MPFR: the reference of the functions' checks."""

import math
from collections.abc import Callable

import gmpy2
from gmpy2 import mpfr

_FORMATS = {
    "f32": gmpy2.context(precision=24, emax=128, emin=-148, subnormalize=True),
    "f64": gmpy2.context(precision=53, emax=1024, emin=-1073, subnormalize=True),
}
_GUARD_BITS = 20  # what the steps below lose, gelu's x*x / 2 <= 1200 included


def _sigmoid(x: mpfr) -> mpfr:
    return 1 / (1 + gmpy2.exp(-x))


def _gelu(x: mpfr) -> mpfr:
    return x * gmpy2.erfc(-x / gmpy2.sqrt(mpfr(2))) / 2


REAL: dict[str, Callable[[mpfr], mpfr]] = {
    "exp": gmpy2.exp,
    "expm1": gmpy2.expm1,
    "log": gmpy2.log,
    "log1p": gmpy2.log1p,
    "tanh": gmpy2.tanh,
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "erf": gmpy2.erf,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
}
"""Each function on MPFR numbers, right to all but a few of the current precision's bits."""

NAMES = tuple(REAL)

_AT_ZERO = {"exp": 1.0, "cos": 1.0, "sigmoid": 0.5, "log": -math.inf}
_AT_INFINITY = {
    "exp": (0.0, math.inf),
    "expm1": (-1.0, math.inf),
    "log": (math.nan, math.inf),
    "log1p": (math.nan, math.inf),
    "tanh": (-1.0, 1.0),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "erf": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "silu": (-0.0, math.inf),
    "gelu": (-0.0, math.inf),
}


def exact(name: str, x: float, type: str) -> float:
    """Returns NAME(x) rounded once to `type` (f32 or f64), as a float.

    Computes with 120 bits, and with more while the two ends of the enclosure round differently. Zero, infinities, NaN
    and the functions' few rational values are written down.
    """
    if math.isnan(x):
        return math.nan
    if x == 0:
        return _AT_ZERO.get(name, x)
    if math.isinf(x):
        return _AT_INFINITY[name][x > 0]
    if (name == "log" and x < 0) or (name == "log1p" and x < -1):
        return math.nan
    if name == "log1p" and x == -1:
        return -math.inf
    if name == "log" and x == 1:
        return 0.0
    precision = 120
    while True:
        with gmpy2.context(precision=precision):
            y = REAL[name](mpfr(x))
            margin = mpfr(2) ** (_GUARD_BITS - precision)
            ends = (y * (1 - margin), y * (1 + margin))
        with _FORMATS[type]:
            low, high = float(+ends[0]), float(+ends[1])
        if low == high and math.copysign(1, low) == math.copysign(1, high):
            return low
        precision *= 3
        if precision > 12_000:
            raise ArithmeticError(f"{name}({x.hex()}) stays undecided")


def hardness(name: str, x: float) -> float:
    """Returns how near f64's NAME(x) is to the middle of two doubles: log2 of the distance over the value."""
    with gmpy2.context(precision=400):
        y = abs(REAL[name](mpfr(x)))
        scaled = y * mpfr(2) ** (53 - int(gmpy2.floor(gmpy2.log2(y))))  # the middles are the odd integers
        middle = 2 * gmpy2.floor(scaled / 2) + 1
        return float(gmpy2.log2(abs(scaled - middle) / scaled))
