"""Numbers in NumPy: dtypes of types, bfloat16, order-preserving keys, canonical NaNs, conversions. All exact."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

STORAGE: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(np.uint16),
    "i64": np.dtype(np.int64),
    "bool": np.dtype(np.uint8),
}
"""The dtype of a stored element, by storage type."""

COMPUTED: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "i64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
}
"""The dtype of a value, by compute type."""

KEYS: dict[str, np.dtype[Any]] = {"f64": np.dtype(np.int64), "f32": np.dtype(np.int32), "i64": np.dtype(np.int64)}
"""The dtype of an order-preserving key, by compute type."""

_NAN_BITS = {"f64": 0x7FF8000000000000, "f32": 0x7FC00000}


def f32_from_bf16(array: Array) -> Array:
    """The f32 of each bfloat16, exact."""
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_from_f32(array: Array) -> Array:
    """Each f32 rounded to the nearest bfloat16, ties to even, by integer arithmetic; a NaN becomes 0x7fc0."""
    bits = array.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + (odd + np.uint32(0x7FFF))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


def canonical(array: Array, type_: str) -> Array:
    """The array of storage type `type_` with every NaN replaced by the canonical one: for tensors that are observed."""
    match type_:
        case "f32" | "f64":
            nan = np.asarray(_NAN_BITS[type_], KEYS[type_]).view(STORAGE[type_])
            return np.where(np.isnan(array), nan, array)
        case "bf16":
            return np.where((array & np.uint16(0x7FFF)) > np.uint16(0x7F80), np.uint16(0x7FC0), array)
        case _:
            return array


def keys(array: Array, type_: str) -> Array:
    """Integers in the order of the values: −0 below +0, every NaN equal and above all. An i64 is its own key."""
    if type_ == "i64":
        return array
    bits = np.where(np.isnan(array), KEYS[type_].type(_NAN_BITS[type_]), array.view(KEYS[type_]))
    return _flipped(bits)


def values_of_keys(array: Array, type_: str) -> Array:
    """The inverse of `keys`; the key of NaN gives the canonical NaN."""
    return array if type_ == "i64" else _flipped(array).view(COMPUTED[type_])


def lowest_key(type_: str) -> int:
    """The key of −inf, the maximum over nothing; of i64 the smallest integer."""
    if type_ == "i64":
        return int(np.iinfo(np.int64).min)
    return int(keys(np.array([-np.inf], COMPUTED[type_]), type_)[0])


def _flipped(bits: Array) -> Array:
    width = bits.dtype.itemsize * 8
    low = bits.dtype.type(np.iinfo(bits.dtype).max)
    flipped: Array = bits ^ ((bits >> bits.dtype.type(width - 1)) & low)
    return flipped


def i64_from_float(array: Array) -> Array:
    """Truncated towards zero; beyond the range the nearer end; NaN gives 0. The cast sees only what fits."""
    large = array >= 2.0**63
    fits = (array >= -(2.0**63)) & ~large
    cast = np.where(fits, array, array.dtype.type(0)).astype(np.int64)
    bounds = np.iinfo(np.int64)
    small = array < -(2.0**63)
    return np.where(large, np.int64(bounds.max), np.where(small, np.int64(bounds.min), cast))


def converted(array: Array, to: str) -> Array:
    """A value of any compute type as f64, f32 or i64: rounded once, saturated towards i64."""
    if to == "i64" and array.dtype.kind == "f":
        return i64_from_float(array)
    return array.astype(COMPUTED[to])
