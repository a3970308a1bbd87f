"""attention_of: a product, a row function of it, and a product with its result, that one kernel can do row by row.

Such a kernel holds a query's scores in locals. Where all that is made of the keys behind what a query sees is a number
that changes no sum and no maximum (`tails`), those keys are not computed at all. Then what else reads the row
function's results is stored, too, with that number for the other keys: the weights of a softmax that its gradient
needs, the scores' gradient that two products read. That is the definition of the fused kernel: a masked key's value is multiplied
by nothing, where by zero it would make NaN of an infinity. Of finite values the bits are those of the three kernels
apart: a masked weight is +0, and no sum that begins with +0 changes by ±0.
"""

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from presk_db.lowering.flat import FlatEquation, Value
from presk_db.lowering.tails import Tail, Tails, masked_behind, tail_seen
from presk_db.lowering.views import axis_variables, chain_of, pulled, root_of

NEUTRAL = {"reduce_sum": 0.0, "reduce_max": -math.inf}
"""What a reduction may fold any number of times without a change."""


@dataclass(frozen=True)
class Part:
    """A cluster's equations, and the values of them that need memory."""

    kind: str
    shape: tuple[int, ...]
    equations: tuple[FlatEquation, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class Seen:
    """Query t sees the keys s <= t + behind; `masks` are the selects whose condition that is, `rest` what is stored of
    the other keys, by a value's id.
    """

    behind: int
    masks: tuple[FlatEquation, ...]
    rest: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Attention:
    """Two matmuls, `scores` and `values`, and a row function between them.

    `made` is what it reads of the first (the matmul's result, or what follows from it), `weights` what it gives the second.

    `phases` are the row function's reductions in order, `stored` what else than the second product needs of it, and
    `results` what is stored of that product. `seen` says where not all keys count.
    """

    scores: FlatEquation
    made: Value
    phases: tuple[FlatEquation, ...]
    weights: FlatEquation
    stored: tuple[FlatEquation, ...]
    values: FlatEquation
    results: tuple[FlatEquation, ...]
    seen: Seen | None


def attention_of(
    parts: tuple[Part, Part, Part],
    users: Callable[[Value], Sequence[FlatEquation]],
    reductions: Sequence[str],
    needed: Container[int],
    tails: Tails,
) -> Attention | None:
    """The three clusters as one, or None where they do not fit.

    Args:
        parts: a product, a row function over its last axis, a product.
        users: the equations that use a value, or a view of it.
        reductions: the operations that are phases.
        needed: the values, by id, that are stored whoever uses them.
        tails: of all values.
    """
    scores, row, values = parts
    if (scores.kind, row.kind, values.kind) != ("product", "row", "product"):
        return None
    if row.shape != scores.shape or min(row.shape[-2:]) < 2 or len(scores.outputs) != 1:
        return None
    first = next(e for e in scores.equations if e.op == "matmul")
    second = next(e for e in values.equations if e.op == "matmul")
    (made,) = scores.outputs
    left, right = second.inputs
    weights = root_of(left)
    inside = {id(e) for e in (*scores.equations, *row.equations)}
    if weights.equation is None or not any(weights.equation is e for e in row.equations) or root_of(right) is weights:
        return None
    if made.id in needed or not all(id(u) in inside for u in users(made)):
        return None
    if any(e.op == "pack" for e in row.equations):
        return None
    if second.output.shape[:-1] != row.shape[:-1] or weights.shape != row.shape or not _same_place(left, row.shape):
        return None
    for e in row.equations:
        if not all(_same_place(v, row.shape) for v in e.inputs if root_of(v) is made):
            return None
    inner = {id(second), *(id(e) for e in row.equations)}
    stored = tuple(
        v.equation
        for v in row.outputs
        if v.equation is not None and (v.id in needed or any(id(u) not in inner for u in users(v)))
    )
    phases = tuple(e for e in row.equations if e.op in reductions)
    results = tuple(v.equation for v in values.outputs if v.equation is not None)
    seen = _seen(row, phases, weights, stored, tails)
    if stored and seen is None:
        return None  # what is in memory anyway, and read in whole, is as well computed by products of many rows
    return Attention(first, made, phases, weights.equation, stored, second, results, seen)


def _same_place(value: Value, shape: tuple[int, ...]) -> bool:
    """Whether an element of the view is the root's element at the same index."""
    if value.shape != shape or root_of(value).shape != shape:
        return False
    index, ranges = axis_variables(shape)
    return not chain_of(value) or pulled(value, index, ranges) == index


def _seen(
    row: Part, phases: Sequence[FlatEquation], weights: Value, stored: Sequence[FlatEquation], tails: Tails
) -> Seen | None:
    """The keys that count, where the others change neither a reduction, nor a sum over weights, and are stored as one
    number."""
    needs: list[tuple[Tail | None, float | None]] = [(tail_seen(weights, tails), 0.0)]
    needs += [(tail_seen(e.inputs[0], tails), NEUTRAL.get(e.op, math.nan)) for e in phases]
    whole = [e.output for e in stored if e.output.shape == row.shape]
    needs += [(tail_seen(v, tails), None) for v in whole]
    behinds = []
    for tail, number in needs:
        if tail is None or tail.behind is None or (number is not None and tail.number != number):
            return None
        behinds.append(tail.behind)
    behind = max(behinds)
    masks = tuple(e for e in row.equations if e.op == "select" and masked_behind(e) == behind)
    rest = tuple((v.id, tails[v.id].number) for v in whole)
    queries, keys = row.shape[-2:]
    return Seen(behind, masks, rest) if behind >= 0 and queries + behind <= keys else None
