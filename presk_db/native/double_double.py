"""Double-double arithmetic on NumPy arrays: a value is an unevaluated sum (high, low), |low| <= ulp(high) / 2.

The error-free sums and products are Knuth's, Dekker's and Veltkamp's; bounds are relative and hold without overflow
or underflow.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


class DD(NamedTuple):
    """high + low, elementwise."""

    high: F64
    low: F64


class Constant(NamedTuple):
    """A real constant as the double nearest to it and the double nearest to what is left."""

    high: float
    low: float


Pair = DD | Constant
SPLITTER = 134217729.0  # 2**27 + 1


def fast_sum(a: F64, b: F64) -> DD:
    """a + b exactly, where |a| >= |b| or a = 0."""
    s = a + b
    return DD(s, b - (s - a))


def two_sum(a: F64 | float, b: F64) -> DD:
    """a + b exactly."""
    s = a + b
    t = s - a
    return DD(s, (a - (s - t)) + (b - t))


def _split(a: F64) -> tuple[F64, F64]:
    c = a * SPLITTER
    high = c - (c - a)
    return high, a - high


def _split_float(a: float) -> tuple[float, float]:
    c = a * SPLITTER
    high = c - (c - a)
    return high, a - high


def two_product(a: F64, b: F64 | float) -> DD:
    """a * b exactly, where neither overflows when split and the product's last bit does not underflow."""
    ah, al = _split(a)
    bh: F64 | float
    bl: F64 | float
    bh, bl = _split_float(b) if isinstance(b, float) else _split(b)
    p = a * b
    low = ah * bh
    low -= p
    low += ah * bl
    low += al * bh
    low += al * bl
    return DD(p, low)


def two_square(a: F64) -> DD:
    """a * a exactly, under two_product's conditions."""
    ah, al = _split(a)
    p = a * a
    low = ah * ah
    low -= p
    low += 2.0 * (ah * al)
    low += al * al
    return DD(p, low)


def plus(a: Pair, b: DD) -> DD:
    """a + b, error below 2**-103 unless they cancel."""
    s = two_sum(a.high, b.high)
    low = a.low + b.low
    low += s.low
    return fast_sum(s.high, low)


def times(a: DD, b: Pair) -> DD:
    """a * b, error below 2**-102."""
    p = two_product(a.high, b.high)
    low = a.high * b.low
    low += a.low * b.high
    low += p.low
    return fast_sum(p.high, low)


def over(a: DD, b: DD) -> DD:
    """a / b, error below 2**-101."""
    q = a.high / b.high
    p = two_product(q, b.high)
    rest = a.high - p.high
    rest -= p.low
    rest += a.low
    rest -= q * b.low
    rest /= b.high
    return fast_sum(q, rest)


def horner(coefficients: Sequence[float], x: F64) -> F64:
    """The polynomial's value in plain f64, its coefficients given from the highest power down."""
    p = x * coefficients[0]
    for c in coefficients[1:-1]:
        p += c
        p *= x
    p += coefficients[-1]
    return p
