"""Every operation on balls encloses the true value, computed with MPFR or fractions, and is narrow."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest

from presk_db.conformance import balls
from presk_db.conformance.balls import Undecided
from presk_db.errors import ExactUnavailable

BITS = 160
NAN, INF = math.nan, math.inf
CONTEXT = gmpy2.context(precision=600)

TRUTH: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": gmpy2.sqrt,
    "exp": gmpy2.exp,
    "expm1": gmpy2.expm1,
    "log": gmpy2.log,
    "log1p": gmpy2.log1p,
    "tanh": gmpy2.tanh,
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "erf": gmpy2.erf,
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
    "silu": lambda x: x / (1 + gmpy2.exp(-x)),
    "gelu": lambda x: x * gmpy2.erfc(-x / gmpy2.sqrt(gmpy2.mpfr(2))) / 2,
}

draw = np.random.default_rng(5)
POINTS = [
    *draw.standard_normal(40).tolist(),
    *(draw.standard_normal(40) * 2.0 ** draw.integers(-60, 8, 40)).tolist(),
    *draw.standard_normal(20).astype(np.float32).astype(np.float64).tolist(),
    *(0.0, 1.0, -1.0, 0.5, 5e-324, -5e-324, 2.0**-149, 37.5, -37.5, 700.25, -700.25, 2e3, -30.0),
]


def objects(*values: Any) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def bounds(x: Any) -> tuple[Fraction, Fraction]:
    """A finite ball's ends, exactly."""
    (m, e), (r, f) = x.mid().man_exp(), x.rad().man_exp()
    middle, radius = Fraction(int(m)) * Fraction(2) ** int(e), Fraction(int(r)) * Fraction(2) ** int(f)
    return middle - radius, middle + radius


def exactly(x: Any) -> Fraction:
    return Fraction(*(int(n) for n in x.as_integer_ratio()))


def of(*fractions: Fraction) -> Any:
    return objects(*(balls.ball(f.numerator) / balls.ball(f.denominator) for f in fractions))


@pytest.mark.parametrize("op", TRUTH)
def test_functions_enclose_mpfr(op: str) -> None:
    xs = [
        x
        for x in POINTS
        if not (op == "sqrt" and x < 0) and not (op == "log" and x <= 0) and not (op == "log1p" and x <= -1)
    ]
    with balls.working_precision(BITS), gmpy2.context(CONTEXT):
        for x, y in zip(xs, balls.unary(op, balls.balls(np.array(xs))), strict=True):
            truth = exactly(TRUTH[op](gmpy2.mpfr(x)))
            low, high = bounds(y)
            slack = abs(truth) * Fraction(2) ** -590  # MPFR's own rounding, magnified a little
            if op in ("silu", "gelu", "sigmoid"):
                slack = abs(truth) * Fraction(2) ** -520
            assert low - slack <= truth <= high + slack, (op, x)
            assert high - low <= abs(truth) * Fraction(2) ** -(BITS - 60), (op, x)


@pytest.mark.parametrize("op", TRUTH)
def test_a_wide_ball_encloses_the_values_at_its_points(op: str) -> None:
    with balls.working_precision(BITS), gmpy2.context(CONTEXT):
        for middle in (0.3, 1.5, 6.0, 0.0, -0.7, -4.0):
            if op in ("sqrt", "log", "log1p") and middle < 0.3:
                continue
            y = balls.unary(op, objects(balls.flint.arb(middle, 0.25)))[0]
            low, high = bounds(y)
            for part in range(-8, 9):
                x = gmpy2.mpfr(middle) + gmpy2.mpfr(part) / 33
                assert low <= exactly(TRUTH[op](x)) <= high, (op, middle, part)


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        ("neg", INF, -INF), ("abs", INF, INF), ("sqrt", NAN, INF), ("exp", 0.0, INF), ("expm1", -1.0, INF),
        ("log", NAN, INF), ("log1p", NAN, INF), ("tanh", -1.0, 1.0), ("sin", NAN, NAN), ("cos", NAN, NAN),
        ("erf", -1.0, 1.0), ("sigmoid", 0.0, 1.0), ("silu", 0.0, INF), ("gelu", 0.0, INF),
    ],
)  # fmt: skip
def test_limits(op: str, low: float, high: float) -> None:
    found = [float(y) for y in balls.unary(op, balls.balls(np.array([-INF, INF, NAN])))]
    np.testing.assert_array_equal(found, [low, high, NAN])


