"""The accumulators of kernels in NumPy: begin, fold many iterations at once or one by one, finish.

While it is open, an accumulator's state has one element for each point of the vectorized loops around it: the running
sum, the key of the maximum so far, or 32 lanes along a first axis.
"""

from collections.abc import Callable

import numpy as np

from presk_db.kernels.ir import LANES, Acc
from presk_db.native.access import Frame
from presk_db.native.numbers import COMPUTED, KEYS, Array, keys, lowest_key, values_of_keys

Step = Callable[[Frame], None]


def begin(acc: Acc, level: int) -> Step:
    """Sets the accumulator to its value over nothing at each point of the `level` open axes."""
    name = acc.dest
    dtype = KEYS[acc.type] if acc.kind in ("max", "argmax") else COMPUTED[acc.type]
    start = lowest_key(acc.type) if acc.kind == "max" else 0
    below = np.iinfo(dtype).min if acc.kind == "argmax" else 0

    def step(frame: Frame) -> None:
        points = (*frame.extents[:level], *(1 for _ in frame.extents[level:]))
        match acc.kind:
            case "lanes":
                frame.values[name] = np.moveaxis(np.zeros((*points, LANES), dtype), -1, 0)
            case "argmax":
                frame.values[name] = np.zeros(points, np.int64)
                frame.values[name + " key"] = np.full(points, below, dtype)
            case _:
                frame.values[name] = np.full(points, start, dtype)

    return step


def fold(acc: Acc, value: str, level: int, depth: int, var: str | None) -> Step:
    """One `fold` statement.

    Args:
        acc: the accumulator, open at `level` axes.
        value: the folded value, defined where `depth` axes are open; the axes between run at once.
        level: as above.
        depth: as above.
        var: the sequential loop that counts the iterations of `lanes` and `argmax`, None where they run at once.
    """
    match acc.kind:
        case "sum":
            return _fold_sum(acc.dest, value, level, depth)
        case "max":
            return _fold_max(acc, value, tuple(range(level, depth)))
        case "lanes":
            return _fold_lanes(acc.dest, value, level) if var is None else _fold_lane(acc.dest, value, var)
        case "argmax":
            return _fold_argmax(acc, value, level) if var is None else _fold_argmax_one(acc, value, var)


def finish(acc: Acc) -> Step:
    """Turns the state into the value that the statements behind the loop read."""
    name = acc.dest

    def lanes(frame: Frame) -> None:
        state = frame.values[name]
        width = LANES // 2
        while width:
            state = state[:width] + state[width : 2 * width]
            width //= 2
        frame.values[name] = state[0]

    def maximum(frame: Frame) -> None:
        frame.values[name] = values_of_keys(frame.values[name], acc.type)

    def nothing(_: Frame) -> None:
        pass

    return {"lanes": lanes, "max": maximum}.get(acc.kind, nothing)


def _unmasked(frame: Frame, value: Array, neutral: int) -> Array:
    """The value where the mask holds, elsewhere what changes no accumulator (0: a sum that began at +0 is never −0)."""
    return value if frame.mask is None else np.where(frame.mask, value, value.dtype.type(neutral))


def _fold_sum(name: str, value: str, level: int, depth: int) -> Step:
    axes = tuple(range(level, depth))

    def ordered(frame: Frame) -> None:
        state = frame.values[name]
        if frame.mask is None:
            np.add(state, frame.values[value], out=state)
        else:
            np.add(state, frame.values[value], out=state, where=frame.mask)

    def integers(frame: Frame) -> None:
        all_ = _unmasked(frame, frame.values[value], 0)
        full = [max(n, frame.extents[axis]) if axis in axes else n for axis, n in enumerate(all_.shape)]
        state = frame.values[name]
        np.add(state, np.broadcast_to(all_, full).sum(axis=axes, keepdims=True, dtype=np.int64), out=state)

    return integers if axes else ordered


def _fold_max(acc: Acc, value: str, axes: tuple[int, ...]) -> Step:
    lowest = lowest_key(acc.type)

    def step(frame: Frame) -> None:
        found = _unmasked(frame, keys(frame.values[value], acc.type), lowest)
        state = frame.values[acc.dest]
        np.maximum(state, found.max(axis=axes, keepdims=True) if axes else found, out=state)

    return step


def _fold_lanes(name: str, value: str, axis: int) -> Step:
    def step(frame: Frame) -> None:
        all_ = _unmasked(frame, frame.values[value], 0)
        n = frame.extents[axis]
        if all_.shape[axis] != n:
            all_ = np.broadcast_to(all_, (*all_.shape[:axis], n, *all_.shape[axis + 1 :]))
        items = np.expand_dims(np.moveaxis(all_, axis, 0), axis + 1)
        state = frame.values[name]
        for start in range(0, n, LANES):
            count = min(LANES, n - start)
            np.add(state[:count], items[start : start + count], out=state[:count])

    return step


def _fold_lane(name: str, value: str, var: str) -> Step:
    def step(frame: Frame) -> None:
        lane = frame.values[name][frame.integers[var] % LANES]
        np.add(lane, _unmasked(frame, frame.values[value], 0), out=lane)

    return step


def _fold_argmax(acc: Acc, value: str, axis: int) -> Step:
    below = int(np.iinfo(KEYS[acc.type]).min)

    def step(frame: Frame) -> None:
        found = _unmasked(frame, keys(frame.values[value], acc.type), below)
        state = frame.values[acc.dest]
        state[...] = found.argmax(axis=axis, keepdims=True)

    return step


def _fold_argmax_one(acc: Acc, value: str, var: str) -> Step:
    def step(frame: Frame) -> None:
        found = keys(frame.values[value], acc.type)
        state, best = frame.values[acc.dest], frame.values[acc.dest + " key"]
        better = found > best
        if frame.mask is not None:
            better = better & frame.mask
        np.copyto(best, found, where=better)
        np.copyto(state, np.int64(frame.integers[var]), where=better)

    return step
