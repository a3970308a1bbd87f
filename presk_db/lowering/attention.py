"""attention_of: a product, a row function of it, and a product with its result, that one kernel can do row by row.

Such a kernel holds a query's scores in locals: nothing of size (T, S) reaches memory. Where the row function is a softmax
of causally masked scores, the masked keys are not computed at all. That is the definition of the fused kernel: a masked
key's value is multiplied by nothing, where by zero it would make NaN of an infinity. Of finite values the bits are those
of the three kernels apart: a masked weight is exp(-inf) = +0, and no sum that begins with +0 changes by ±0.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from presk_db.lowering.flat import FlatEquation, Value
from presk_db.lowering.views import axis_variables, chain_of, pulled, root_of


@dataclass(frozen=True)
class Part:
    """A cluster's equations, and the values of them that need memory."""

    kind: str
    shape: tuple[int, ...]
    equations: tuple[FlatEquation, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class Attention:
    """Two matmuls, `scores` and `values`, and a row function between them.

    `made` is what it reads of the first (the matmul's result, or what follows from it), `weights` what it gives the second.

    `phases` are the row function's reductions in order. Where it is a causal softmax, `mask` is its select, with the
    scores as second operand.
    """

    scores: FlatEquation
    made: Value
    phases: tuple[FlatEquation, ...]
    weights: FlatEquation
    values: FlatEquation
    mask: FlatEquation | None


def attention_of(
    scores: Part, row: Part, values: Part, users: Callable[[Value], Sequence[FlatEquation]], reductions: Sequence[str]
) -> Attention | None:
    """The three clusters as one, or None where they do not fit.

    Args:
        scores: a product.
        row: a row function over its last axis.
        values: a product.
        users: the equations that use a value, or a view of it.
        reductions: the operations that are phases.
    """
    if (scores.kind, row.kind, values.kind) != ("product", "row", "product"):
        return None
    if row.shape != scores.shape or min(row.shape[-2:]) < 2 or len(scores.outputs) != 1 or len(row.outputs) != 1:
        return None
    first = next(e for e in scores.equations if e.op == "matmul")
    second = next(e for e in values.equations if e.op == "matmul")
    (made,), (weights,) = scores.outputs, row.outputs
    inside = {id(e) for e in (*scores.equations, *row.equations)}
    if not all(id(u) in inside for u in users(made)) or any(u is not second for u in users(weights)):
        return None
    left, right = second.inputs
    if root_of(left) is not weights or root_of(right) is weights or weights.shape != row.shape:
        return None
    if second.output.shape[:-1] != row.shape[:-1] or not _same_place(left, row.shape):
        return None
    if weights.equation not in row.equations:
        return None
    for e in row.equations:
        if not all(_same_place(v, row.shape) for v in e.inputs if root_of(v) is made):
            return None
    phases = tuple(e for e in row.equations if e.op in reductions)
    assert weights.equation is not None
    return Attention(first, made, phases, weights.equation, second, _mask(row.equations, weights.equation))


def _same_place(value: Value, shape: tuple[int, ...]) -> bool:
    """Whether an element of the view is the root's element at the same index."""
    if value.shape != shape or root_of(value).shape != shape:
        return False
    index, ranges = axis_variables(shape)
    return not chain_of(value) or pulled(value, index, ranges) == index


def _mask(equations: Sequence[FlatEquation], weights: FlatEquation) -> FlatEquation | None:
    """The select of a softmax exp(s - max(s)) / sum(exp(s - max(s))), s = select(condition, x, -inf)."""
    selects = [e for e in equations if e.op == "select"]
    if len(selects) != 1:
        return None
    (s,) = selects
    other = root_of(s.inputs[2]).equation
    if other is None or other.op != "const" or other.attributes["value"] != -math.inf:
        return None

    def only(op: str, *operands: FlatEquation) -> FlatEquation | None:
        """The one equation with this operation on these."""
        found = [e for e in equations if e.op == op and [root_of(v).equation for v in e.inputs] == list(operands)]
        return found[0] if len(found) == 1 else None

    largest = only("reduce_max", s)
    shifted = only("sub", s, largest) if largest else None
    powers = only("exp", shifted) if shifted else None
    total = only("reduce_sum", powers) if powers else None
    if total is None or powers is None or only("div", powers, total) is not weights:
        return None
    allowed = {id(s): (largest, shifted), id(shifted): (powers,), id(powers): (total, weights)}
    for e in equations:
        for v in e.inputs:
            users = allowed.get(id(root_of(v).equation))
            if users is not None and not any(e is u for u in users):
                return None
    return s
