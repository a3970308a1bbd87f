"""bfloat16, keys, canonical NaNs, conversions and fma, against exact rationals."""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db.native.fma import exact_fma, fma
from presk_db.native.numbers import (
    bf16_from_f32,
    canonical,
    converted,
    f32_from_bf16,
    keys,
    lowest_key,
    values_of_keys,
)
from tests.kernels import oracle

FLOATS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}


def special_bits(type_: str) -> np.ndarray[Any, Any]:
    """Zeros, subnormals, powers of two and their neighbours, infinities, NaNs: both signs."""
    width, mantissa = (32, 23) if type_ == "f32" else (64, 52)
    exponents = (1 << (width - 1 - mantissa)) - 1
    some = {0, 1, exponents // 2, exponents // 2 + 1, exponents // 2 + mantissa, exponents - 1, exponents}
    bits = [e << mantissa | m for e in sorted(some) for m in (0, 1, 1 << (mantissa - 1), (1 << mantissa) - 1)]
    return np.array([b | s << (width - 1) for b in bits for s in (0, 1)], FLOATS[type_][1]).view(FLOATS[type_][0])


def test_every_bf16_comes_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    back = bf16_from_f32(f32_from_bf16(bits))
    assert np.array_equal(back, canonical(bits, "bf16"))
    assert (canonical(bits, "bf16")[np.isnan(f32_from_bf16(bits))] == 0x7FC0).all()


def test_bf16_rounds_to_the_nearest() -> None:
    rng = np.random.default_rng(0)
    upper = rng.integers(0, 1 << 16, 3000, dtype=np.uint32) << np.uint32(16)
    lower = rng.choice(np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234], np.uint32), 3000)
    values = np.concatenate([(upper | lower).view(np.float32), special_bits("f32")])
    assert bf16_from_f32(values).tolist() == [oracle.bf16_bits(x) for x in values]


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_keys_are_in_order(type_: str) -> None:
    values = special_bits(type_)
    order = np.argsort(keys(values, type_), kind="stable")
    expected = sorted(range(len(values)), key=lambda i: oracle.key(values[i]))
    assert order.tolist() == expected
    back = values_of_keys(keys(values, type_), type_)
    assert back.tobytes() == canonical(values, type_).tobytes()
    assert int(keys(values, type_).min()) == lowest_key(type_)


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_a_canonical_nan_has_one_pattern(type_: str) -> None:
    values = special_bits(type_)
    seen = canonical(values, type_)
    nan = np.isnan(values)
    assert set(seen[nan].view(FLOATS[type_][1]).tolist()) == {0x7FC00000 if type_ == "f32" else 0x7FF8 << 48}
    assert seen[~nan].tobytes() == values[~nan].tobytes()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_to_integers_saturates(type_: str) -> None:
    dtype = FLOATS[type_][0]
    edges = [s * x for x in (2.0**63, 2.0**62, 2.0**53, 0.5, 0.999, 1.5, 1e18, 1e30) for s in (1, -1)]
    near = [np.nextafter(dtype(s * 2.0**63), dtype(to)) for s in (1, -1) for to in (0, np.inf, -np.inf)]
    values = np.concatenate([special_bits(type_), np.array(edges, dtype), np.array(near, dtype)])
    with np.errstate(all="raise"):
        found = converted(values, "i64")
    limits = (-(2**63), 2**63 - 1)

    def expected(x: float) -> int:
        if math.isnan(x):
            return 0
        return max(limits[0], min(limits[1], int(x))) if math.isfinite(x) else limits[x > 0]

    assert found.tolist() == [expected(x) for x in values.tolist()]


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**26), 2**26)), min_size=1, max_size=50))
def test_from_integers_rounds_once(values: list[int]) -> None:
    values += [2**60 + 2**36 + 1, 2**60 + 2**36, 2**60 + 2**36 - 1, 2**24 + 1, -(2**63), 2**63 - 1]
    array = np.array(values, np.int64)
    assert [float(x) for x in converted(array, "f32")] == [float(oracle.round_f32(Fraction(v))) for v in values]
    assert converted(array, "f64").tolist() == [v / 1 for v in values]


def test_widening_and_narrowing() -> None:
    values = special_bits("f32")
    with np.errstate(all="ignore"):
        assert (
            canonical(converted(converted(values, "f64"), "f32"), "f32").tobytes() == canonical(values, "f32").tobytes()
        )
        assert converted(np.array([1e-46, 1e39, 1 + 2.0**-24]), "f32").tolist() == [0.0, np.inf, 1.0]
    assert converted(np.array([True, False]), "f32").tolist() == [1.0, 0.0]


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_fma_of_special_values(type_: str) -> None:
    some = special_bits(type_)[::3]
    a, b, c = (x.reshape(-1) for x in np.meshgrid(some, some, some))
    with np.errstate(all="ignore"):
        found = canonical(fma(a, b, c), type_)
        expected = canonical(np.array([oracle.exact_fma(*x) for x in zip(a, b, c, strict=True)]), type_)
    assert found.tobytes() == expected.tobytes()


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_fma_of_near_cancellations(seed: int) -> None:
    r = random.Random(seed)
    for type_ in ("f32", "f64"):
        dtype, digits = FLOATS[type_][0], 24 if type_ == "f32" else 53
        a, b = (
            np.array([r.getrandbits(digits) * 2.0 ** r.randint(-digits, 0) for _ in range(60)], dtype) for _ in "ab"
        )
        with np.errstate(all="ignore"):
            c = (-(a * b) * dtype(r.choice((1.0, 1 + 2.0 ** (1 - digits), 0.5)))).astype(dtype)
            c[::3] *= dtype(2.0 ** r.randint(-2 * digits, 2 * digits))
            scale = dtype(2.0 ** r.choice((0, 0, -60, 50) if type_ == "f32" else (0, 0, -500, 480, -520)))
            a, c = a * scale, c * scale
            found = fma(a, b, c)
            expected = np.array([oracle.exact_fma(*x) for x in zip(a, b, c, strict=True)])
        assert found.tobytes() == expected.astype(dtype).tobytes()


def test_fma_rounds_where_product_and_sum_round_twice() -> None:
    e = 2.0**-30
    assert fma(np.array([1 + e]), np.array([1 - e]), np.array([-1.0]))[0] == -(2.0**-60)
    assert exact_fma(1e308, 10.0, -math.inf) == -math.inf
    assert exact_fma(1e308, 10.0, -1e308) == math.inf
    assert math.copysign(1, exact_fma(-5e-324, 0.25, 0.0)) == -1
