"""Fused multiply-add in NumPy: a * b + c rounded once, for every f32 and every f64."""

from math import inf, isfinite
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once to the operands' type (f32 or f64), subnormals and overflow included."""
    a, b, c = np.broadcast_arrays(a, b, c)
    return _fma32(a, b, c) if a.dtype == np.float32 else _fma64(a, b, c)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth); where nothing overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _odd(s: Array, error: Array) -> Array:
    """The sum s + error rounded to odd: where it is inexact and s is even, its neighbour on the error's side."""
    bits = s.view(np.int64)
    step = np.where((error > 0) == (s > 0), np.int64(1), np.int64(-1))
    adjust = (error != 0) & np.isfinite(s) & np.isfinite(error) & ((bits & 1) == 0)
    return np.where(adjust, bits + step, bits).view(np.float64)


def _fma32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in f64; the sum is rounded to odd in f64's 53 bits, which rounds right in 24 afterwards."""
    s, error = _two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return _odd(s, error).astype(np.float32)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm where no part can over- or underflow, exact integers elsewhere."""
    result = _boldo_melquiond(a, b, c)
    safe = _moderate(a) & _moderate(b) & (_moderate(c) | (c == 0))
    if not safe.all():
        for at in np.argwhere(~safe):
            where = tuple(at)
            result[where] = exact_fma(float(a[where]), float(b[where]), float(c[where]))
    return result


def _moderate(x: Array) -> Array:
    magnitude = np.abs(x)
    fits: Array = (magnitude > 2.0**-200) & (magnitude < 2.0**200)
    return fits


def _split(x: Array) -> tuple[Array, Array]:
    """Veltkamp: x as the sum of two halves of 26 bits."""
    t = x * 134217729.0
    high = t - (t - x)
    return high, x - high


def _boldo_melquiond(a: Array, b: Array, c: Array) -> Array:
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    error = al * bl - (((product - ah * bh) - al * bh) - ah * bl)
    th, tl = _two_sum(c, error)
    vh, vl = _two_sum(product, th)
    return vh + _odd(*_two_sum(tl, vl))


def exact_fma(a: float, b: float, c: float) -> float:
    """a * b + c of three f64, through exact rationals; Python's integer division rounds right."""
    if not (isfinite(a) and isfinite(b)):
        return a * b + c
    if not isfinite(c):
        return c
    if a == 0 or b == 0:
        return a * b + c
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    numerator = an * bn * cd + cn * ad * bd
    if numerator == 0:
        return 0.0
    try:
        return numerator / (ad * bd * cd)
    except OverflowError:
        return inf if numerator > 0 else -inf
