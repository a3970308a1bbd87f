"""Key: the random numbers of presk. ChaCha20 with a 64-bit block counter and a 64-bit stream number.

A key is 32 bytes. Its streams (Bernstein's layout: words 12 and 13 of the state are the counter, 14 and 15 the stream
number, low word first) are used so:

    stream 0   the words that are drawn: block 0, block 1, …, 16 words each, in order
    stream 1   the children: words 0 to 7 of block i are the key of child i
    stream 2   the parts of a split: words 0 to 7 of block i are the key of part i

A key from a seed is the first 32 bytes of the PCG32 stream that rand_core's `seed_from_u64` makes. A 64-bit draw is
two words, low first; a uniform number is the draw's upper 53 bits over 2**53.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint32]]

KEY_WORDS = 8
"""The words of a key. In a program's memory it is as many integers."""

KEY_LIMIT = 2**32
"""Each is below."""

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
_DRAWN, _CHILDREN, _PARTS = 0, 1, 2
_BLOCKS = 4096  # blocks at a time: the state stays in the cache


@dataclass(frozen=True)
class Key:
    """Eight 32-bit words. Equal keys draw equal numbers; a key is never changed by drawing from it."""

    key: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.key) != 8 or not all(0 <= w < 2**32 for w in self.key):
            raise ValueError("a key has eight words of 32 bits")

    @staticmethod
    def from_seed(seed: int) -> "Key":
        """The key that a seed in [0, 2**64) names."""
        if not 0 <= seed < 2**64:
            raise ValueError(f"the seed {seed} is not in [0, 2**64)")
        state, words = seed, []
        for _ in range(8):
            state = (state * 6364136223846793005 + 11634580027462260723) % 2**64
            x = (((state >> 18) ^ state) >> 27) & 0xFFFFFFFF
            turn = state >> 59
            words.append((x >> turn | x << (32 - turn)) & 0xFFFFFFFF)
        return Key(tuple(words))

    @staticmethod
    def from_bytes(data: bytes) -> "Key":
        """The key of 32 bytes, each word little-endian."""
        if len(data) != 32:
            raise ValueError("a key has 32 bytes")
        return Key(tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, 32, 4)))

    def child(self, i: int) -> "Key":
        """The child with the number i in [0, 2**64): words 0 to 7 of block i of stream 1."""
        return self._derived(_CHILDREN, i)

    def split(self, n: int) -> tuple["Key", ...]:
        """n keys: the i-th is words 0 to 7 of block i of stream 2. They differ from all children."""
        return tuple(self._derived(_PARTS, i) for i in range(n))

    def words(self, n: int, start: int = 0) -> Words:
        """n words of stream 0, from word `start` on: (n,)."""
        first = start // 16
        blocks = chacha20(self.key, _DRAWN, first, -(-(start + n) // 16) - first)
        return blocks.reshape(-1)[start - 16 * first :][:n]

    def integers(self, n: int, start: int = 0) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """n 64-bit draws, from draw `start` on: (n,)."""
        pairs = self.words(2 * n, 2 * start).reshape(n, 2).astype(np.uint64)
        return pairs[:, 0] | pairs[:, 1] << np.uint64(32)

    def uniform(self, n: int, start: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
        """n numbers in [0, 1), multiples of 2**-53, from draw `start` on: (n,)."""
        upper: np.ndarray[Any, np.dtype[np.float64]] = (self.integers(n, start) >> np.uint64(11)).astype(np.float64)
        return upper * 2.0**-53

    def _derived(self, stream: int, block: int) -> "Key":
        if not 0 <= block < 2**64:
            raise ValueError(f"{block} is not in [0, 2**64)")
        return Key(tuple(int(w) for w in chacha20(self.key, stream, block, 1)[0, :8]))


def chacha20(key: tuple[int, ...], stream: int, counter: int, blocks: int) -> Words:
    """Blocks of ChaCha20 from block `counter` on: (blocks, 16).

    Args:
        key: eight words.
        stream: in [0, 2**64), the nonce as a little-endian integer.
        counter: in [0, 2**64); the counter wraps around.
        blocks: how many.
    """
    out = np.empty((blocks, 16), np.uint32)
    for start in range(0, blocks, _BLOCKS):
        count = min(_BLOCKS, blocks - start)
        first = np.uint64((counter + start) % 2**64)
        numbers = first + np.arange(count, dtype=np.uint64)  # wraps around
        state = np.empty((16, count), np.uint32)
        state[:4] = np.array(_CONSTANTS, np.uint32)[:, None]
        state[4:12] = np.array(key, np.uint32)[:, None]
        state[12] = numbers & np.uint64(0xFFFFFFFF)
        state[13] = numbers >> np.uint64(32)
        state[14], state[15] = stream % 2**32, stream >> 32
        out[start : start + count] = _mixed(state).T
    return out


def _mixed(state: Words) -> Words:
    """20 rounds on (16, n) states, added to them. The four quarter rounds of a round run together."""
    a, b, c, d = (state[4 * i : 4 * i + 4].copy() for i in range(4))
    free = np.empty_like(a)
    for _ in range(10):
        _quarter_rounds(a, b, c, d, free)
        b, c, d = (np.concatenate((x[n:], x[:n])) for x, n in ((b, 1), (c, 2), (d, 3)))
        _quarter_rounds(a, b, c, d, free)
        b, c, d = (np.concatenate((x[n:], x[:n])) for x, n in ((b, 3), (c, 2), (d, 1)))
    return np.concatenate((a, b, c, d)) + state


def _quarter_rounds(a: Words, b: Words, c: Words, d: Words, free: Words) -> None:
    """In place, on (4, n) arrays; `free` is scratch."""
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        np.add(x, y, out=x)
        np.bitwise_xor(z, x, out=z)
        np.right_shift(z, np.uint32(32 - turn), out=free)
        np.left_shift(z, np.uint32(turn), out=z)
        np.bitwise_or(z, free, out=z)
