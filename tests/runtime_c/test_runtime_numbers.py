"""Casts, keys, canonical NaNs and memory of the runtime, against integer references and NumPy."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from c_runtime import Runtime
from hypothesis import given, settings
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]
CTYPES = {"f4": "float *", "f8": "double *", "u2": "uint16_t *", "i4": "int32_t *", "i8": "int64_t *"}


def each(runtime: Runtime, name: str, x: Array, out: str) -> Array:
    """The function `name` of every element."""
    x = np.ascontiguousarray(x)
    y = np.empty(x.size, np.dtype(out))
    ffi = runtime.ffi
    source = ffi.cast(CTYPES[x.dtype.str[1:]], x.ctypes.data)
    getattr(runtime.lib, name)(source, ffi.cast(CTYPES[y.dtype.str[1:]], y.ctypes.data), x.size)
    return y


def bits(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def bf16_reference(u: Array) -> Array:
    """Round to nearest even of f32 bits by comparing the remainder with one half; NaN gives 0x7fc0."""
    u = u.astype(np.uint64)
    low, high = u & 0xFFFF, u >> 16
    up = (low > 0x8000) | ((low == 0x8000) & (high & 1 == 1))
    nan = (u & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, 0x7FC0, high + up).astype(np.uint16)


def f32_chunks(stride: int) -> Iterator[Array]:
    """All f32 bit patterns at a stride, in chunks."""
    for start in range(0, 2**32, 2**26):
        yield np.arange(start, min(start + 2**26, 2**32), stride, dtype=np.uint64).astype(np.uint32)


@pytest.mark.parametrize(
    ("u", "expected"),
    [
        (0x7F800001, 0x7FC0),
        (0x7FFF8C22, 0x7FC0),
        (0xFFFF8000, 0x7FC0),
        (0xFFFFFFFF, 0x7FC0),
        (0x7F800000, 0x7F80),
        (0xFF800000, 0xFF80),
        (0x7F7FFFFF, 0x7F80),
        (0x7F7F7FFF, 0x7F7F),
        (0x7F7F8000, 0x7F80),
        (0x3F808000, 0x3F80),
        (0x3F818000, 0x3F82),
        (0x00000000, 0x0000),
        (0x80000000, 0x8000),
        (0x00008000, 0x0000),
        (0x00008001, 0x0001),
        (0x80018000, 0x8002),
    ],
)
def test_bf16_vectors(runtime: Runtime, u: int, expected: int) -> None:
    assert each(runtime, "each_bf16_from_f32", np.array([u], np.uint32).view(np.float32), "u2")[0] == expected


def test_f64_goes_to_bf16_through_f32(runtime: Runtime) -> None:
    x = np.array([0.2691408770272292]).astype(np.float32)
    b = each(runtime, "each_bf16_from_f32", x, "u2")
    assert each(runtime, "each_f32_from_bf16", b, "f4")[0] == np.float32(0.26953125)


def test_bf16_round_trips(runtime: Runtime) -> None:
    h = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    x = each(runtime, "each_f32_from_bf16", h, "f4")
    assert np.array_equal(bits(x), h.astype(np.uint32) << 16)
    back = each(runtime, "each_bf16_from_f32", x, "u2")
    assert np.array_equal(back, np.where((h & 0x7FFF) > 0x7F80, 0x7FC0, h))


@pytest.mark.parametrize("stride", [977])
def test_bf16_rounding_over_all_exponents(runtime: Runtime, stride: int) -> None:
    for u in f32_chunks(stride):
        assert np.array_equal(each(runtime, "each_bf16_from_f32", u.view(np.float32), "u2"), bf16_reference(u))


def test_bf16_rounding_near_every_tie(runtime: Runtime) -> None:
    high = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    u = (high | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).ravel()
    got = each(runtime, "each_bf16_from_f32", u.view(np.float32), "u2")
    assert np.array_equal(got, bf16_reference(u))
    finite = np.isfinite(u.view(np.float32))
    with np.errstate(all="ignore"):
        other = u.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(got[finite], other[finite])


def test_f16_is_read_exactly(runtime: Runtime) -> None:
    h = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    got = bits(each(runtime, "each_f32_from_f16", h, "f4"))
    with np.errstate(all="ignore"):
        expected = bits(h.view(np.float16).astype(np.float32))
    nan = (h & 0x7FFF) > 0x7C00
    assert np.array_equal(got[~nan], expected[~nan])
    assert np.all(got[nan] == 0x7FC00000)


def test_f32_keys_keep_the_order(runtime: Runtime) -> None:
    last = None
    inf, nan = 0x7F800000, 0x7FC00000
    for u in f32_chunks(4093):
        x = u.view(np.float32)
        k = each(runtime, "each_key_f32", x, "i4")
        back = bits(each(runtime, "each_f32_from_key", k, "f4"))
        is_nan = (u & 0x7FFFFFFF) > inf
        assert np.array_equal(back, np.where(is_nan, nan, u))
        assert np.all(k[is_nan] == nan)
        reals = k[~is_nan]
        if reals.size:
            steps = np.diff(reals.astype(np.int64))
            assert np.all(steps > 0) if not u[0] >> 31 else np.all(steps < 0)
            assert reals.max() <= inf
            last = reals[-1]
    assert last is not None
    corners = np.array([-np.inf, -1, -1e-45, -0.0, 0.0, 1e-45, np.inf, np.nan], np.float32)
    signed = each(runtime, "each_key_f32", corners, "i4")
    assert np.all(np.diff(signed.astype(np.int64)) > 0)
    assert list(signed[3:5]) == [-1, 0]


@settings(max_examples=400)
@given(a=st.floats(width=64), b=st.floats(width=64))
def test_f64_keys_keep_the_order(runtime: Runtime, a: float, b: float) -> None:
    x = np.array([a, b])
    k = each(runtime, "each_key_f64", x, "i8")
    back = each(runtime, "each_f64_from_key", k, "f8")
    for value, key, again in zip(x, k, back, strict=True):
        if np.isnan(value):
            assert key == 0x7FF8000000000000
            assert bits(np.array([again]))[0] == 0x7FF8000000000000
        else:
            assert bits(np.array([again]))[0] == bits(np.array([value]))[0]
    if not np.isnan(x).any() and a != b:
        assert (k[0] < k[1]) == (a < b)


def test_f64_key_corners(runtime: Runtime) -> None:
    x = np.array([-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, np.inf, -np.nan])
    assert np.all(np.diff(each(runtime, "each_key_f64", x, "i8")) > 0)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (float("nan"), 0),
        (float("inf"), 2**63 - 1),
        (float("-inf"), -(2**63)),
        (2.0**63, 2**63 - 1),
        (-(2.0**63), -(2**63)),
        (np.nextafter(-(2.0**63), -np.inf), -(2**63)),
        (np.nextafter(2.0**63, 0), 2**63 - 1024),
        (1.99, 1),
        (-1.99, -1),
        (-0.0, 0),
        (5e-324, 0),
    ],
)
def test_float_to_integer_saturates(runtime: Runtime, x: float, expected: int) -> None:
    assert each(runtime, "each_i64_from_f64", np.array([x]), "i8")[0] == expected
    if np.isnan(x) or float(np.float32(x)) == x:
        assert each(runtime, "each_i64_from_f32", np.array([x], np.float32), "i8")[0] == expected


def f32_of_integer(i: int) -> int:
    """The bits of the nearest f32 of an integer, ties to even, by integer arithmetic."""
    m = abs(i)
    shift = max(m.bit_length() - 24, 0)
    q, rest = m >> shift, m & ((1 << shift) - 1)
    half = 1 << shift >> 1
    q += shift > 0 and (rest > half or (rest == half and q & 1 == 1))
    value = np.float32(q) * np.float32(2.0**shift)
    return int(np.float32(-value if i < 0 else value).view(np.uint32))


@settings(max_examples=2000)
@given(high=st.integers(1, 2**25), shift=st.integers(0, 38), delta=st.integers(-2, 2), sign=st.sampled_from([-1, 1]))
def test_i64_rounds_once_to_f32(runtime: Runtime, high: int, shift: int, delta: int, sign: int) -> None:
    i = max(min(sign * ((high << shift) + delta), 2**63 - 1), -(2**63))
    assert int(bits(each(runtime, "each_f32_from_i64", np.array([i], np.int64), "f4"))[0]) == f32_of_integer(i)


def test_nans_become_canonical(runtime: Runtime) -> None:
    ffi, lib = runtime
    u32 = np.array([0x7F800001, 0xFFFFFFFF, 0xFF800000, 0x7F800000, 0x80000000, 1], np.uint32)
    lib.presk_canonical_f32(ffi.cast("float *", u32.ctypes.data), u32.size)
    assert list(u32) == [0x7FC00000, 0x7FC00000, 0xFF800000, 0x7F800000, 0x80000000, 1]
    u64 = np.array([0x7FF0000000000001, 2**64 - 1, 0xFFF0000000000000, 2**63], np.uint64)
    lib.presk_canonical_f64(ffi.cast("double *", u64.ctypes.data), u64.size)
    assert list(u64) == [0x7FF8000000000000, 0x7FF8000000000000, 0xFFF0000000000000, 2**63]
    u16 = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    expected = np.where((u16 & 0x7FFF) > 0x7F80, 0x7FC0, u16)
    lib.presk_canonical_bf16(ffi.cast("uint16_t *", u16.ctypes.data), u16.size)
    assert np.array_equal(u16, expected)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 2**21 - 1, 2**21, 2**21 + 1, 3 * 2**30])
def test_memory_is_aligned(runtime: Runtime, size: int) -> None:
    ffi, lib = runtime
    memory = lib.presk_alloc(size)
    assert memory != ffi.NULL
    assert int(ffi.cast("uintptr_t", memory)) % (2**21 if size >= 2**21 else 64) == 0
    if size:
        view = ffi.cast("char *", memory)
        view[0] = b"a"
        view[size - 1] = b"z"
    lib.presk_free(memory)


@pytest.mark.parametrize("size", [2**64 - 1, 2**64 - 2**21, 2**63, 2**63 - 1])
def test_memory_that_cannot_be_is_refused(runtime: Runtime, size: int) -> None:
    assert runtime.lib.presk_alloc(size) == runtime.ffi.NULL
    runtime.lib.presk_free(runtime.ffi.NULL)
