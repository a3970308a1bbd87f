"""exp, log, sine and the error functions as double-doubles on NumPy arrays: the fast paths of the f64 functions.

Each function states its relative error. The tables and polynomials are those of `tables_f64`. The method: reduce the
argument exactly or to 2**-100 with a table, then a short polynomial whose first terms are kept in double-double.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from presk_db.native import tables_f64 as tables
from presk_db.native.double_double import (
    DD,
    F64,
    Constant,
    fast_sum,
    horner,
    plus,
    times,
    two_product,
    two_square,
    two_sum,
)
from presk_db.native.reduction import reduced_quarters

I64 = NDArray[np.int64]

SHIFTER = float.fromhex("0x1.8p+52")  # adding and subtracting it rounds to an integer
STEPS_PER_E = float.fromhex("0x1.71547652b82fep+6")  # 64 / log 2
TWO_PI = float.fromhex("0x1.45f306dc9c883p-1")  # 2 / pi
LN2_64: list[float] = tables.LN2_64[0].tolist()
LN2: list[float] = tables.LN2[0].tolist()
HALF_PI: list[float] = tables.HALF_PI[0].tolist()
SQRT_HALF = Constant(*tables.SQRT_HALF[0].tolist())
EXP_TAIL: list[float] = tables.EXP_TAIL[0].tolist()
LOG_TAIL: list[float] = tables.LOG_TAIL[0].tolist()
SIN_TAIL: list[float] = tables.SIN_TAIL[0].tolist()
COS_TAIL: list[float] = tables.COS_TAIL[0].tolist()
ERF_SERIES: list[float] = tables.ERF_SERIES[0].tolist()
EXP_COLUMNS = tables.EXP.T.copy()
LOG_COLUMNS = tables.LOG.T.copy()
SINCOS_COLUMNS = tables.SINCOS.T.copy()
ERFCX_COLUMNS = tables.ERFCX.T.copy()
LOG_OFFSET = np.int64(0x3FE6A00000000000)
ERFCX_PAIRS = 6
ERF_PLAIN = 8


class Scaled(NamedTuple):
    """value * 2**exponent, elementwise; value's magnitude is far from overflow and underflow."""

    value: DD
    exponent: I64


def _looked_up(columns: F64, row: I64) -> list[F64]:
    """The table's rows, column by column: contiguous arrays are several times faster to compute with."""
    return [column.take(row, mode="clip") for column in columns]  # the rows are in range; clip spares a copy


def scaled_by(x: F64, k: I64) -> F64:
    """x * 2**k for -1000 < k < 1000, exactly where the result is a normal double."""
    return x * ((k + 1023) << 52).view(np.float64)


def _exp_parts(x: DD) -> tuple[I64, DD, DD]:
    """k, t, p with e**x = 2**k t (1 + p), t = 2**(j / 64), |p| < 0.0055; p's relative error below 2**-67.5.

    Requires |x| < 1100.
    """
    shifted = x.high * STEPS_PER_E + SHIFTER
    n = shifted - SHIFTER
    steps = shifted.view(np.int64) - np.int64(0x4338000000000000)
    r = two_sum(x.high - n * LN2_64[0], -(n * LN2_64[1]))  # the first difference is exact
    r = fast_sum(r.high, (r.low - n * LN2_64[2]) + x.low)
    square = two_square(r.high)
    cube_term = (r.high * square.high) * horner(EXP_TAIL, r.high)
    half = fast_sum(0.5 * square.high, 0.5 * square.low + r.high * r.low + cube_term)
    t = DD(*_looked_up(EXP_COLUMNS, steps & 63))
    return steps >> 6, t, plus(r, half)


def exp_dd(x: DD) -> Scaled:
    """e**x for |x| < 1100; error below 2**-75, the value in [0.99, 2.01]."""
    k, t, p = _exp_parts(x)
    return Scaled(plus(t, times(p, t)), k)


def expm1_dd(x: DD) -> Scaled:
    """e**x - 1 for -60 <= x < 1100; error below 2**-67.5, and below 2**-74 and 2**-100 of the value."""
    k, t, p = _exp_parts(x)
    e = plus(t, times(p, t))
    one = ((1023 - np.minimum(k, 1022)) << 52).view(np.float64)  # 2**-k, or 2**-1022 where it does not count
    shifted = two_sum(-one, e.high)
    value = fast_sum(shifted.high, shifted.low + e.low)
    near = (t.high == 1.0) & (k == 0)
    return Scaled(DD(np.where(near, p.high, value.high), np.where(near, p.low, value.low)), k)


