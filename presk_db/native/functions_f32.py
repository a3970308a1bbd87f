"""The f32 functions in NumPy, correctly rounded: exp, expm1, log, log1p, tanh, sin, cos, erf, sigmoid, silu, gelu.

Each computes in f64 with an error of a few ulps of f64 and rounds once at the end; all 2**32 inputs of each were
compared with the exact value (`presk_db.conformance.check_math`). Only exact NumPy operations are used (+ - * / rint,
comparisons, where, integers on views), because NumPy's own functions differ from build to build. The polynomials are
those of `polynomials_f32`, which states their domains and error bounds.

Private functions take and return f64 arrays holding f32 values; `FUNCTIONS` maps names to functions on f32 arrays.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from presk_db.native import polynomials_f32 as polynomials
from presk_db.native.chunks import chunked
from presk_db.native.reduction import reduced_quarters

F64 = NDArray[np.float64]

SHIFTER = float.fromhex("0x1.8p+52")  # adding and subtracting it rounds to an integer
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42fefap-1")  # 35 bits: a multiple by an integer below 2**18 is exact
LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
HALF_LN2 = float.fromhex("0x1.62e42fefa39efp-2")
TWO_SQRTPI_HIGH = float.fromhex("0x1.20dd75p+0")  # 2 / sqrt(pi): 25 bits, and the rest
TWO_SQRTPI_LOW = float.fromhex("0x1.0a6db446b8ea4p-30")
TWO_PI = float.fromhex("0x1.45f306dc9c883p-1")  # 2 / pi
HALF_PI = tuple(map(float.fromhex, ("0x1.921fb5p+0", "0x1.110b46p-26", "0x1.1a6263p-54", "0x1.8a2e03707344ap-81")))
SIGN = np.uint64(1 << 63)
_SIGMOID_HARD = float.fromhex("-0x1.250c02p-10")
_GELU_HARD = float.fromhex("0x1.6148dep-16")


def horner(coefficients: Sequence[float], x: F64) -> F64:
    """Returns the polynomial's value, its coefficients given from the highest power down."""
    p = x * coefficients[0]
    for c in coefficients[1:-1]:
        p += c
        p *= x
    p += coefficients[-1]
    return p


def _bits(x: F64) -> NDArray[np.uint64]:
    return x.view(np.uint64)


def _with_sign(r: F64, x: F64) -> F64:
    """r, whose sign is + or already x's, with x's sign."""
    bits: NDArray[np.uint64] = _bits(r) | (_bits(x) & SIGN)
    return bits.view(np.float64)


def _at_least(x: F64, low: float) -> F64:
    return np.where(x < low, low, x)


def _at_most(x: F64, high: float) -> F64:
    return np.where(x > high, high, x)


def _nudged_half(r: F64, x: F64) -> F64:
    """r, but for 0 < |x| < 2**-100 the double just above x / 2: there silu and gelu lie just above x / 2."""
    tiny = (np.abs(x) < 2.0**-100) & (x != 0)
    if not tiny.any():
        return r
    step = np.where(x > 0, np.int64(1), np.int64(-1))
    return np.where(tiny, ((0.5 * x).view(np.int64) + step).view(np.float64), r)


def _sum_lost(a: F64 | float, b: F64, total: F64) -> F64:
    """What total = a + b has lost to rounding (Knuth)."""
    big = total - b
    return (a - big) + (b - (total - big))


def _add_to_odd(a: F64 | float, b: F64) -> F64:
    """a + b rounded to odd (an inexact sum ends in a 1 bit): rounding that again, to f32, rounds the real sum."""
    total = a + b
    lost = _sum_lost(a, b, total)
    bits = total.view(np.int64)
    step = np.where((lost > 0) == (total > 0), np.int64(1), np.int64(-1))
    odd: NDArray[np.int64] = np.where((lost != 0) & ((bits & 1) == 0), bits + step, bits)
    return odd.view(np.float64)


def _exp_parts(x: F64) -> tuple[F64, F64]:
    """For |x| <= 708: s a power of two and p with e**x = s (1 + p), |p| < 0.42, relative error of p below 2**-52."""
    shifted = x * LOG2_E
    shifted += SHIFTER
    k = shifted - SHIFTER
    r = x - k * LN2_HIGH
    k *= LN2_LOW
    r -= k
    bits = _bits(shifted)
    bits += np.uint64(1023)
    bits <<= np.uint64(52)
    p = horner(polynomials.EXP, r)
    p *= r * r
    p += r
    return shifted, p


def _exp_near(x: F64) -> F64:
    s, p = _exp_parts(x)
    p *= s
    p += s
    return p


def _expm1_near(x: F64) -> F64:
    s, p = _exp_parts(x)
    p *= s
    s -= 1.0
    p += s
    return p


def _phi_tail(a: F64) -> F64:
    """Phi(-a) for 0 <= a <= 14.75, relative error below 2**-50 where a * a is exact."""
    below = a + 5.0
    t = (a - 5.0) / below
    e = _exp_near(-0.5 * (a * a))
    e *= horner(polynomials.MILLS, t)
    e /= below
    return e


def _exp(x: F64) -> F64:
    return _exp_near(_at_most(_at_least(x, -104.0), 89.0))


def _expm1(x: F64) -> F64:
    return _with_sign(_expm1_near(_at_most(_at_least(x, -40.0), 89.0)), x)


