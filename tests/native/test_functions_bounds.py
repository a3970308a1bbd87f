"""The f64 functions' fast paths lie within the bounds that they state, and those are not idle."""

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

from presk_db.conformance.check_math import SLOW_DOMAINS
from presk_db.conformance.math_reference import NAMES, REAL
from presk_db.native.functions_f64 import FAST, margin_of

IDLE = 100  # a bound so many times the largest error found


def arguments(name: str) -> np.ndarray:
    """Numbers of the fast path's domain: near 0, where the error is largest beside the result, around 1, and all."""
    generator = np.random.default_rng([3, *name.encode()])
    low, high = SLOW_DOMAINS[name]
    near = 2.0 ** generator.uniform(-12, -4, 500) * np.where(np.arange(500) % 2, 1.0, -1.0)
    around = generator.uniform(max(low, -3.0), min(high, 3.0), 500)
    x = np.concatenate([1.0 + near if name == "log" else near, around, generator.uniform(low, high, 200)])
    if name == "sin":
        x = np.concatenate([x, np.pi * generator.integers(1, 300_000, 200)])  # multiples of pi, nearly
    if name == "cos":
        x = np.concatenate([x, np.pi * (generator.integers(1, 300_000, 200) + 0.5)])
    return x[x != 0]


@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_below_its_bound(name: str) -> None:
    x = arguments(name)
    fast = FAST[name](x)
    margin, (high, low), exponent = margin_of(fast), fast.scaled.value, fast.scaled.exponent
    shares = []
    with gmpy2.context(precision=400):
        for i in np.flatnonzero(~fast.known).tolist():
            value = mpfr(float(high[i])) + mpfr(float(low[i]))
            real = REAL[name](mpfr(float(x[i]))) / mpfr(2) ** int(exponent[i])
            shares.append(float(abs(value - real) / mpfr(float(margin[i]))))
    assert len(shares) > 1000
    assert 1 / IDLE < max(shares) < 1
