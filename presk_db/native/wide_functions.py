"""The f64 functions on Python's integers, one number at a time: certain, and slow.

A real is a fixed-point integer g standing for g / 2**w. Every function here is right to 2**32 units of the last place,
a generous bound: the sums have at most some thousand truncated terms, each wrong by a unit or two. A result is
accepted when both ends of its enclosure round to the same double; otherwise the precision doubles. It ends because a
value of these functions at a rational argument is irrational, the exact ones (0, 1, infinities) and those a hair
beside the argument being taken out by the caller or here.
"""

import math
from collections.abc import Callable
from functools import lru_cache

SLACK = 1 << 32
FIRST_PRECISION = 192  # the hardest known arguments need less than 128


def _double(g: int, e: int) -> float:
    """g * 2**e rounded to a double (Python's integer division rounds correctly, subnormals included)."""
    try:
        return g / (1 << -e) if e < 0 else float(g << e)
    except OverflowError:
        return math.inf if g > 0 else -math.inf


def _atan_inverse(n: int, w: int, sign: int) -> int:
    """atan(1 / n) for sign -1, atanh(1 / n) for sign 1."""
    term = total = (1 << w) // n
    k = 3
    while term:
        term = term // (n * n) * sign if term > 0 else -(-term // (n * n)) * sign
        total += term // k
        k += 2
    return total


@lru_cache(maxsize=64)
def log_2(w: int) -> int:
    """log 2, by Machin's kind of formula."""
    return 18 * _atan_inverse(26, w, 1) - 2 * _atan_inverse(4801, w, 1) + 8 * _atan_inverse(8749, w, 1)


@lru_cache(maxsize=64)
def pi(w: int) -> int:
    """pi, by Machin's formula."""
    return 16 * _atan_inverse(5, w, -1) - 4 * _atan_inverse(239, w, -1)


def fixed(x: float, w: int) -> int:
    """x in fixed point, cut off."""
    n, d = x.as_integer_ratio()
    return (n << w) // d


def exp(g: int, w: int) -> tuple[int, int]:
    """e**(g / 2**w) as m, k: m / 2**w * 2**k, 1/2 < m / 2**w < 4."""
    k = g // log_2(w)
    halvings = 12
    r = (g - k * log_2(w)) >> halvings
    term = total = 1 << w
    n = 1
    while term:
        term = (term * r >> w) // n
        total += term
        n += 1
    for _ in range(halvings):
        total = total * total >> w
    return total, k


def log(g: int, w: int) -> int:
    """log(g / 2**w), g > 0."""
    k = g.bit_length() - 1 - w
    m = g >> k if k > 0 else g << -k
    if 2 * m > 3 << w:
        k, m = k + 1, m >> 1
    s = ((m - (1 << w)) << w) // (m + (1 << w))
    square = s * s >> w
    total, power, n = s, s, 3
    while power not in (0, -1):
        power = power * square >> w
        total += power // n
        n += 2
    return 2 * total + k * log_2(w)