def _tanh(x: F64) -> F64:
    """By the quotient that the C's presk_tanh_f32 describes."""
    a = _at_most(np.abs(x), 10.0)
    shifted = a * (2.0 * LOG2_E)
    shifted += SHIFTER
    r = a - (shifted - SHIFTER) * HALF_LN2
    half = _bits(shifted)
    half += np.uint64(1022)
    half <<= np.uint64(52)
    z = r * r
    c = 1.0 + z * horner(polynomials.COTH, z)
    n = (shifted - 0.5) * c + (shifted + 0.5) * r
    return _with_sign(n / (n + (c - r)), x)


def _sigmoid(x: F64) -> F64:
    r = 1.0 / (1.0 + _exp_near(-_at_most(_at_least(x, -105.0), 40.0)))
    # 1/2 + x/4 - x**3/48: where the last term is below f64's precision, the first two may be a tie of f32. One other
    # input, found by the check, is decided by r's last bit and moves the same way.
    hard = (np.abs(x) < 2.0**-15) | (x == _SIGMOID_HARD)
    return r - np.where(hard, _with_sign(np.full_like(x, 2.0**-52), x), 0.0)


def _silu(x: F64) -> F64:
    d = _at_least(x, -112.0)
    return _nudged_half(d / (1.0 + _exp_near(-_at_most(d, 60.0))), d)


def _gelu(x: F64) -> F64:
    d = _at_least(x, -14.75)
    q = _phi_tail(_at_most(np.abs(d), 14.75))
    r = d * np.where(d > 0, 1.0 - q, q)
    r[np.abs(d) == _GELU_HARD] -= 2.0**-68  # the one pair whose last f64 bit decides
    return _nudged_half(r, d)


def _erf(x: F64) -> F64:
    a = _at_most(np.abs(x), 4.0)
    z = a * a
    near = a * TWO_SQRTPI_HIGH + a * (TWO_SQRTPI_LOW + z * horner(polynomials.ERF, z))
    b = a + 2.0
    far = 1.0 - _exp_near(-z) * horner(polynomials.ERFC, (a - 2.0) / b) / b
    return _with_sign(np.where(a < 0.875, near, far), x)


def _log_sum(k: F64, f: F64) -> F64:
    """k log 2 + log(1 + f) rounded to odd, for sqrt(1/2) <= 1 + f < sqrt(2): see the C's presk_log_sum."""
    h = 0.5 * (f * f)
    s = f / (2.0 + f)
    z = s * s
    c = h - (s * (h + z * horner(polynomials.LOG, z)) + k * LN2_LOW)
    a = k * LN2_HIGH
    total = a + f
    return _add_to_odd(total, (f - (total - a)) - c)


def _log_split(u: F64) -> tuple[F64, F64]:
    """k and m with u = 2**k m, sqrt(1/2) <= m < sqrt(2), for positive normal u."""
    root = np.int64(0x3FE6A09E00000000)
    t = u.view(np.int64) - root
    k = t >> np.int64(52)
    return k.astype(np.float64), ((t & np.int64(0xFFFFFFFFFFFFF)) + root).view(np.float64)


def _log_edges(r: F64, u: F64) -> F64:
    y = np.where(u > 0, r, np.nan)
    y = np.where(u == 0, -np.inf, y)
    return np.where(u == np.inf, np.inf, y)


def _log(x: F64) -> F64:
    k, m = _log_split(x)
    return _log_edges(_log_sum(k, m - 1.0), x)


def _log1p(x: F64) -> F64:
    u = 1.0 + x  # exact, or k = 0 and f = x below, or too large for the rounding to count
    k, m = _log_split(u)
    r = _log_sum(k, np.where(k == 0, x, m - 1.0))
    return _log_edges(np.where(x == 0, x, r), u)


def _sin_quarters(x: F64, quarters: int) -> F64:
    """sin(x + quarters·pi / 2): Cody and Waite's reduction below 2**27, Payne and Hanek's from there on."""
    shifted = x * TWO_PI + SHIFTER
    k = shifted - SHIFTER
    r = (x - k * HALF_PI[0]) - k * HALF_PI[1]  # exact below 2**27
    c = k * HALF_PI[2]
    high = r - c
    low = ((r - high) - c) - k * HALF_PI[3]
    q = _bits(shifted) + np.uint64(quarters)
    far = np.flatnonzero(~(np.abs(x) < 2.0**27))
    if far.size:
        far_q, high[far], low[far] = reduced_quarters(x[far])
        q[far] = far_q + np.uint64(quarters)
    z = high * high
    h = 0.5 * z
    w = 1.0 - h
    sine = low + high * z * horner(polynomials.SIN, z)
    cosine = ((1.0 - w) - h) + (z * z * horner(polynomials.COS, z) - high * low)
    odd = (q & np.uint64(1)) != 0
    r = _add_to_odd(np.where(odd, w, high), np.where(odd, cosine, sine))
    return (_bits(r) ^ ((q & np.uint64(2)) << np.uint64(62))).view(np.float64)


def _sin(x: F64) -> F64:
    return np.where(x == 0, x, _sin_quarters(x, 0))


def _cos(x: F64) -> F64:
    return _sin_quarters(x, 1)


def _rounded(f: Callable[[F64], F64]) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    def on_f32(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return f(x.astype(np.float64)).astype(np.float32)

    return chunked(on_f32, np.float32)


FUNCTIONS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "exp": _rounded(_exp),
    "expm1": _rounded(_expm1),
    "log": _rounded(_log),
    "log1p": _rounded(_log1p),
    "tanh": _rounded(_tanh),
    "sin": _rounded(_sin),
    "cos": _rounded(_cos),
    "erf": _rounded(_erf),
    "sigmoid": _rounded(_sigmoid),
    "silu": _rounded(_silu),
    "gelu": _rounded(_gelu),
}