def test_edges_of_domains() -> None:
    def at(op: str, x: float) -> float:
        return float(balls.unary(op, balls.balls(np.array([x])))[0])

    assert at("log", 0.0) == at("log1p", -1.0) == -INF
    assert math.isnan(at("log", -1.0)) and math.isnan(at("sqrt", -1e-300)) and math.isnan(at("log1p", -2.0))
    assert at("sqrt", 0.0) == 0.0
    wide = objects(balls.flint.arb(0, 1e-30))
    for op in ("log", "sqrt"):
        with pytest.raises(Undecided):
            balls.unary(op, wide)
    for op, a, b in (("div", balls.balls(np.ones(1)), wide), ("mul", balls.balls(np.array([INF])), wide)):
        with pytest.raises(Undecided):
            balls.binary(op, a, b)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic_encloses_fractions(op: str) -> None:
    truth: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "maximum": max,
        "minimum": min,
    }
    pairs = [(Fraction(int(a), 97), Fraction(int(b), 89)) for a, b in draw.integers(1, 10**12, (60, 2)) - 5 * 10**11]
    with balls.working_precision(BITS):
        found = balls.binary(op, of(*(a for a, _ in pairs)), of(*(b for _, b in pairs)))
    for (a, b), y in zip(pairs, found, strict=True):
        low, high = bounds(y)
        value = truth[op](a, b)
        assert low <= value <= high
        assert high - low <= max(abs(a), abs(b), abs(value)) * Fraction(2) ** -(BITS - 8)


@pytest.mark.parametrize(
    ("op", "a", "b", "value"),
    [
        ("div", 1.0, 0.0, NAN), ("div", 0.0, 0.0, NAN), ("div", INF, -2.0, -INF), ("div", INF, INF, NAN),
        ("div", 3.0, -INF, 0.0), ("mul", 0.0, INF, NAN), ("mul", -2.0, INF, -INF), ("add", INF, -INF, NAN),
        ("sub", -INF, 5.0, -INF), ("maximum", NAN, 2.0, 2.0), ("maximum", 2.0, NAN, NAN),
        ("maximum", -INF, -3.0, -3.0), ("minimum", NAN, 2.0, 2.0), ("minimum", 2.0, NAN, NAN),
    ],
)  # fmt: skip
def test_arithmetic_with_infinities(op: str, a: float, b: float, value: float) -> None:
    found = float(balls.binary(op, balls.balls(np.array([a])), balls.balls(np.array([b])))[0])
    np.testing.assert_array_equal(found, value)


def test_comparisons_decide_or_say_that_they_cannot() -> None:
    third = of(Fraction(1, 3), Fraction(1, 3))
    assert balls.compared("lt", third, np.array([0.34, 0.33])).tolist() == [True, False]
    assert balls.compared("eq", balls.balls(np.ones(1)), np.ones(1)).tolist() == [True]
    assert balls.compared("ge", balls.balls(np.array([INF, -INF])), np.array([INF, 0.0])).tolist() == [True, False]
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        nan = balls.compared(op, balls.balls(np.array([NAN, 1.0])), np.array([1.0, NAN]))
        assert nan.tolist() == [op == "ne"] * 2
        with pytest.raises(Undecided):
            balls.compared(op, third, third.copy() + 0)


def test_sums_maxima_and_their_places() -> None:
    values = [[Fraction(int(n), 7) for n in row] for row in draw.integers(-1000, 1000, (5, 9))]
    array = np.array([of(*row) for row in values], object)
    for row, total, top, at in zip(
        values, balls.summed(array, 1), balls.largest(array, 1), balls.first_largest(array, 1), strict=True
    ):
        assert bounds(total)[0] <= sum(row) <= bounds(total)[1]
        assert bounds(top)[0] <= max(row) <= bounds(top)[1]
        assert row[at] == max(row)
    assert balls.first_largest(np.array([[1.0, 3.0, 3.0], [NAN, 9.0, 1.0]]), 1).tolist() == [1, 0]
    assert math.isnan(float(balls.largest(np.array([[1.0, NAN]]), 1)[0]))
    assert balls.summed(np.zeros((2, 0)), 1).tolist() == [0.0, 0.0]
    assert balls.largest(np.zeros((2, 0)), 1).tolist() == [-INF, -INF]
    with pytest.raises(Undecided):
        balls.first_largest(of(Fraction(1, 3), Fraction(1, 3))[None], 1)


def test_products_enclose_fractions_in_batches() -> None:
    a, b = draw.standard_normal((2, 3, 4, 7)), draw.standard_normal((2, 3, 7, 5))
    for right in (b, np.broadcast_to(b[0, 0], b.shape), np.broadcast_to(b[:, :1], b.shape)):
        found = balls.product(a, right)
        assert found.shape == (2, 3, 4, 5)
        for at in np.ndindex(found.shape):
            terms = zip(a[at[:3]], right[(*at[:2], slice(None), at[3])], strict=True)
            truth = sum((Fraction(x) * Fraction(y) for x, y in terms), Fraction(0))
            low, high = bounds(found[at])
            assert low <= truth <= high
    assert balls.product(np.zeros((2, 3, 0)), np.zeros((2, 0, 4))).tolist() == np.zeros((2, 3, 4)).tolist()


def test_repeated_axes_stay_views() -> None:
    x = balls.balls(np.broadcast_to(np.array([[0.1], [0.2]]), (2, 1000)))
    assert x.shape == (2, 1000) and x.strides[1] == 0
    assert float(x[1, 7]) == 0.2


def test_large_integers_stay_exact() -> None:
    assert int(balls.reals(np.array([2**62 + 1]))[0].unique_fmpz()) == 2**62 + 1


def test_without_flint_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balls, "flint", None)
    with pytest.raises(ExactUnavailable, match=r"install presk\[exact\]"):
        balls.need_flint()
