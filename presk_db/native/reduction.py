"""The long argument reduction of sin and cos (Payne and Hanek) in NumPy: x modulo pi / 2 for |x| >= 2**20."""

import numpy as np
from numpy.typing import NDArray

from presk_db.native.double_double import DD, F64, Constant, times

U64 = NDArray[np.uint64]

_TWO_PI_BITS = (  # 2 / pi in binary after the point, 1248 bits
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA09D1921C"
    "FE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980F"
    "EF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D08"
    "56033046FC7B6BABF0CFBC20"
)
# 32-bit words, the first ones 0 so that a window may begin before its bits
_WORDS = np.array([0, 0] + [int(_TWO_PI_BITS[i : i + 8], 16) for i in range(0, len(_TWO_PI_BITS), 8)], np.uint64)
_HALF_PI = Constant(float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
_LIMB = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def reduced_quarters(x: F64) -> tuple[U64, F64, F64]:
    """Returns q, high, low with x = (q + 4 n) pi / 2 + high + low, |high + low| <= pi / 4.

    high + low has a relative error below 2**-100 for finite |x| >= 2**20; it is NaN where x is infinite or NaN.
    The window of 2 / pi has 224 bits from the one worth 2 quarter turns on, so the product with x's 53-bit integer has
    an error below 2**-169 quarter turns, while no double is nearer to a multiple of pi / 2 than 2**-62.
    """
    bits = x.view(np.uint64)
    m = (bits & np.uint64((1 << 52) - 1)) | np.uint64(1 << 52)
    exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
    finite = exponent != 0x7FF
    first = np.where(finite, exponent, np.uint64(1075)).astype(np.int64) - 1075 + 62
    word, shift = first >> 5, (first & 31).astype(np.uint64)
    words = [_WORDS[word + i] for i in range(8)]
    window = [(((words[i] << _32) | words[i + 1]) >> (_32 - shift)) & _LIMB for i in range(7)]
    window.reverse()  # least significant limb first
    product = _low_limbs(m, window)
    quarter = product[6] >> np.uint64(30)
    flip = (product[6] & np.uint64(0x20000000)) != 0  # fraction above 1/2: the next quarter, less 1 - fraction
    flip_bits = np.where(flip, _LIMB, np.uint64(0))
    carry = flip.astype(np.uint64)
    parts = []
    for i, limb in enumerate(product):
        t = (limb ^ flip_bits) + carry
        carry = t >> _32
        parts.append((t & (np.uint64(0x3FFFFFFF) if i == 6 else _LIMB)).astype(np.float64) * 2.0 ** (32 * i - 222))
    high, low = parts[6], np.zeros_like(x)
    for part in reversed(parts[:6]):
        total = high + part
        low += part - (total - high)
        high = total
    r = times(DD(high, low), _HALF_PI)
    negative = (x < 0) != flip
    quarter = quarter + flip
    q = np.where(x < 0, np.uint64(0) - quarter, quarter) & np.uint64(3)
    nan = np.where(finite, 0.0, np.nan)
    return q, np.where(negative, -r.high, r.high) + nan, np.where(negative, -r.low, r.low) + nan


def _low_limbs(m: U64, window: list[U64]) -> list[U64]:
    """The low seven 32-bit limbs of m (below 2**53) times the window's seven."""
    m0, m1 = m & _LIMB, m >> _32
    product: list[U64] = []
    carry0 = carry1 = above = np.zeros_like(m)
    for limb in window:
        t0 = m0 * limb + above + carry0
        product.append(t0 & _LIMB)
        carry0 = t0 >> _32
        t1 = m1 * limb + carry1
        above = t1 & _LIMB
        carry1 = t1 >> _32
    return product
