"""Key: random numbers that are named, split and drawn in a stated way, the same on every machine.

The generator is ChaCha20 in Bernstein's layout: a 64-bit block counter and a 64-bit stream number. A key is 32 bytes.
Its draws are the words of stream 0 from block 0 on, in order; a 64-bit draw is two words, the low one first. Its child
number i is the key whose 32 bytes are the first 32 of stream i + 1; `split(n)` are children 0 to n - 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint32]]

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_ROUNDS = (
    *((i, 4 + i, 8 + i, 12 + i) for i in range(4)),
    *((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)),
)
_CHUNK = 1 << 14  # blocks at a time: 16 arrays of 64 KiB stay in the cache


@dataclass(frozen=True)
class Key:
    """32 bytes that name a stream of random words."""

    bytes: bytes

    @staticmethod
    def from_seed(seed: int) -> "Key":
        """The key of a 64-bit seed: the first 32 bytes of rand_core's PCG32 stream (`seed_from_u64`)."""
        state, out = seed % 2**64, b""
        for _ in range(8):
            state = (state * 6364136223846793005 + 11634580027462260723) % 2**64
            mixed = (((state >> 18) ^ state) >> 27) % 2**32
            turn = state >> 59
            out += (((mixed >> turn) | (mixed << (32 - turn))) % 2**32).to_bytes(4, "little")
        return Key(out)

    def child(self, number: int) -> "Key":
        """The key number `number`, from 0 to 2^64 - 2, under this one."""
        return Key(self.words(8, stream=number + 1).astype("<u4").tobytes())

    def split(self, count: int) -> tuple["Key", ...]:
        """Children 0 to `count` - 1."""
        return tuple(self.child(i) for i in range(count))

    def words(self, count: int, stream: int = 0) -> Words:
        """The first `count` words of a stream."""
        found = list(self._blocks(-(-count // 16), stream))
        return np.concatenate(found)[:count] if found else np.empty(0, np.uint32)

    def uniform(self, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """`count` numbers in [0, 1): the top 53 bits of each 64-bit draw over 2^53."""
        words = self.words(2 * count).astype(np.uint64)
        draws = words[0::2] | (words[1::2] << np.uint64(32))
        return (draws >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _blocks(self, count: int, stream: int) -> Iterator[Words]:
        for first in range(0, count, _CHUNK):
            counters = np.arange(first, min(first + _CHUNK, count), dtype=np.uint64)
            yield chacha20(self.bytes, counters, stream).T.reshape(-1)


def chacha20(key: bytes, counters: np.ndarray[Any, np.dtype[np.uint64]], stream: int) -> Words:
    """The blocks of these counters, as (16, blocks) words (Bernstein 2008, 20 rounds)."""
    n = counters.size
    rows = [*_CONSTANTS, *np.frombuffer(key, "<u4").tolist()]
    start = [np.full(n, row, np.uint32) for row in rows]
    start += [counters.astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)]
    start += [np.full(n, part % 2**32, np.uint32) for part in (stream, stream >> 32)]
    x = [row.copy() for row in start]
    spare = np.empty(n, np.uint32)
    for _ in range(10):
        for a, b, c, d in _ROUNDS:
            for to, by, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[to] += x[by]
                x[turned] ^= x[to]
                np.right_shift(x[turned], np.uint32(32 - bits), out=spare)
                x[turned] <<= np.uint32(bits)
                x[turned] |= spare
    return np.stack([a + b for a, b in zip(x, start, strict=True)])
