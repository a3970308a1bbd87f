"""Errors in ulp against values worked out by hand, for every type, special values included; bounds in f64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk_db.conformance import balls
from presk_db.conformance.exact_error import (
    largest_radius,
    lower,
    native_values,
    output_error,
    rounded,
    ulp_exponent,
    upper,
)
from presk_db.native.numbers import bf16_from_f32

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "type_", "exponent"),
    [
        (1.0, "f64", -52), (1.999, "f64", -52), (-2.0, "f64", -51), (5e-324, "f64", -1074), (0.0, "f64", -1074),
        (1.0, "f32", -23), (2.0**-140, "f32", -149), (0.0, "f32", -149), (3.0, "f32", -22),
        (1.0, "bf16", -7), (255.0, "bf16", 0), (1e-45, "bf16", -133),
    ],
)  # fmt: skip
def test_the_ulp_of_a_value(value: float, type_: str, exponent: int) -> None:
    assert ulp_exponent(balls.ball(value), type_) == exponent


def test_errors_worst_and_histogram() -> None:
    exact = balls.balls(np.array([1.0, 1.0, 1.0, 4.0]))
    native = np.array([1.0, 1 + 2.0**-23, 1 - 2.0**-24, 4 + 2.0**-19])
    error = output_error(native, exact, "f32")
    assert (error.max_ulp, error.mean_ulp) == (4.0, (0 + 1 + 0.5 + 4) / 4)
    assert error.histogram == ((-11, 1), (-1, 1), (0, 1), (2, 1))
    assert error.worst is not None and error.worst.element == 3
    assert (error.worst.native, error.worst.lower, error.worst.upper) == (native[3], 4.0, 4.0)
    assert error.radius_ulp == 0.0 and error.agreeing == error.differing == 0


def test_what_is_left_open_is_told() -> None:
    exact = balls.balls(np.array([1.0])) + balls.flint.arb(0, 2.0**-60)
    assert 2.0**-8 <= largest_radius(exact, "f64") <= 2.0**-7.9
    assert 2.0**-37 <= output_error(np.array([1.0]), exact, "f32").radius_ulp <= 2.0**-36.9


def test_infinities_and_nans_agree_or_differ() -> None:
    huge = 3.5e38
    exact = np.array([INF, -INF, NAN, huge, -huge, 1.0, NAN, huge, INF])
    native = np.array([INF, -INF, NAN, INF, -INF, NAN, 1.0, -INF, 1.0])
    error = output_error(native, exact, "f32")
    assert (error.agreeing, error.differing) == (5, 4)
    assert error.worst is not None and error.worst.element == 5
    assert error.max_ulp == 0.0 and error.histogram == ()
    assert output_error(np.array([INF]), np.array([3.4e38]), "f32").differing == 1
    assert output_error(np.zeros(0), np.zeros(0), "f32").worst is None


def test_integers_count_units() -> None:
    error = output_error(np.array([3, 5, 9]), np.array([3, 4, 1]), "i64")
    assert (error.max_ulp, error.worst is not None and error.worst.element) == (8.0, 2)
    assert output_error(np.array([1, 0]), np.array([True, False]), "bool").max_ulp == 0.0


def test_stored_bits_are_read_exactly() -> None:
    bits = bf16_from_f32(np.array([1.5, -3.0], np.float32))
    assert native_values(bits, "bf16").tolist() == [1.5, -3.0]
    assert native_values(np.array([0.1], np.float32), "f32")[0] == float(np.float32(0.1))


@given(st.integers(-(2**70), 2**70), st.integers(1, 2**40), st.integers(-1200, 1100))
def test_bounds_are_outward_and_close(numerator: int, denominator: int, exponent: int) -> None:
    value = Fraction(numerator, denominator) * Fraction(2) ** exponent
    with balls.working_precision(128):
        x = balls.ball(numerator) / balls.ball(denominator) * balls.ball(2) ** exponent
        low, high = lower(x), upper(x)
        assert low == -INF or Fraction(low) <= value
        assert high == INF or Fraction(high) >= value
        assert math.nextafter(math.nextafter(low, INF), INF) >= high
        assert low <= rounded(x) <= high


def test_rounded_is_to_the_nearest_also_of_subnormals() -> None:
    for numerator, expected in ((1, 0.0), (3, 1e-323), (5, 1e-323), (-3, -1e-323), (7, 2e-323)):
        assert rounded(balls.ball(numerator) * balls.ball(2) ** -1075) == expected
    assert rounded(balls.ball(2) ** 1024) == INF and rounded(-(balls.ball(2) ** 5000)) == -INF
    assert rounded(balls.ball(2) ** -5000) == 0.0
    assert math.isnan(rounded(balls.ball(NAN))) and rounded(balls.ball(-INF)) == -INF
    assert (lower(balls.ball(-INF)), upper(balls.ball(-INF))) == (-INF, -INF)
    assert math.isnan(lower(balls.ball(NAN)))


def test_the_bounds_of_zero_are_zeros_of_sign_plus() -> None:
    assert [math.copysign(1, f(balls.ball(0.0))) for f in (lower, rounded, upper)] == [1, 1, 1]
