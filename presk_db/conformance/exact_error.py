"""output_error: how far a native output is from its exact enclosures, in ulp of its storage type."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from presk_db.conformance.balls import Ball, Values, ball, balls
from presk_db.native.numbers import f32_from_bf16
from presk_db.store.exact import HISTOGRAM_FLOOR, OutputError, WorstElement

FORMATS = {"f64": (53, -1022, 1023), "f32": (24, -126, 127), "bf16": (8, -126, 127)}
"""Precision in bits, the exponents of the smallest normal number and of the largest."""


def native_values(data: Values, type_: str) -> Values:
    """A stored tensor's contents as floats or integers, exactly."""
    if type_ == "bf16":
        return f32_from_bf16(data.astype(np.uint16)).astype(np.float64)
    return data.astype(np.float64 if type_ in ("f32", "f64") else np.int64)


def ulp_exponent(x: Ball, type_: str) -> int:
    """e such that 2^e is the distance of neighbours of `type_` at the ball's largest magnitude."""
    digits, lowest, _ = FORMATS[type_]
    mantissa, exponent = x.abs_upper().man_exp()
    top = lowest if mantissa == 0 else max(lowest, int(mantissa).bit_length() + int(exponent) - 1)
    return top - digits + 1


def power(exponent: int) -> Ball:
    """2^exponent, exactly."""
    return ball(1) * ball(2) ** exponent


def largest_radius(values: Values, type_: str) -> float:
    """The largest radius of the finite balls, in ulp: what is left open of the exact values."""
    if values.dtype != object:
        return 0.0
    widest = 0.0
    for x in values.reshape(-1):
        if x.is_finite() and not x.is_exact():
            widest = max(widest, float((x.rad() * power(-ulp_exponent(x, type_))).upper()))
    return widest


def output_error(native: Values, exact: Values, type_: str) -> OutputError:
    """The error of a native output of reals, or of integers and truth values (then in units).

    `native` are its values by `native_values`; `exact` has the same shape.
    """
    if exact.dtype.kind in "bi":
        return _integer_error(native.reshape(-1), exact.reshape(-1).astype(np.int64))
    numbers, enclosures = native.reshape(-1).tolist(), list(balls(exact).reshape(-1))
    errors: list[float] = []
    agreeing, differing = 0, []
    for i, (n, x) in enumerate(zip(numbers, enclosures, strict=True)):
        if math.isfinite(n) and x.is_finite():
            errors.append(float((abs(ball(n) - x) * power(-ulp_exponent(x, type_))).mid()))
            continue
        errors.append(-1.0)
        if _agree(n, x, type_):
            agreeing += 1
        else:
            differing.append(i)
    finite = [e for e in errors if e >= 0]
    at = differing[0] if differing else errors.index(max(errors)) if finite else None
    worst = None
    if at is not None:
        worst = WorstElement(at, numbers[at], lower(enclosures[at]), upper(enclosures[at]), None)
    return OutputError(
        max(finite, default=0.0),
        math.fsum(finite) / max(1, len(finite)),
        largest_radius(exact, type_),
        worst,
        _histogram(finite),
        agreeing,
        len(differing),
    )


def _integer_error(native: Values, exact: Values) -> OutputError:
    errors = np.abs(native - exact).astype(np.float64)
    wrong = [float(e) for e in errors]
    worst = None
    if errors.size:
        at = int(errors.argmax())
        value = float(exact[at])
        worst = WorstElement(at, float(native[at]), value, value, None)
    mean = math.fsum(wrong) / max(1, len(wrong))
    return OutputError(max(wrong, default=0.0), mean, 0.0, worst, _histogram(wrong), 0, 0)


def _agree(native: float, exact: Ball, type_: str) -> bool:
    """Whether a native infinity or NaN is what the exact value rounds to."""
    if math.isnan(native) or exact.is_nan():
        return math.isnan(native) and bool(exact.is_nan())
    if math.isfinite(native):
        return False
    digits, _, highest = FORMATS[type_]
    edge = power(highest + 1) - power(highest - digits)  # what rounds to infinity: the largest number and half an ulp
    return bool(exact >= edge) if native > 0 else bool(exact <= -edge)


def _histogram(errors: list[float]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for e in errors:
        exponent = max(HISTOGRAM_FLOOR, math.frexp(e)[1] - 1) if e > 0 else HISTOGRAM_FLOOR
        counts[exponent] = counts.get(exponent, 0) + 1
    return tuple(sorted(counts.items()))


# --- bounds in f64 --------------------------------------------------------------------------------------------------


def lower(x: Ball) -> float:
    """The largest f64 that is proven not to exceed the number, or one below it; NaN where there is no number."""
    return 0.0 - _above(-x)  # 0 is +0


def upper(x: Ball) -> float:
    """The smallest f64 that is proven not to be exceeded by the number, or one above it; NaN where there is none."""
    return _above(x)


def _above(x: Ball) -> float:
    if x.is_nan():
        return math.nan
    end = x.upper()
    found = float(end)
    while not ball(found) >= end:
        found = math.nextafter(found, math.inf)
    return found


def rounded(x: Ball) -> float:
    """The ball's midpoint rounded to the nearest f64, ties to even."""
    if not x.is_finite():
        return upper(x)
    mantissa, exponent = (int(n) for n in x.mid().man_exp())
    if mantissa.bit_length() + exponent > 1025:
        return math.copysign(math.inf, mantissa)
    if mantissa.bit_length() + exponent < -1080:
        return math.copysign(0.0, mantissa)
    value = Fraction(mantissa) * Fraction(2) ** exponent
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, mantissa)


def floats(f: Any, exact: Values) -> Values:
    """`f` (lower, upper, rounded) of each element, as float64; integers and truth values as they are."""
    if exact.dtype != object:
        return exact.astype(np.float64)
    flat = np.array([f(x) for x in exact.reshape(-1)], np.float64)
    return flat.reshape(exact.shape)
