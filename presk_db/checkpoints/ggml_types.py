"""GGML's storage types: how many bytes a block has, how many elements, and the exact reals that it stands for.

Every scale in a block is a binary16. A finite one is an integer multiple of 2^-24, has 11 significant bits and is
below 2^16. From that the exactness of each formula below follows:

- one product, `d * q` or `d * sc * q`: 11 bits plus the integers' bits, at most 24, so float32 holds it:
  Q4_0 11+3, Q5_0 11+4, Q8_0 11+7, Q3_K 11+5+2, Q6_K 11+7+5 (the most negative value of a signed integer is a power
  of two and adds no bit beyond those);
- a difference or sum, `d * q + m` or `d * sc * q - dmin * mn`: both terms are multiples of 2^-24, so the result is,
  and so is every float64 partial result. Below 2^16 * 2^5 + 2^16 < 2^22 for Q4_1 and Q5_1, that is 46 bits; below
  2^16 * 63 * 31 + 2^16 * 63 < 2^27 for Q4_K and Q5_K, 51 bits, and less for Q2_K: float64 has 53.

Nothing here rounds; the least multiple, 2^-24, is far from either format's underflow. A scale that is infinite or NaN
gives what IEEE arithmetic gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from presk_db.checkpoints.source import Array

_LOW_HIGH = np.array([0, 4], dtype=np.uint8)
_CRUMBS = np.array([0, 2, 4, 6], dtype=np.uint8)
_BITS = np.arange(8, dtype=np.uint8)


@dataclass(frozen=True)
class GgmlType:
    """One storage type: `elements` to a block of `bytes` bytes.

    `storage` is the NumPy type of a plain format. For a block format, `values` maps blocks (n, bytes) of uint8 to
    reals (n, elements), and `real` is their type, float32 or float64. A type with neither is known but not read.
    """

    name: str
    elements: int
    bytes: int
    storage: str = ""
    real: str = ""
    values: Callable[[Array], Array] | None = None


def _halves(blocks: Array, start: int, real: str) -> Array:
    """The binary16 at byte `start` of every block, exactly, as (n, 1)."""
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2").astype(real)


def _nibbles(packed: Array) -> Array:
    """(n, k) bytes to (n, 2k) integers: all low nibbles, then all high ones."""
    return ((packed[:, None, :] >> _LOW_HIGH[:, None]) & np.uint8(15)).reshape(len(packed), -1)


def _fifth_bits(packed: Array) -> Array:
    """(n, 4) bytes to (n, 32) integers: bit i of the little-endian word, as 0 or 16."""
    bits: Array = np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little") << np.uint8(4)
    return bits


def _q4_0(blocks: Array) -> Array:
    """d: f16; 16 bytes of nibbles. d * (q - 8)."""
    return _halves(blocks, 0, "f4") * (_nibbles(blocks[:, 2:]).astype("f4") - np.float32(8))


def _q4_1(blocks: Array) -> Array:
    """d, m: f16; 16 bytes of nibbles. d * q + m."""
    return _halves(blocks, 0, "f8") * _nibbles(blocks[:, 4:]) + _halves(blocks, 2, "f8")


def _q5_0(blocks: Array) -> Array:
    """d: f16; 4 bytes of fifth bits; 16 bytes of nibbles. d * (q - 16)."""
    q = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _halves(blocks, 0, "f4") * (q.astype("f4") - np.float32(16))


def _q5_1(blocks: Array) -> Array:
    """d, m: f16; 4 bytes of fifth bits; 16 bytes of nibbles. d * q + m."""
    q = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _halves(blocks, 0, "f8") * q + _halves(blocks, 2, "f8")


def _q8_0(blocks: Array) -> Array:
    """d: f16; 32 int8. d * q."""
    return _halves(blocks, 0, "f4") * blocks[:, 2:].view(np.int8)


def _q2_k(blocks: Array) -> Array:
    """16 bytes of (scale, min) nibbles; 64 bytes of 2-bit q; d, dmin: f16. d * sc * q - dmin * mn, 16 by 16."""
    n = len(blocks)
    pairs = blocks[:, :16]
    scale = (_halves(blocks, 80, "f8") * (pairs & np.uint8(15)))[:, :, None]
    minimum = (_halves(blocks, 82, "f8") * (pairs >> np.uint8(4)))[:, :, None]
    q = (blocks[:, 16:80].reshape(n, 2, 1, 32) >> _CRUMBS[:, None]) & np.uint8(3)
    reals: Array = scale * q.reshape(n, 16, 16) - minimum
    return reals.reshape(n, 256)


def _q3_k(blocks: Array) -> Array:
    """32 bytes of high bits; 64 bytes of 2-bit q; 12 bytes of 6-bit scales; d: f16. d * (sc - 32) * (q - 4 or q)."""
    n = len(blocks)
    packed = blocks[:, 96:108]
    low = _nibbles(packed[:, :8])
    high = ((packed[:, None, 8:] >> _CRUMBS[:, None]) & np.uint8(3)).reshape(n, 16)
    scale = (low | (high << np.uint8(4))).astype("f4") - np.float32(32)
    q = ((blocks[:, 32:96].reshape(n, 2, 1, 32) >> _CRUMBS[:, None]) & np.uint8(3)).reshape(n, 256)
    high_bit = ((blocks[:, None, :32] >> _BITS[:, None]) & np.uint8(1)).reshape(n, 256)
    signed = (q | (high_bit << np.uint8(2))).astype("f4") - np.float32(4)  # the high bit set means no 4 taken off
    reals: Array = (_halves(blocks, 108, "f4") * scale)[:, :, None] * signed.reshape(n, 16, 16)
    return reals.reshape(n, 256)


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """12 bytes of Q4_K and Q5_K to 8 six-bit scales and 8 six-bit minima, each (n, 8).

    Bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low six bits; bytes 8-11 the low nibbles of scales
    4-7 (low) and minima 4-7 (high), whose upper two bits are the top bits of bytes 0-3 and 4-7.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = [first & np.uint8(63), (third & np.uint8(15)) | ((first >> np.uint8(2)) & np.uint8(48))]
    minima = [second & np.uint8(63), (third >> np.uint8(4)) | ((second >> np.uint8(2)) & np.uint8(48))]
    return np.concatenate(scales, axis=1), np.concatenate(minima, axis=1)


