"""The primitives: what an equation can be, each with its shape rule.

Every shape rule raises ShapeBad (E1201) or KindBad (E1202) with the user's line. Layers above own further tables that
name these primitives: how each is lowered (`lowering`), and how it is differentiated.
"""

import builtins
import math
from collections.abc import Sequence
from typing import Any

from presk_db.errors import KindBad, ShapeBad
from presk_db.language.graph import Kind
from presk_db.language.tracing import Tensor, emit, source_line

UNARY = ("neg", "abs", "sqrt", "exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "erf", "sigmoid", "silu", "gelu")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not")
ELEMENTWISE = (*UNARY, *BINARY, *COMPARE, *LOGIC, "select", "real")
"""Equations whose output element depends on the operands' elements at the same index; all shapes are equal."""

LAYOUT = ("reshape", "transpose", "slice", "broadcast")
"""Equations that only rename indices."""

REDUCTIONS = ("reduce_sum", "reduce_max", "argmax")
"""Equations that fold one axis, which is the attribute `axis`."""

MARKS = ("stop", "site", "update", "seen")
"""Equations that give their first operand itself and say something about it: see the functions of these names."""

PRIMITIVES = (
    *ELEMENTWISE, *LAYOUT, *REDUCTIONS, *MARKS, "const", "iota", "gather", "scatter_add", "take_rows", "put_rows", "concat",
    "matmul",
)  # fmt: skip

Number = int | float


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ShapeBad(message, source_line())


def _kind(tensor: Tensor, kinds: tuple[Kind, ...], op: str) -> None:
    if not isinstance(tensor, Tensor):
        raise KindBad(f"{op} takes a tensor, not {type(tensor).__name__}", source_line())
    if tensor.kind not in kinds:
        raise KindBad(f"{op} takes {' or '.join(kinds)}, not {tensor.kind}", source_line())


def const(value: Number) -> Tensor:
    """A real constant of shape (): exactly the f64 `value`."""
    return emit("const", [], "real", (), value=float(value))


def integer(value: int) -> Tensor:
    """An integer constant of shape ()."""
    return emit("const", [], "int", (), limit=value + 1 if value >= 0 else None, value=int(value))


def lift(x: Any, like: Tensor) -> Tensor:
    """`x` itself, or a Python number as a constant of the kind of `like`."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return integer(x) if isinstance(like, Tensor) and like.kind == "int" and isinstance(x, int) else const(x)
    raise KindBad(f"{type(x).__name__} is neither a tensor nor a number", source_line())


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` repeated to `shape` by NumPy's rule: axes are aligned from the last, extents of 1 are repeated."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    fits = len(padded) == len(shape) and all(a in (1, b) for a, b in zip(padded, shape, strict=True))
    _need(fits, f"{list(x.shape)} cannot be broadcast to {list(shape)}")
    return emit("broadcast", [x], x.kind, shape, x.var.limit)


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands by NumPy's rule; ShapeBad where there is none."""
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = []
    for axis in range(rank):
        extents = {s[axis] for s in padded} - {1}
        _need(len(extents) <= 1, "shapes " + " and ".join(str(list(s)) for s in shapes) + " do not broadcast together")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def _common(*operands: Tensor) -> list[Tensor]:
    shape = broadcast_shape(*(t.shape for t in operands))
    return [broadcast_to(t, shape) for t in operands]


def unary(op: str, x: Tensor) -> Tensor:
    """Elementwise `op` of UNARY on reals."""
    _kind(x, ("real",), op)
    return emit(op, [x], "real", x.shape)


def binary(op: str, a: Any, b: Any) -> Tensor:
    """Elementwise `op` of BINARY on two reals, or add, sub, mul on two integers; shapes broadcast."""
    a = lift(a, b)
    b = lift(b, a)
    kinds: tuple[Kind, ...] = ("real", "int") if op in ("add", "sub", "mul") else ("real",)
    _kind(a, kinds, op)
    if a.kind != b.kind:
        raise KindBad(
            f"{op} takes two operands of one kind, not {a.kind} and {b.kind}: convert with real()", source_line()
        )
    a, b = _common(a, b)
    return emit(op, [a, b], a.kind, a.shape)


