"""The f64 functions in NumPy, correctly rounded: exp, expm1, log, log1p, tanh, sin, cos, erf, sigmoid, silu, gelu.

Each is computed as a double-double with a stated bound of its error; where adding and taking away that bound round to
the same double, that is the result (Ziv's test). The few others, one in 2**16 to 2**21, or one in 2**13 of the results
near 0 of expm1, log, log1p, tanh, sin and cos, go to `wide_functions`, which computes with Python's integers until the
result is certain. Only exact NumPy operations are used. The bounds are those of `runtime_c/presk_math.c`, which says
how they come about.
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


class Bound(NamedTuple):
    """Bounds of a value's error, both of which hold.

    Attributes:
        relative: Of the relative error.
        absolute: Of the absolute error, but for 2**-90 of the value.
    """

    relative: float | F64
    absolute: float = np.inf


class Fast(NamedTuple):
    """A fast path's outcome.

    Attributes:
        scaled: The value, where `known` does not hold.
        bound: Of its error.
        known: Where `result` is certain already: special values, and arguments too small or too large to need more.
        result: The result there.
    """

    scaled: Scaled
    bound: Bound
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


def margin_of(fast: Fast) -> F64:
    """Returns the smaller of both bounds, in units of the value before its scaling by 2**exponent."""
    size = np.abs(fast.scaled.value.high)
    near, far = size * fast.bound.relative, fast.bound.absolute + size * 2.0**-90
    return np.where(near < far, near, far)


def _rounded(fast: Fast) -> tuple[F64, NDArray[np.bool_]]:
    """Returns the rounded results and where they are certain.

    A normal result is high + low rounded, then scaled exactly. Below 2**-1022, a number b is added whose last place is
    the subnormals' spacing, 2**(-1074 - k), so that the same rounding falls there.
    """
    (high, low), k = fast.scaled
    margin = margin_of(fast)
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
    return Fast(exp_dd(DD(safe, np.zeros_like(x))), Bound(2.0**-74), known, result)


def _fast_expm1(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x < 710.0) & (x > -50.0))
    result = np.where(tiny | (x > 0), np.where(tiny, x, np.inf), np.where(x < 0, -1.0, x))
    safe = np.where(known, 1.0, x)
    return Fast(expm1_dd(DD(safe, np.zeros_like(x))), Bound(2.0**-67, 2.0**-74), known, result)


def _log_result(x: F64) -> F64:
    """log at 0, infinity, and what is negative or NaN."""
    return np.where(x == 0, -np.inf, np.where(x == np.inf, x, np.nan))


def _fast_log(x: F64) -> Fast:
    known = ~((x > 0) & (x < np.inf)) | (x == 1.0)
    result = np.where(x == 1.0, 0.0, _log_result(x))
    safe = np.where(known, 2.0, x)
    small = safe < 2.0**-1022
    normal = safe * np.where(small, 2.0**54, 1.0)
    value = log_dd(DD(normal, np.zeros_like(x)))
    if small.any():
        value = _where(small, plus(_LOG_2_54, value), value)
    return Fast(_whole(value), Bound(2.0**-67, 2.0**-75), known, result)


def _fast_log1p(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -1) & (x < np.inf))
    result = np.where(tiny, x, _log_result(1.0 + x))
    safe = np.where(known, 1.0, x)
    return Fast(_whole(log_dd(two_sum(1.0, safe))), Bound(2.0**-67, 2.0**-75), known, result)


def _fast_tanh(x: F64) -> Fast:
    a = np.abs(x)
    known = ~((a >= 2.0**-30) & (a < 22.0))
    result = np.where(a < 1, x, np.where(x > 0, 1.0, np.where(x < 0, -1.0, x)))
    safe = np.where(known, 1.0, x)
    m = expm1_dd(DD(2.0 * np.abs(safe), np.zeros_like(x)))
    m_high, m_low = scaled_by(m.value.high, m.exponent), scaled_by(m.value.low, m.exponent)
    value = over(DD(m_high, m_low), plus(_constant(2.0, x), DD(m_high, m_low)))
    negative = safe < 0
    value = _where(negative, DD(-value.high, -value.low), value)
    return Fast(_whole(value), Bound(2.0**-67, 2.0**-74), known, result)


def _fast_sin(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-30
    known = tiny | ~(np.abs(x) < np.inf)
    result = np.where(tiny, x, np.nan)
    value = sine_dd(*quarters_dd(np.where(known, 1.0, x)))
    return Fast(_whole(value), Bound(2.0**-67, 2.0**-74), known, result)


def _fast_cos(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-30
    known = tiny | ~(np.abs(x) < np.inf)
    result = np.where(tiny, 1.0, np.nan)
    q, r = quarters_dd(np.where(known, 1.0, x))
    return Fast(_whole(sine_dd(q + 1, r)), Bound(2.0**-67, 2.0**-74), known, result)


def _erfc_dd(x: DD, square: DD) -> Scaled:
    """erfc(x) for 1/2 <= x < 32, given x**2; error below 2**-70.1, for x < 2 below 2**-74.2."""
    e = exp_dd(DD(-square.high, -square.low))
    return Scaled(times(e.value, erfcx_dd(x)), e.exponent)


def _one_minus(value: DD) -> DD:
    s = two_sum(1.0, -value.high)
    return DD(s.high, s.low - value.low)


def _scattered(parts: list[tuple[NDArray[np.intp], DD]], x: F64) -> DD:
    """One value of parts computed apart: each part's elements put at their places."""
    whole = DD(np.ones_like(x), np.zeros_like(x))
    for places, value in parts:
        whole.high[places], whole.low[places] = value
    return whole