def _k_scaled(blocks: Array, q: Array) -> Array:
    """d * sc * q - dmin * mn of Q4_K and Q5_K, 32 by 32: q is (n, 8, 32)."""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    scale = (_halves(blocks, 0, "f8") * scales)[:, :, None]
    minimum = (_halves(blocks, 2, "f8") * minima)[:, :, None]
    reals: Array = scale * q - minimum
    return reals.reshape(len(blocks), 256)


def _q4_k(blocks: Array) -> Array:
    """d, dmin: f16; 12 bytes of scales and minima; 128 bytes of nibbles."""
    q = (blocks[:, 16:].reshape(-1, 4, 1, 32) >> _LOW_HIGH[:, None]) & np.uint8(15)
    return _k_scaled(blocks, q.reshape(-1, 8, 32))


def _q5_k(blocks: Array) -> Array:
    """d, dmin: f16; 12 bytes of scales and minima; 32 bytes of fifth bits; 128 bytes of nibbles."""
    low = ((blocks[:, 48:].reshape(-1, 4, 1, 32) >> _LOW_HIGH[:, None]) & np.uint8(15)).reshape(-1, 8, 32)
    high = (blocks[:, None, 16:48] >> _BITS[:, None]) & np.uint8(1)
    return _k_scaled(blocks, low | (high << np.uint8(4)))


def _q6_k(blocks: Array) -> Array:
    """128 bytes of nibbles; 64 bytes of 2-bit tops; 16 int8 scales; d: f16. d * sc * (q - 32), 16 by 16."""
    n = len(blocks)
    low = ((blocks[:, :128].reshape(n, 2, 1, 64) >> _LOW_HIGH[:, None]) & np.uint8(15)).reshape(n, 256)
    top = ((blocks[:, 128:192].reshape(n, 2, 1, 32) >> _CRUMBS[:, None]) & np.uint8(3)).reshape(n, 256)
    q = (low | (top << np.uint8(4))).astype("f4") - np.float32(32)
    scale = _halves(blocks, 208, "f4") * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return (scale[:, :, None] * q.reshape(n, 16, 16)).reshape(n, 256)


# By the number that stands in the file. The types without values are there so that the layout can be checked.
# Q8_1 (9) is left out: no file holds it, and its size has changed.
GGML_TYPES: dict[int, GgmlType] = {
    0: GgmlType("F32", 1, 4, storage="<f4"),
    1: GgmlType("F16", 1, 2, storage="<f2"),
    2: GgmlType("Q4_0", 32, 18, real="f4", values=_q4_0),
    3: GgmlType("Q4_1", 32, 20, real="f8", values=_q4_1),
    6: GgmlType("Q5_0", 32, 22, real="f4", values=_q5_0),
    7: GgmlType("Q5_1", 32, 24, real="f8", values=_q5_1),
    8: GgmlType("Q8_0", 32, 34, real="f4", values=_q8_0),
    10: GgmlType("Q2_K", 256, 84, real="f8", values=_q2_k),
    11: GgmlType("Q3_K", 256, 110, real="f4", values=_q3_k),
    12: GgmlType("Q4_K", 256, 144, real="f8", values=_q4_k),
    13: GgmlType("Q5_K", 256, 176, real="f8", values=_q5_k),
    14: GgmlType("Q6_K", 256, 210, real="f4", values=_q6_k),
    15: GgmlType("Q8_K", 256, 292),
    16: GgmlType("IQ2_XXS", 256, 66),
    17: GgmlType("IQ2_XS", 256, 74),
    18: GgmlType("IQ3_XXS", 256, 98),
    19: GgmlType("IQ1_S", 256, 50),
    20: GgmlType("IQ4_NL", 32, 18),
    21: GgmlType("IQ3_S", 256, 110),
    22: GgmlType("IQ2_S", 256, 82),
    23: GgmlType("IQ4_XS", 256, 136),
    24: GgmlType("I8", 1, 1, storage="<i1"),
    25: GgmlType("I16", 1, 2, storage="<i2"),
    26: GgmlType("I32", 1, 4, storage="<i4"),
    27: GgmlType("I64", 1, 8, storage="<i8"),
    28: GgmlType("F64", 1, 8, storage="<f8"),
    29: GgmlType("IQ1_M", 256, 56),
    30: GgmlType("BF16", 1, 2, storage="<u2"),
    34: GgmlType("TQ1_0", 256, 54),
    35: GgmlType("TQ2_0", 256, 66),
    39: GgmlType("MXFP4", 32, 17),
}


def dequantized(blocks: Array, kind: GgmlType) -> Array:
    """The exact reals of blocks (n, kind.bytes) of uint8: one-dimensional, n * kind.elements of kind.real.

    Requires kind.values. Works in pieces, so that the temporaries stay small beside the result.
    """
    assert kind.values is not None
    result = np.empty((len(blocks), kind.elements), dtype=kind.real)
    piece = max(1, 65536 // kind.elements)
    with np.errstate(invalid="ignore"):  # an infinite scale times 0
        for start in range(0, len(blocks), piece):
            result[start : start + piece] = kind.values(blocks[start : start + piece])
    return result.reshape(-1)