def log_dd(u: DD) -> DD:
    """log u for positive normal u; error below 2**-67.4 of a result near 0, and below 2**-75 and 2**-95 of any."""
    t = u.high.view(np.int64) - LOG_OFFSET
    k = t >> 52
    m = ((t & np.int64(0xFFFFFFFFFFFFF)) + LOG_OFFSET).view(np.float64)
    inverse, log_high, log_low = _looked_up(LOG_COLUMNS, (t >> 44) & 255)
    product = two_product(m, inverse)
    scale = ((1023 - np.clip(k, -1000, 1000)) << 52).view(np.float64)
    r = fast_sum(product.high - 1.0, product.low + (u.low * scale) * inverse)
    square = two_square(r.high)
    cube_term = (r.high * square.high) * horner(LOG_TAIL, r.high)
    half = fast_sum(-0.5 * square.high, cube_term - (0.5 * square.low + r.high * r.low))
    exponent = k.astype(np.float64)
    whole = two_sum(exponent * LN2[0], log_high)
    whole = fast_sum(whole.high, whole.low + (exponent * LN2[1] + log_low))
    return plus(whole, plus(r, half))


def quarters_dd(x: F64) -> tuple[NDArray[np.int64], DD]:
    """q and r with x = q pi / 2 + r, |r| <= pi / 4 and a bit; error of r below 2**-73. NaN for infinities."""
    shifted = x * TWO_PI + SHIFTER
    k = shifted - SHIFTER
    a = two_sum(x - k * HALF_PI[0], -(k * HALF_PI[1]))  # the products are exact for |k| < 2**20
    b = two_sum(a.high, -(k * HALF_PI[2]))
    r = fast_sum(b.high, b.low + (a.low - k * HALF_PI[3]))
    q = shifted.view(np.int64).copy()
    far = np.flatnonzero(~(np.abs(x) < 2.0**20))
    if far.size:
        far_q, r.high[far], r.low[far] = reduced_quarters(x[far])
        q[far] = far_q.view(np.int64)
    return q, r


def sine_dd(q: NDArray[np.int64], r: DD) -> DD:
    """sin(q pi / 2 + r) for |r| <= 0.7859; error below 2**-67.1, absolute below 2**-74.1."""
    negative = r.high < 0
    x = DD(np.where(negative, -r.high, r.high), np.where(negative, -r.low, r.low))
    j = np.rint(x.high * 64.0)
    h = fast_sum(x.high - j * 0.015625, x.low)
    row = _looked_up(SINCOS_COLUMNS, j.astype(np.int64))
    cosine = (q & 1) != 0
    a = DD(np.where(cosine, row[2], row[0]), np.where(cosine, row[3], row[1]))
    b = DD(np.where(cosine, -row[0], row[2]), np.where(cosine, -row[1], row[3]))
    square = two_square(h.high)
    sin_h = fast_sum(h.high, h.low + (h.high * square.high) * horner(SIN_TAIL, square.high))
    quartic = (square.high * square.high) * horner(COS_TAIL, square.high)
    cos_h = fast_sum(-0.5 * square.high, quartic - (0.5 * square.low + h.high * h.low))  # less 1
    s = plus(a, plus(times(b, sin_h), times(a, cos_h)))
    flip = ((q & 2) != 0) ^ (negative & ~cosine)
    return DD(np.where(flip, -s.high, s.high), np.where(flip, -s.low, s.low))


def erf_over_x_dd(x: DD) -> DD:
    """erf(x) / x for |x| <= 1/2; error below 2**-71.4."""
    z = two_square(x.high)
    z = fast_sum(z.high, z.low + 2.0 * (x.high * x.low))
    top = horner(ERF_SERIES[:ERF_PLAIN], z.high) * z.high
    value = two_sum(ERF_SERIES[ERF_PLAIN], top)
    value = DD(value.high, value.low + ERF_SERIES[ERF_PLAIN + 1])
    for i in range(ERF_PLAIN + 2, len(ERF_SERIES), 2):
        value = plus(Constant(ERF_SERIES[i], ERF_SERIES[i + 1]), times(value, z))
    return value


def erfcx_dd(x: DD) -> DD:
    """e**(x**2) erfc(x) for 1/2 <= x < 32; error below 2**-70.1, for x < 2 below 2**-75.5."""
    first = np.int64(0x3FE0000000000000 >> 50)
    row = _looked_up(ERFCX_COLUMNS, (x.high.view(np.int64) >> 50) - first)
    u = fast_sum(x.high - row[0], x.low)
    plain = len(row) - 2 * ERFCX_PAIRS
    top = row[1] * u.high
    for i in range(2, plain):
        top += row[i]
        top *= u.high
    value = two_sum(row[plain], top)
    value = DD(value.high, value.low + row[plain + 1])
    for i in range(plain + 2, len(row), 2):
        value = plus(DD(row[i], row[i + 1]), times(value, u))
    return value
