"""limits_of: along which axes only the first elements of a value count, and how many: `start + count` of the run."""

from collections.abc import Callable, Mapping
from math import prod

from presk_db.language.primitives import ELEMENTWISE, REDUCTIONS
from presk_db.lowering.flat import Flat, FlatEquation, Value

Limit = tuple[Value, int]
"""An integer of the run, and how many more: elements from their sum on do not count."""

Limits = Mapping[int, Mapping[int, Limit]]
"""By a value's id and axis."""


class _LostError(Exception):
    """A limit reaches an equation that cannot keep it."""


def limits_of(flat: Flat) -> Limits:
    """The limits that follow from those that the graph states (`seen`): none at all where one could not be kept.

    What is behind a limit is never stored, so that every reader has to know the limit.
    """
    found: dict[int, dict[int, Limit]] = {}
    try:
        for e in flat.equations:
            limits = _result_limits(e, found)
            if e.output.id in flat.seen:
                axis, start, count = flat.seen[e.output.id]
                limits = {**limits, axis: (start, count)}
            if limits:
                found[e.output.id] = limits
        if any(v.id in found and v.id not in flat.seen for _, v in flat.results):
            return {}
    except _LostError:
        return {}
    return found


def _result_limits(e: FlatEquation, found: Mapping[int, Mapping[int, Limit]]) -> dict[int, Limit]:
    given = [found.get(v.id, {}) for v in e.inputs]
    if not any(given) or e.op in ("put_rows", "stack"):
        return {}
    shape, out = e.inputs[0].shape, e.output.shape
    limits: dict[int, Limit] = {}
    if e.op in ELEMENTWISE:
        return {a: limit for g in given for a, limit in g.items()}
    if e.op == "matmul":
        k = (len(shape) - 1, len(shape) - 2)
        return {a: limit for g, inner in zip(given, k, strict=True) for a, limit in g.items() if a != inner}
    if len(e.inputs) != 1 or not (moved := _MOVES.get(e.op)):
        raise _LostError
    for axis, limit in given[0].items():
        if e.op in REDUCTIONS and e.attributes["axis"] == axis:
            continue
        place = moved(e, axis, shape, out)
        if place is None:
            raise _LostError
        limits[place] = limit
    return limits


def _reshaped(e: FlatEquation, axis: int, shape: tuple[int, ...], out: tuple[int, ...]) -> int | None:
    before = prod(shape[:axis])
    return next((a for a, n in enumerate(out) if n == shape[axis] and prod(out[:a]) == before), None)


_MOVES: dict[str, Callable[[FlatEquation, int, tuple[int, ...], tuple[int, ...]], int | None]] = {
    "reshape": _reshaped,
    "transpose": lambda e, axis, shape, out: e.attributes["axes"].index(axis),
    "broadcast": lambda e, axis, shape, out: axis + len(out) - len(shape) if shape[axis] != 1 else None,
    "slice": lambda e, axis, shape, out: None if e.attributes["axis"] == axis else axis,
    **dict.fromkeys(REDUCTIONS, lambda e, axis, shape, out: axis - (e.attributes["axis"] < axis)),
}
"""Where an operand's axis is in the result; None where its first elements are no longer the first."""