def _plain(x: F64) -> DD:
    return DD(x, np.zeros_like(x))


def _fast_erf(x: F64) -> Fast:
    a = np.abs(x)
    known = ~(a < 6.0) | (x == 0)
    result = np.where(x > 0, 1.0, np.where(x < 0, -1.0, x))
    tiny = (a < 2.0**-400) & ~known  # scaled up, so that nothing underflows
    near, far = np.flatnonzero((a < 0.5) & ~known), np.flatnonzero((a >= 0.5) & ~known)
    small = np.where(tiny[near], x[near] * 2.0**600, x[near])
    series = erf_over_x_dd(_plain(np.where(tiny[near], 0.0, small)))
    large = a[far]
    tail = _erfc_dd(_plain(large), two_square(large))
    rest = _one_minus(DD(scaled_by(tail.value.high, tail.exponent), scaled_by(tail.value.low, tail.exponent)))
    rest = _where(x[far] < 0, DD(-rest.high, -rest.low), rest)
    value = _scattered([(near, times(series, _plain(small))), (far, rest)], x)
    bound = Bound(np.where(a < 0.5, 2.0**-71, 2.0**-74))
    return Fast(Scaled(value, np.where(tiny, np.int64(-600), np.int64(0))), bound, known, result)


def _sigmoid_parts(x: F64) -> tuple[DD, DD, NDArray[np.int64]]:
    """n, d, k with sigmoid(x) = n / d * 2**k, |x| < 800; error below 2**-74.9."""
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
    return Fast(Scaled(over(n, d), k), Bound(2.0**-74), known, result)


def _fast_silu(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -760.0) & (x < 50.0))
    result = np.where(tiny, _half_up(x), np.where(x < 0, -0.0, x))
    safe = np.where(known, 1.0, x)
    n, d, k = _sigmoid_parts(safe)
    return Fast(Scaled(times(over(n, d), DD(safe, np.zeros_like(x))), k), Bound(2.0**-74), known, result)


def _fast_gelu(x: F64) -> Fast:
    tiny = np.abs(x) < 2.0**-60
    known = tiny | ~((x > -40.0) & (x < 10.0))
    result = np.where(tiny, _half_up(x), np.where(x < 0, -0.0, x))
    b = times(_plain(np.where(known, 1.0, np.abs(x))), SQRT_HALF)
    close = b.high < 0.5
    near, far = np.flatnonzero(close & ~known), np.flatnonzero(~close & ~known)
    small = DD(b.high[near], b.low[near])
    half_erf = times(erf_over_x_dd(small), DD(0.5 * small.high, 0.5 * small.low))
    half_erf = _where(x[near] < 0, DD(-half_erf.high, -half_erf.low), half_erf)
    square, negative = two_square(x[far]), x[far] < 0
    tail = _erfc_dd(DD(b.high[far], b.low[far]), DD(0.5 * square.high, 0.5 * square.low))
    half_tail = DD(0.5 * tail.value.high, 0.5 * tail.value.low)
    shift = np.where(negative, np.int64(0), tail.exponent)
    above = _one_minus(DD(scaled_by(half_tail.high, shift), scaled_by(half_tail.low, shift)))
    parts = [(near, plus(_constant(0.5, small.high), half_erf)), (far, _where(negative, half_tail, above))]
    k = np.zeros(x.shape, np.int64)
    k[far] = np.where(negative, tail.exponent, np.int64(0))
    value = times(_scattered(parts, x), _plain(np.where(known, 1.0, x)))
    bound = Bound(np.where(close, 2.0**-71, np.where(b.high < 2, 2.0**-74, 2.0**-70)))
    return Fast(Scaled(value, k), bound, known, result)


FAST: dict[str, Callable[[F64], Fast]] = {
    "exp": _fast_exp,
    "expm1": _fast_expm1,
    "log": _fast_log,
    "log1p": _fast_log1p,
    "tanh": _fast_tanh,
    "sin": _fast_sin,
    "cos": _fast_cos,
    "erf": _fast_erf,
    "sigmoid": _fast_sigmoid,
    "silu": _fast_silu,
    "gelu": _fast_gelu,
}
"""The double-double values, by function."""

FUNCTIONS: dict[str, Callable[[F64], F64]] = {name: _function(name, fast) for name, fast in FAST.items()}
