"""The packing of memory: offsets for rigid pieces such that nothing alive overlaps.

A *piece* is a set of rectangles in time and memory that move together: a buffer is one rectangle, a callee's frame is
the rectangles of its locals, at the offsets that its own plan gave them. Because pieces are not opaque blocks, a
buffer may lie in a part of a callee's frame that is dead while the buffer lives.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Every offset and size is a multiple of this many bytes."""

Rectangles = np.ndarray[Any, np.dtype[np.int64]]
"""(n, 4): first operation, last operation (inclusive), lowest byte, the byte after the highest."""

_PAIRS_AT_ONCE = 1 << 20
_ROUNDS = 60
_MOST_STEPS = 400_000


@dataclass(frozen=True)
class Packing:
    """An offset for each piece, and the bytes that all need together."""

    offsets: tuple[int, ...]
    bytes: int


def aligned(size: int) -> int:
    """`size` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def rectangles(rows: list[tuple[int, int, int, int]]) -> Rectangles:
    """Rectangles from rows of first, last, low, high."""
    return np.array(rows, np.int64).reshape(-1, 4)


def moved(found: Rectangles, operations: int, distance: int) -> Rectangles:
    """The rectangles later by so many operations and higher by so many bytes."""
    return found + np.array([operations, operations, distance, distance], np.int64)


def live_bytes(found: Rectangles) -> int:
    """The most bytes that are alive at one operation: no packing needs less."""
    if not len(found):
        return 0
    size = found[:, 3] - found[:, 2]
    change = np.zeros(int(found[:, 1].max()) + 2, np.int64)
    np.add.at(change, found[:, 0], size)
    np.add.at(change, found[:, 1] + 1, -size)
    return int(change.cumsum().max())


def pack(pieces: list[Rectangles], bound: int) -> Packing:
    """The best of several orders of first fit, improved while it is above `bound`, the bytes that no packing can beat.

    The orders: by size, by lifetime, by both, by time. Then the pieces that stick out highest go first, again and
    again. Deterministic.
    """
    conflicts = _conflicts(pieces)
    size = [int(p[:, 3].max()) if len(p) else 0 for p in pieces]
    start = [int(p[:, 0].min()) if len(p) else 0 for p in pieces]
    life = [int(p[:, 1].max()) - begin + 1 if len(p) else 0 for p, begin in zip(pieces, start, strict=True)]
    numbers = range(len(pieces))
    orders = [
        sorted(numbers, key=lambda n: (-size[n], -life[n], n)),
        sorted(numbers, key=lambda n: (-life[n], -size[n], n)),
        sorted(numbers, key=lambda n: (-size[n] * life[n], n)),
        sorted(numbers, key=lambda n: (start[n], -size[n], n)),
        sorted(numbers, key=lambda n: (-start[n] - life[n], -size[n], n)),
    ]
    best: Packing | None = None
    steps = sum(len(c) for c in conflicts.values()) + len(pieces)
    rounds = min(_ROUNDS, _MOST_STEPS // max(steps, 1))
    for order in orders:
        found = _first_fit(order, size, conflicts)
        for _ in range(rounds):
            if best is None or found.bytes < best.bytes:
                best = found
            if best.bytes <= bound:
                return best
            highest = [n for n in order if found.offsets[n] + size[n] == found.bytes]
            order = highest + [n for n in order if n not in highest]
            found = _first_fit(order, size, conflicts)
        if best is None or found.bytes < best.bytes:
            best = found
    assert best is not None
    return best


def overlapping(pieces: list[Rectangles], offsets: list[int]) -> list[tuple[int, int]]:
    """The pairs of pieces that share a byte at one operation, at these offsets: a packing has none."""
    return [
        (n, other)
        for n, found in sorted(_conflicts(pieces).items())
        for other, low, high in found
        if n < other and low < offsets[n] - offsets[other] < high
    ]


def _first_fit(order: list[int], size: list[int], conflicts: dict[int, list[tuple[int, int, int]]]) -> Packing:
    """Each piece in turn at the lowest offset that no piece placed before forbids."""
    offsets: dict[int, int] = {}
    for n in order:
        forbidden = sorted(
            (offsets[other] + low, offsets[other] + high)
            for other, low, high in conflicts.get(n, ())
            if other in offsets and offsets[other] + high > 0
        )
        at = 0
        for low, high in forbidden:  # by their lower ends: none behind the first that starts above can forbid
            if low >= at:
                break
            at = max(at, high)
        offsets[n] = at
    total = max((offsets[n] + size[n] for n in order), default=0)
    return Packing(tuple(offsets[n] for n in range(len(size))), total)


def _conflicts(pieces: list[Rectangles]) -> dict[int, list[tuple[int, int, int]]]:
    """For each piece: (other, low, high), where its offset minus the other's must not lie strictly between."""
    owners = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])
    flat = np.concatenate([rectangles([]), *pieces])
    some = flat[:, 3] > flat[:, 2]
    order = np.argsort(flat[some, 0], kind="stable")
    flat, owners = flat[some][order], owners[some][order]
    until = np.searchsorted(flat[:, 0], flat[:, 1], side="right")  # rectangles that begin while this one lives
    counts = until - np.arange(len(flat)) - 1
    found = [np.zeros((0, 4), np.int64)]
    begin = 0
    while begin < len(flat):
        end = max(int(np.searchsorted(counts[begin:].cumsum(), _PAIRS_AT_ONCE)), 1) + begin
        n = counts[begin:end]
        a = np.repeat(np.arange(begin, begin + len(n)), n)
        b = a + 1 + np.arange(len(a)) - np.repeat(n.cumsum() - n, n)
        apart = owners[a] != owners[b]
        a, b = a[apart], b[apart]
        low, high = flat[b, 2] - flat[a, 3], flat[b, 3] - flat[a, 2]
        swap = owners[a] > owners[b]
        rows = np.stack([owners[a], owners[b], low, high], 1)
        rows[swap] = np.stack([owners[b], owners[a], -high, -low], 1)[swap]
        found.append(np.unique(rows, axis=0))
        begin = end
    conflicts: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for u, v, low_, high_ in _merged(np.unique(np.concatenate(found), axis=0).tolist()):
        conflicts[u].append((v, low_, high_))
        conflicts[v].append((u, -high_, -low_))
    return conflicts


def _merged(rows: list[list[int]]) -> list[list[int]]:
    """Rows (u, v, low, high), sorted, with the open intervals of one pair that overlap made one."""
    merged: list[list[int]] = []
    for row in rows:
        if merged and merged[-1][:2] == row[:2] and row[2] < merged[-1][3]:
            merged[-1][3] = max(merged[-1][3], row[3])
        else:
            merged.append(row)
    return merged
