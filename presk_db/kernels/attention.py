"""attention_of: what a kernel does for each row between two products, where it is one nest that tiles of rows keep."""

from collections.abc import Sequence
from dataclasses import dataclass

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Const, Index, Kernel, Load, Local, Loop, Op, Scalar, Statement, Store
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.products import Product, product_at
from presk_db.kernels.ranges import extent_bounds
from presk_db.kernels.tree import Nest
from presk_db.kernels.types import COMPUTE

PURE = (Const, Index, Load, Op, Scalar)


@dataclass(frozen=True)
class Attention:
    """`for batch, row: scores[key] = sum over d of query * key; …; out[column] = sum over key of weights[key] * value`.

    `scores` stores its sums, as they are, into the local `score_row`; `values` has an element of the local `weight_row`
    as left factor. `middle` is what stands between them: any loops and statements over one row. `lead` stands before
    the scores. Both extents over keys are the same for all rows, or grow by 1 from row to row.
    """

    scores: Product
    score_row: Local
    lead: tuple[Statement, ...]
    middle: tuple[Statement | Nest, ...]
    weight_row: Local
    values: Product

    @property
    def row(self) -> Loop:
        """The loop over rows."""
        assert self.scores.row is not None
        return self.scores.row


def attention_of(kernel: Kernel) -> Attention | None:
    """The kernel's attention, or None where its nest is another one."""
    nodes: Sequence[Statement | Nest] = live_tree(kernel)
    loops: list[Loop] = []
    levels: list[list[Statement]] = []
    while True:
        inner = [n for n in nodes if isinstance(n, Nest)]
        flat = [n for n in nodes if not isinstance(n, Nest)]
        if len(inner) != 1:
            break
        if inner[0].loop.kind != "par" or not all(isinstance(s, PURE) for s in flat):
            return None
        if set(inner[0].loop.extent.names) & {loop.var for loop in loops}:
            return None
        levels.append(flat)
        loops.append(inner[0].loop)
        nodes = inner[0].body
    if not loops or len(inner) < 2 or nodes[-1] is not inner[-1]:
        return None
    return _attention(kernel, loops, levels, nodes, inner)


def _attention(
    kernel: Kernel,
    loops: list[Loop],
    levels: list[list[Statement]],
    nodes: Sequence[Statement | Nest],
    inner: list[Nest],
) -> Attention | None:
    start = next(i for i, n in enumerate(nodes) if n is inner[0])
    lead = [n for n in nodes[:start] if not isinstance(n, Nest)]
    pure: list[Statement] = [s for s in nodes if isinstance(s, PURE)]
    locals_ = {s.name: s for s in nodes if isinstance(s, Local)}
    scores = _product(kernel, loops, [*levels, [s for s in pure if s in lead]], inner[0])
    values = _product(kernel, loops, [*levels, pure], inner[-1])
    if scores is None or values is None or not all(isinstance(s, (*PURE, Local)) for s in lead):
        return None
    stored = [n for n in inner[0].body if isinstance(n, Store)]
    weights = values.left.statements
    if len(stored) != 1 or len(weights) != 1 or not isinstance(weights[0], Load):
        return None
    (store,), weight = stored, weights[0]
    plain = len(inner[0].body) == 3 and store.value == scores.acc.dest
    if not plain or store.index != (Affine.var(scores.column.var),) or weight.index != (Affine.var(values.k.var),):
        return None
    score_row, weight_row = locals_.get(store.array), locals_.get(weight.array)
    if score_row is None or weight_row is None or score_row is weight_row:
        return None
    types = {scores.acc.type, values.acc.type, COMPUTE[score_row.type], COMPUTE[weight_row.type]}
    sources = (scores.left.source, scores.right.source, values.right.source)
    if len(types) != 1 or any(s is None or s.type not in (scores.acc.type, "bf16") for s in sources):
        return None
    bounds = extent_bounds(kernel)
    if not all(_grows(e, loops[-1], loops) for e in (scores.column.extent, values.k.extent)):
        return None
    if min(bounds[v] for v in (loops[-1].var, scores.k.var, scores.column.var, values.column.var, values.k.var)) < 1:
        return None
    return Attention(scores, score_row, tuple(lead), tuple(nodes[start + 1 : -1]), weight_row, values)


def _product(kernel: Kernel, loops: list[Loop], levels: list[list[Statement]], nest: Nest) -> Product | None:
    """The product of a par loop inside the rows."""
    inner = [n for n in nest.body if isinstance(n, Nest)]
    if nest.loop.kind != "par" or len(inner) != 1 or inner[0].loop.kind != "seq":
        return None
    flat = [n for n in nest.body if not isinstance(n, Nest)]
    if nest.loop.var in inner[0].loop.extent.names:
        return None
    return product_at(kernel, [*loops, nest.loop], [*levels, flat], inner[0])


def _grows(extent: Affine, row: Loop, loops: Sequence[Loop]) -> bool:
    """Whether an extent stays or grows by 1 from row to row, and moves with no other loop."""
    others = {loop.var for loop in loops if loop is not row}
    return extent.coefficient(row.var) in (0, 1) and not others.intersection(extent.names)
