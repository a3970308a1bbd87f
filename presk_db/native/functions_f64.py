"""The f64 functions in NumPy, correctly rounded: exp, expm1, log, log1p, tanh, sin, cos, erf, sigmoid, silu, gelu.

Each is computed as a double-double with a stated bound of its relative error; where adding and taking away that
bound round to the same double, that is the result (Ziv's test). The few others, about one in 2**14 or fewer, go to
`wide_functions`, which computes with Python's integers until the result is certain. Only exact NumPy operations are
used.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from presk_db.native import wide_functions
from presk_db.native.chunks import chunked
from presk_db.native.double_double import DD, F64, Constant, over, plus, times, two_square, two_sum
from presk_db.native.double_double_functions import (
    LN2,
    SQRT_HALF,
    Scaled,
    erf_over_x_dd,
    erfcx_dd,
    exp_dd,
    expm1_dd,
    log_dd,
    quarters_dd,
    scaled_by,
    sine_dd,
)

_LOG_2_54 = Constant(-54.0 * LN2[0], -54.0 * LN2[1])  # the first product is exact


class Fast(NamedTuple):
    """A fast path's outcome.

    Attributes:
        scaled: The value, where `known` does not hold.
        error: Bound of its relative error.
        known: Where `result` is certain already: special values, and arguments too small or too large to need more.
        result: The result there.
    """

    scaled: Scaled
    error: float
    known: NDArray[np.bool_]
    result: F64


def _whole(value: DD) -> Scaled:
    return Scaled(value, np.zeros(value.high.shape, np.int64))


def _constant(value: float, x: F64) -> DD:
    return DD(np.full_like(x, value), np.zeros_like(x))


def _where(mask: NDArray[np.bool_], a: DD, b: DD) -> DD:
    return DD(np.where(mask, a.high, b.high), np.where(mask, a.low, b.low))


def _power(k: NDArray[np.int64]) -> F64:
    """2**k for normal results."""
    return ((k + 1023) << 52).view(np.float64)


def _rounded(fast: Fast) -> tuple[F64, NDArray[np.bool_]]:
    """Returns the rounded results and where they are certain.

    A normal result is high + low rounded, then scaled exactly. Below 2**-1022, a number b is added whose last place is
    the subnormals' spacing, 2**(-1074 - k), so that the same rounding falls there.
    """
    (high, low), k = fast.scaled
    margin = np.abs(high) * fast.error
    up, down = high + (low + margin), high + (low - margin)
    exponent = ((np.abs(up).view(np.int64) >> 52) - 1023) + k
    small = exponent < -1022
    half = k >> 1
    result = (up * _power(half)) * _power(k - half)
    certain = up == down
    if small.any():
        b = _power(np.clip(-1022 - k, -900, 1000))
        b = np.where(high < 0, -b, b)
        s = b + high
        rest = high - (s - b)
        small_up, small_down = s + (rest + (low + margin)), s + (rest + (low - margin))
        value = ((small_up - b) * _power(half)) * _power(k - half)
        value = np.where(high < 0, -np.abs(value), value)
        result = np.where(small, value, result)
        certain = np.where(small, small_up == small_down, certain)
    return np.where(fast.known, fast.result, result), certain | fast.known


def _function(name: str, fast: Callable[[F64], Fast]) -> Callable[[F64], F64]:
    slow = wide_functions.FUNCTIONS[name]

    def on_f64(x: F64) -> F64:
        result, certain = _rounded(fast(x))
        for i in np.flatnonzero(~certain).tolist():
            result[i] = slow(float(x[i]))
        return result

    return chunked(on_f64, np.float64)


def _half_up(x: F64) -> F64:
    """x / 2, and a tie (an odd subnormal) towards +infinity: a value just above x / 2, rounded."""
    bits = x.view(np.int64)
    size = bits & np.int64(0x7FFFFFFFFFFFFFFF)
    halved = np.where(bits >= 0, (size + 1) >> 1, (size >> 1) | np.int64(-0x8000000000000000)).view(np.float64)
    return np.where(np.abs(x) < 2.0**-1021, halved, 0.5 * x)


def _fast_exp(x: F64) -> Fast:
    known = ~(np.abs(x) < 746.0)
    result = np.where(x > 0, np.inf, np.where(x < 0, 0.0, x))
    safe = np.where(known, 0.0, x)
    return Fast(exp_dd(DD(safe, np.zeros_like(x))), 2.0**-74, known, result)


def _fast_expm1(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x < 710.0) & (x > -50.0))
    result = np.where(tiny | (x > 0), np.where(tiny, x, np.inf), np.where(x < 0, -1.0, x))
    safe = np.where(known, 1.0, x)
    return Fast(expm1_dd(DD(safe, np.zeros_like(x))), 2.0**-67, known, result)


def _log_result(x: F64) -> F64:
    """log at 0, infinity, and what is negative or NaN."""
    return np.where(x == 0, -np.inf, np.where(x == np.inf, x, np.nan))


def _fast_log(x: F64) -> Fast:
    known = ~((x > 0) & (x < np.inf)) | (x == 1.0)
    result = np.where(x == 1.0, 0.0, _log_result(x))
    safe = np.where(known, 2.0, x)
    small = safe < 2.0**-1022
    normal = np.where(small, safe * 2.0**54, safe)
    value = log_dd(DD(normal, np.zeros_like(x)))
    if small.any():
        value = _where(small, plus(_LOG_2_54, value), value)
    return Fast(_whole(value), 2.0**-67, known, result)


def _fast_log1p(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -1) & (x < np.inf))
    result = np.where(tiny, x, _log_result(1.0 + x))
    safe = np.where(known, 1.0, x)
    return Fast(_whole(log_dd(two_sum(1.0, safe))), 2.0**-67, known, result)


def _fast_tanh(x: F64) -> Fast:
    a = np.abs(x)
    known = ~((a >= 2.0**-30) & (a < 22.0))
    result = np.where(a < 1, x, np.where(x > 0, 1.0, np.where(x < 0, -1.0, x)))
    safe = np.where(known, 1.0, x)
    m = expm1_dd(DD(2.0 * np.abs(safe), np.zeros_like(x)))
    m_high, m_low = scaled_by(m.value.high, m.exponent), scaled_by(m.value.low, m.exponent)
    value = over(DD(m_high, m_low), plus(_constant(2.0, x), DD(m_high, m_low)))
    negative = safe < 0
    return Fast(_whole(_where(negative, DD(-value.high, -value.low), value)), 2.0**-66, known, result)


def _fast_sin(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-30
    known = tiny | ~(np.abs(x) < np.inf)
    result = np.where(tiny, x, np.nan)
    return Fast(_whole(sine_dd(*quarters_dd(np.where(known, 1.0, x)))), 2.0**-67, known, result)


def _fast_cos(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-30
    known = tiny | ~(np.abs(x) < np.inf)
    result = np.where(tiny, 1.0, np.nan)
    q, r = quarters_dd(np.where(known, 1.0, x))
    return Fast(_whole(sine_dd(q + 1, r)), 2.0**-67, known, result)


def _erfc_dd(x: DD, square: DD) -> Scaled:
    """erfc(x) for 1/2 <= x < 32, given x**2; error below 2**-69."""
    e = exp_dd(DD(-square.high, -square.low))
    return Scaled(times(e.value, erfcx_dd(x)), e.exponent)


def _one_minus(value: DD) -> DD:
    s = two_sum(1.0, -value.high)
    return DD(s.high, s.low - value.low)


def _fast_erf(x: F64) -> Fast:
    a = np.abs(x)
    known = ~(a < 6.0) | (x == 0)
    result = np.where(x > 0, 1.0, np.where(x < 0, -1.0, x))
    safe = np.where(known, 1.0, x)
    a = np.abs(safe)
    near = a < 0.5
    tiny = a < 2.0**-400  # scaled up, so that nothing underflows
    small = np.where(tiny, safe * 2.0**600, np.where(near, safe, 0.25))
    series = erf_over_x_dd(DD(np.where(tiny, 0.0, small), np.zeros_like(x)))
    low_part = times(series, DD(small, np.zeros_like(x)))
    large = np.where(near, 1.0, a)
    tail = _erfc_dd(DD(large, np.zeros_like(x)), two_square(large))
    high_part = _one_minus(DD(scaled_by(tail.value.high, tail.exponent), scaled_by(tail.value.low, tail.exponent)))
    high_part = _where(safe < 0, DD(-high_part.high, -high_part.low), high_part)
    exponent = np.where(tiny, np.int64(-600), np.int64(0))
    return Fast(Scaled(_where(near, low_part, high_part), exponent), 2.0**-67, known, result)


def _sigmoid_parts(x: F64) -> tuple[DD, DD, NDArray[np.int64]]:
    """n, d, k with sigmoid(x) = n / d * 2**k, |x| < 800; error below 2**-75."""
    e = exp_dd(DD(-np.abs(x), np.zeros_like(x)))
    shift = np.where(e.exponent < -200, np.int64(-200), e.exponent)
    whole = two_sum(1.0, scaled_by(e.value.high, shift))
    d = DD(whole.high, whole.low + scaled_by(e.value.low, shift))
    negative = x < 0
    n = _where(negative, e.value, _constant(1.0, x))
    return n, d, np.where(negative, e.exponent, np.int64(0))


def _fast_sigmoid(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-56
    known = tiny | ~((x > -750.0) & (x < 50.0))
    result = np.where(tiny, 0.5, np.where(x > 0, 1.0, np.where(x < 0, 0.0, x)))
    n, d, k = _sigmoid_parts(np.where(known, 1.0, x))
    return Fast(Scaled(over(n, d), k), 2.0**-73, known, result)


def _fast_silu(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -760.0) & (x < 50.0))
    result = np.where(tiny, _half_up(x), np.where(x < 0, -0.0, x))
    safe = np.where(known, 1.0, x)
    n, d, k = _sigmoid_parts(safe)
    return Fast(Scaled(times(over(n, d), DD(safe, np.zeros_like(x))), k), 2.0**-72, known, result)


def _fast_gelu(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -40.0) & (x < 10.0))
    result = np.where(tiny, _half_up(x), np.where(x < 0, -0.0, x))
    safe = np.where(known, 1.0, x)
    b = times(DD(np.abs(safe), np.zeros_like(x)), SQRT_HALF)
    near = b.high < 0.5
    small, large = _where(near, b, _constant(0.25, x)), _where(near, _constant(1.0, x), b)
    negative = safe < 0
    half_erf = times(erf_over_x_dd(small), DD(0.5 * small.high, 0.5 * small.low))
    half_erf = _where(negative, DD(-half_erf.high, -half_erf.low), half_erf)
    near_phi = plus(_constant(0.5, x), half_erf)
    square = two_square(safe)
    tail = _erfc_dd(large, DD(0.5 * square.high, 0.5 * square.low))
    half_tail = DD(0.5 * tail.value.high, 0.5 * tail.value.low)
    shift = np.where(negative, np.int64(0), tail.exponent)
    above = _one_minus(DD(scaled_by(half_tail.high, shift), scaled_by(half_tail.low, shift)))
    phi = _where(near, near_phi, _where(negative, half_tail, above))
    k = np.where(negative & ~near, tail.exponent, np.int64(0))
    return Fast(Scaled(times(phi, DD(safe, np.zeros_like(x))), k), 2.0**-67, known, result)


FUNCTIONS: dict[str, Callable[[F64], F64]] = {
    "exp": _function("exp", _fast_exp),
    "expm1": _function("expm1", _fast_expm1),
    "log": _function("log", _fast_log),
    "log1p": _function("log1p", _fast_log1p),
    "tanh": _function("tanh", _fast_tanh),
    "sin": _function("sin", _fast_sin),
    "cos": _function("cos", _fast_cos),
    "erf": _function("erf", _fast_erf),
    "sigmoid": _function("sigmoid", _fast_sigmoid),
    "silu": _function("silu", _fast_silu),
    "gelu": _function("gelu", _fast_gelu),
}