def sine(x: float, quarters: int, w: int) -> int:
    """sin(x + quarters * pi / 2)."""
    wide = w + 1100  # x below 2**1024, so that what is left of it keeps w bits
    q, r = divmod(fixed(x, wide), pi(wide) // 2)
    q, r = q + quarters, r >> (wide - w)
    square = r * r >> w
    term, n = ((1 << w), 1) if q & 1 else (r, 2)
    total = term
    while term not in (0, -1):
        term = -(term * square >> w) // (n * (n + 1))
        total += term
        n += 2
    return -total if q & 2 else total


def erf_over_x(square: int, w: int) -> int:
    """erf(x) / x, given x * x: 2 / sqrt(pi) * sum of (-x*x)**n / (n! (2 n + 1))."""
    # the largest term is below e**(x*x); cancellation is paid for by as many bits more
    guard = 16 + 3 * (square >> w) // 2
    wide = w + guard
    square <<= guard
    term = total = 1 << wide
    n = 1
    while term not in (0, -1):
        term = -(term * square >> wide) // n
        total += term // (2 * n + 1)
        n += 1
    return total * math.isqrt((4 << 3 * w) // pi(w)) >> wide


def _decided(enclosure: Callable[[int], tuple[int, int, int]]) -> float:
    """Returns the double that `enclosure` decides: it maps a precision w to g, slack, e for (g ± slack) 2**e."""
    w = FIRST_PRECISION
    while True:
        g, slack, e = enclosure(w)
        low, high = _double(g - slack, e), _double(g + slack, e)
        if low == high and math.copysign(1, low) == math.copysign(1, high):
            return low
        w *= 2


def _exp(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        m, k = exp(fixed(x, w), w)
        return m, SLACK, k - w

    return 1.0 if abs(x) < 2.0**-60 else _decided(enclosure)


def _expm1(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        m, k = exp(fixed(x, w), w)
        return m - (1 << w >> k if k >= 0 else 1 << w << -k), SLACK, k - w

    return x if abs(x) < 2.0**-60 else _decided(enclosure)


def _log(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        fraction, exponent = math.frexp(x)
        return log(fixed(fraction, w), w) + exponent * log_2(w), SLACK, -w

    return 0.0 if x == 1 else _decided(enclosure)


def _log1p(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        return log((1 << w) + fixed(x, w), w), SLACK, -w

    return x if abs(x) < 2.0**-60 else _decided(enclosure)


def _tanh(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        m, k = exp(fixed(-2 * abs(x), w), w)
        e = m >> -k if k < 0 else m
        one = 1 << w
        g = ((one - e) << w) // (one + e)
        return g if x > 0 else -g, SLACK, -w

    return x if abs(x) < 2.0**-30 else math.copysign(1.0, x) if abs(x) > 22 else _decided(enclosure)


def _sin(x: float) -> float:
    return x if abs(x) < 2.0**-30 else _decided(lambda w: (sine(x, 0, w), SLACK, -w))


def _cos(x: float) -> float:
    return 1.0 if abs(x) < 2.0**-30 else _decided(lambda w: (sine(x, 1, w), SLACK, -w))


def _times(x: float, g: int, w: int) -> tuple[int, int, int]:
    """x * (g / 2**w) as an enclosure."""
    fraction, exponent = math.frexp(x)
    n = int(math.ldexp(fraction, 53))
    return n * g, abs(n) * SLACK, exponent - 53 - w


def _erf(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        n, d = x.as_integer_ratio()
        return _times(x, erf_over_x((n * n << w) // (d * d), w), w)

    return x if x == 0 else math.copysign(1.0, x) if abs(x) > 6 else _decided(enclosure)


def _sigmoid_fixed(x: float, w: int) -> tuple[int, int]:
    """sigmoid(x) as g, k: g / 2**w * 2**k."""
    m, k = exp(fixed(-abs(x), w), w)
    d = (1 << w) + (m >> -k if k < 0 else m)
    return (1 << 2 * w) // d if x > 0 else (m << w) // d, 0 if x > 0 else k


def _sigmoid(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        g, k = _sigmoid_fixed(x, w)
        return g, SLACK, k - w

    return 0.5 if abs(x) < 2.0**-56 else 1.0 if x > 50 else _decided(enclosure)


def _half_up(x: float) -> float:
    """A value just above x / 2, rounded."""
    n, d = x.as_integer_ratio()
    return math.copysign((n * 2**60 + (1 if n else 0)) / (d * 2**61), x)


def _silu(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        g, k = _sigmoid_fixed(x, w)
        product, slack, e = _times(x, g, w)
        return product, slack, e + k

    return _half_up(x) if abs(x) < 2.0**-60 else x if x > 50 else _decided(enclosure)


def _gelu(x: float) -> float:
    def enclosure(w: int) -> tuple[int, int, int]:
        # Phi(x) = 1/2 + x / 2**1.5 * (erf(y) / y), y*y = x*x / 2; in the tail it cancels down to e**(-x*x / 2)
        w += int(0.75 * x * x) if x < 0 else 0
        n, d = x.as_integer_ratio()
        ratio = erf_over_x((n * n << w) // (2 * d * d), w)
        scaled = (n * ratio // d) * math.isqrt(1 << 2 * w + 1) >> w + 2
        return _times(x, (1 << w - 1) + scaled, w)

    return _half_up(x) if abs(x) < 2.0**-60 else x if x > 10 else _decided(enclosure)


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "tanh": _tanh,
    "sin": _sin,
    "cos": _cos,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
}
"""Of a finite argument, not 0, in the function's domain, where the result is not already known to be infinite or 0."""
