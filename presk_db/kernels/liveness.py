"""What a kernel's statements read and define; live_tree: the part of a kernel that reaches an output."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    COMPARISONS,
    Acc,
    Const,
    End,
    ExtentParameter,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Op,
    Routine,
    Scalar,
    Statement,
    Store,
)
from presk_db.kernels.ranges import array_shapes, flat_address
from presk_db.kernels.routines import written
from presk_db.kernels.tree import Nest, statements, tree


def affine_names(s: Statement, shapes: Mapping[str, tuple[int, ...]] | None = None) -> tuple[str, ...]:
    """The names in a statement's affine expressions: an extent, an index; with shapes, those of the flat address."""
    match s:
        case Loop(_, _, extent):
            return extent.names
        case Load(_, array, index) | Store(array, index, _):
            if shapes is not None:
                return flat_address(shapes[array], index).names
            return tuple(name for expression in index for name in expression.names)
        case Index(_, expression):
            return expression.names
        case _:
            return ()


def operands(s: Statement) -> tuple[str, ...]:
    """The values that a statement computes with, not those in its affine expressions; all that a routine is given."""
    match s:
        case Op(_, _, _, args):
            return args
        case Store(_, _, value) | Fold(_, value):
            return (value,)
        case Routine(_, args):
            return args
        case _:
            return ()


def defined(s: Statement) -> str | None:
    """The value that a statement defines."""
    return s.dest if isinstance(s, (Acc, Const, Index, Load, Op, Scalar)) else None


@lru_cache(maxsize=1024)  # who prints a kernel, plans it and checks its schedule asks again and again
def live_tree(kernel: Kernel) -> tuple[Statement | Nest, ...]:
    """`tree(kernel)` without loops that never run, and without statements, locals and loops that no output needs."""
    wanted: set[str] = {a.name for a in kernel.arrays if a.mode == "out"}
    nodes, shapes = _running(tree(kernel)), array_shapes(kernel)
    size = -1
    while size != len(wanted):
        size = len(wanted)
        _mark(nodes, wanted, shapes)
    return _kept(nodes, wanted)


def live_statements(kernel: Kernel) -> list[Statement]:
    """The statements of `live_tree(kernel)` with their loops, flat as a kernel has them."""
    return list(_flat(live_tree(kernel)))


def _flat(nodes: tuple[Statement | Nest, ...]) -> Iterator[Statement]:
    for node in nodes:
        if isinstance(node, Nest):
            yield node.loop
            yield from _flat(node.body)
            yield End()
        else:
            yield node


def _running(nodes: tuple[Statement | Nest, ...]) -> tuple[Statement | Nest, ...]:
    kept: list[Statement | Nest] = []
    for node in nodes:
        if isinstance(node, Op) and node.op in COMPARISONS and node.type == "i64" and node.args[0] == node.args[1]:
            kept.append(Const(node.dest, "bool", "1" if node.op in ("le", "ge", "eq") else "0"))  # compilers warn of it
        elif not isinstance(node, Nest):
            kept.append(node)
        elif not node.loop.extent.is_const or node.loop.extent.const > 0:
            kept.append(Nest(node.loop, _running(node.body)))
    return tuple(kept)


def _is_live(s: Statement, wanted: set[str]) -> bool:
    match s:
        case Store(array, _, _):
            return array in wanted
        case Fold(acc, _):
            return acc in wanted
        case Local(name, _, _):
            return name in wanted
        case Routine():
            return not wanted.isdisjoint(written(s))
        case Loop() | End():
            return False
        case _:
            return defined(s) in wanted


def _mark(nodes: tuple[Statement | Nest, ...], wanted: set[str], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Adds the names that live statements read; whether any statement here is live."""
    live = False
    for node in reversed(nodes):
        if isinstance(node, Nest):
            if _mark(node.body, wanted, shapes):
                live = True
                wanted.update(node.loop.extent.names)
        elif _is_live(node, wanted):
            live = True
            wanted.update(operands(node))
            wanted.update(affine_names(node, shapes))
            if isinstance(node, Load):
                wanted.add(node.array)
    return live


def _kept(nodes: tuple[Statement | Nest, ...], wanted: set[str]) -> tuple[Statement | Nest, ...]:
    kept: list[Statement | Nest] = []
    for node in nodes:
        if isinstance(node, Nest):
            body = _kept(node.body, wanted)
            if any(not isinstance(s, (Acc, Local)) for s in body):
                kept.append(Nest(node.loop, body))
        elif _is_live(node, wanted):
            kept.append(node)
    return tuple(kept)


def moving_values(nest: Nest, shapes: Mapping[str, tuple[int, ...]]) -> frozenset[str]:
    """The values inside that can differ between iterations of the loop; its accumulators, of which each has its own."""
    moving = {nest.loop.var, *(s.dest for s in nest.body if isinstance(s, Acc))}
    size = 0
    while size != len(moving):
        size = len(moving)
        for s in statements(nest.body):
            name = s.acc if isinstance(s, Fold) else defined(s)
            if name is not None and moving.intersection((*operands(s), *affine_names(s, shapes))):
                moving.add(name)
    return frozenset(moving)


def parameters_of(kernel: Kernel) -> dict[str, int | None]:
    """The integers that are the same in all iterations, with the largest value that each may have, None for any.

    These are run-time extents, and what live statements load from an input at an index that does not move: of a loop of
    one iteration the variable is 0.
    """
    found: dict[str, int | None] = {p.name: p.bound for p in kernel.parameters if isinstance(p, ExtentParameter)}
    inputs = {a.name: a for a in kernel.arrays if a.mode == "in" and a.type == "i64"}
    fixed = set(found)
    for s in live_statements(kernel):
        match s:
            case Loop(_, var, extent) if extent == Affine((), 1):
                fixed.add(var)
            case Index(dest, expression) if fixed.issuperset(expression.names):
                fixed.add(dest)
            case Load(dest, array, index) if array in inputs and all(fixed.issuperset(e.names) for e in index):
                limit = inputs[array].limit
                fixed.add(dest)
                found[dest] = None if limit is None else max(limit - 1, 0)
            case _:
                pass
    return found