def compare(op: str, a: Any, b: Any) -> Tensor:
    """Elementwise comparison of two reals or two integers, giving truth values; shapes broadcast."""
    a = lift(a, b)
    b = lift(b, a)
    _kind(a, ("real", "int"), op)
    if a.kind != b.kind:
        raise KindBad(f"{op} compares operands of one kind, not {a.kind} and {b.kind}", source_line())
    a, b = _common(a, b)
    return emit(op, [a, b], "bool", a.shape)


def logical(op: str, *operands: Tensor) -> Tensor:
    """`and`, `or` of two, `not` of one tensor of truth values."""
    for t in operands:
        _kind(t, ("bool",), op)
    tensors = _common(*operands)
    return emit(op, tensors, "bool", tensors[0].shape)


def select(condition: Tensor, a: Any, b: Any) -> Tensor:
    """`a` where the condition holds, else `b`; shapes broadcast."""
    _kind(condition, ("bool",), "select")
    like = a if isinstance(a, Tensor) else b if isinstance(b, Tensor) else const(0)
    a, b = lift(a, like), lift(b, like)
    if a.kind != b.kind:
        raise KindBad(f"select takes two values of one kind, not {a.kind} and {b.kind}", source_line())
    condition, a, b = _common(condition, a, b)
    return emit("select", [condition, a, b], a.kind, a.shape)


def real(x: Tensor) -> Tensor:
    """Integers or truth values (0, 1) as reals."""
    _kind(x, ("int", "bool"), "real")
    return emit("real", [x], "real", x.shape)


def reshape(x: Tensor, *shape: int) -> Tensor:
    """The same elements in row-major order under another shape; one extent may be -1."""
    size = math.prod(x.shape)
    if -1 in shape:
        rest = math.prod(n for n in shape if n != -1)
        _need(shape.count(-1) == 1 and rest > 0 and size % rest == 0, f"{list(x.shape)} cannot become {list(shape)}")
        shape = tuple(size // rest if n == -1 else n for n in shape)
    _need(all(n >= 0 for n in shape) and math.prod(shape) == size, f"{list(x.shape)} cannot become {list(shape)}")
    return x if shape == x.shape else emit("reshape", [x], x.kind, shape, x.var.limit)


def transpose(x: Tensor, *axes: int) -> Tensor:
    """Axes in another order: output axis i is input axis `axes[i]`; without axes, the last two change places."""
    rank = len(x.shape)
    _need(bool(axes) or rank >= 2, f"transpose needs two axes, {list(x.shape)} has fewer")
    order = tuple(a % rank if -rank <= a < rank else rank for a in axes) or (*range(rank - 2), rank - 1, rank - 2)
    _need(sorted(order) == list(range(rank)), f"{list(axes)} is no order of the axes of {list(x.shape)}")
    if order == tuple(range(rank)):
        return x
    return emit("transpose", [x], x.kind, tuple(x.shape[a] for a in order), x.var.limit, axes=order)


def axis_number(x: Tensor, axis: int) -> int:
    """`axis` counted from the first; ShapeBad where the tensor has no such axis."""
    _need(-len(x.shape) <= axis < len(x.shape), f"{list(x.shape)} has no axis {axis}")
    return axis % len(x.shape)


def slice_axis(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Elements `start` to `stop - 1` along one axis."""
    axis = axis_number(x, axis)
    _need(0 <= start <= stop <= x.shape[axis], f"[{start}:{stop}] leaves axis {axis} of {list(x.shape)}")
    shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    return x if shape == x.shape else emit("slice", [x], x.kind, shape, x.var.limit, axis=axis, start=start)


def concat(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors one after the other along one axis."""
    _need(len(tensors) > 0, "concat needs at least one tensor")
    first = tensors[0]
    axis = axis_number(first, axis)
    rest = [(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors]
    for t in tensors:
        _kind(t, (first.kind,), "this concat")
    ranks = all(len(t.shape) == len(first.shape) for t in tensors)
    _need(ranks and len(set(rest)) == 1, "concat of " + ", ".join(str(list(t.shape)) for t in tensors))
    if len(tensors) == 1:
        return first
    limits = [t.var.limit for t in tensors]
    limit = None if None in limits else max(m for m in limits if m is not None)
    extent = builtins.sum(t.shape[axis] for t in tensors)
    return emit(
        "concat", tensors, first.kind, (*first.shape[:axis], extent, *first.shape[axis + 1 :]), limit, axis=axis
    )


def gather(table: Tensor, index: Tensor) -> Tensor:
    """`table[index[i...], j...]`: rows of the table, for integers whose range is known to lie inside it."""
    _kind(index, ("int",), "gather")
    _need(len(table.shape) >= 1, "gather needs a table with an axis")
    limit = index.var.limit
    _need(
        limit is not None and limit <= table.shape[0], f"indices below {limit} leave a table of {table.shape[0]} rows"
    )
    return emit("gather", [table, index], table.kind, (*index.shape, *table.shape[1:]), table.var.limit)


def scatter_add(index: Tensor, updates: Tensor, rows: int) -> Tensor:
    """A table of `rows` rows: row r is the sum of the updates (index.shape, ...) whose index is r, in row-major order."""
    _kind(index, ("int",), "scatter_add")
    _kind(updates, ("real",), "scatter_add")
    rank, limit = len(index.shape), index.var.limit
    _need(updates.shape[:rank] == index.shape, f"updates {list(updates.shape)} for indices {list(index.shape)}")
    _need(limit is not None and limit <= rows, f"indices below {limit} leave a table of {rows} rows")
    return emit("scatter_add", [index, updates], "real", (rows, *updates.shape[rank:]))


def _run(x: Tensor, start: Tensor, count: int, axis: int, op: str) -> int:
    """The axis, counted from the first; ShapeBad unless every run of `count` rows from `start` on lies inside it."""
    axis = axis_number(x, axis)
    _kind(start, ("int",), op)
    limit = start.var.limit
    _need(start.shape == () and limit is not None, f"{op} starts at one integer whose range is known")
    fits = limit is not None and 0 <= count <= x.shape[axis] - (limit - 1)
    _need(fits, f"{count} rows from below {limit} on leave axis {axis} of {list(x.shape)}")
    return axis


def take_rows(x: Tensor, start: Tensor, count: int, axis: int = 0) -> Tensor:
    """Elements `start` to `start + count - 1` along one axis; `start` is an integer of the run, and they lie inside."""
    axis = _run(x, start, count, axis, "take_rows")
    return emit("take_rows", [x, start], x.kind, (*x.shape[:axis], count, *x.shape[axis + 1 :]), x.var.limit, axis=axis)


def put_rows(x: Tensor, rows: Tensor, start: Tensor, axis: int = 0) -> Tensor:
    """`x` with `rows` in the place of its elements from `start` on along one axis; `x` is some state, written in place."""
    _kind(rows, (x.kind,), "put_rows")
    _need(len(rows.shape) == len(x.shape), f"put_rows of {list(rows.shape)} into {list(x.shape)}")
    axis = _run(x, start, rows.shape[axis_number(x, axis)], axis, "put_rows")
    rest = all(n == m or a == axis for a, (n, m) in enumerate(zip(rows.shape, x.shape, strict=True)))
    _need(rest, f"put_rows of {list(rows.shape)} into {list(x.shape)}")
    return emit("put_rows", [x, rows, start], x.kind, x.shape, x.var.limit, axis=axis)


def stop(x: Tensor) -> Tensor:
    """`x`, taken as a constant by derivatives."""
    return emit("stop", [x], x.kind, x.shape, x.var.limit)


def site(x: Tensor) -> Tensor:
    """`x` as a site of its own, to which a realization can give another type than `x` has."""
    _kind(x, ("real",), "site")
    return emit("site", [x], "real", x.shape)


def update(x: Tensor, old: Tensor) -> Tensor:
    """`x`, the new value of the state that was `old`: EntryBad (E1203) where no result of the entry depends on it.

    Where `old` is a parameter or an input of the entry and a result is `x` itself, the result updates it: a program
    computes it in the memory of `old` and can repeat the entry.
    """
    _kind(old, (x.kind,), "update")
    _need(x.shape == old.shape, f"a new value {list(x.shape)} of a state {list(old.shape)}")
    return emit("update", [x, old], x.kind, x.shape, x.var.limit)


def seen(x: Tensor, start: Tensor, count: int, axis: int) -> Tensor:
    """`x`, of which the elements from `start + count` on along one axis do not count: all who use `x` mask them.

    So a program need not compute them, nor what follows from them alone.
    """
    axis = _run(x, start, count, axis, "seen")
    return emit("seen", [x, start], x.kind, x.shape, x.var.limit, axis=axis, count=count)


def iota(shape: Sequence[int], axis: int) -> Tensor:
    """Integers: each element's index along `axis`."""
    shape = tuple(shape)
    _need(all(n >= 0 for n in shape), f"{list(shape)} has a negative extent")
    _need(0 <= axis < len(shape), f"{list(shape)} has no axis {axis}")
    return emit("iota", [], "int", shape, max(shape[axis], 1), axis=axis)


def positions(n: int) -> Tensor:
    """The integers 0 to n - 1."""
    return iota((n,), 0)


def _reduced(op: str, x: Tensor, axis: int, kind: Kind, limit: int | None, keep: bool) -> Tensor:
    axis = axis_number(x, axis)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    out = emit(op, [x], kind, shape, limit, axis=axis)
    return reshape(out, *x.shape[:axis], 1, *x.shape[axis + 1 :]) if keep else out


def sum(x: Tensor, axis: int = -1, keep: bool = False) -> Tensor:
    """The sum along one axis, in 32 lanes; with `keep` the axis stays, with extent 1."""
    _kind(x, ("real",), "sum")
    return _reduced("reduce_sum", x, axis, "real", None, keep)


def mean(x: Tensor, axis: int = -1, keep: bool = False) -> Tensor:
    """The sum along one axis divided by its extent, which must not be 0."""
    n = x.shape[axis_number(x, axis)]
    _need(n > 0, "mean of an empty axis")
    return binary("div", sum(x, axis, keep), float(n))


def amax(x: Tensor, axis: int = -1, keep: bool = False) -> Tensor:
    """The maximum along one axis by order-preserving keys: -0 < +0, NaN above all; -inf over nothing."""
    _kind(x, ("real",), "max")
    return _reduced("reduce_max", x, axis, "real", None, keep)


def argmax(x: Tensor, axis: int = -1) -> Tensor:
    """The first index of the maximum along one axis."""
    _kind(x, ("real",), "argmax")
    n = x.shape[axis_number(x, axis)]
    _need(n > 0, "argmax of an empty axis")
    return _reduced("argmax", x, axis, "int", n, False)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a (..., M, K) @ b (..., K, N)`; leading axes broadcast. Each element is a sum over k in ascending order."""
    _kind(a, ("real",), "matmul")
    _kind(b, ("real",), "matmul")
    fits = len(a.shape) >= 2 and len(b.shape) >= 2 and a.shape[-1] == b.shape[-2]
    _need(fits, f"matmul of {list(a.shape)} and {list(b.shape)}")
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, (*batch, *a.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.shape[-2:]))
    return emit("matmul", [a, b], "real", (*batch, a.shape[-2], b.shape[-1]))
