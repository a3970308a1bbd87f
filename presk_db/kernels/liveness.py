"""What a kernel's statements read and define; live_tree: the part of a kernel that reaches an output."""

from collections.abc import Iterator

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Acc, Const, End, Fold, Index, Kernel, Load, Local, Loop, Op, Scalar, Statement, Store
from presk_db.kernels.tree import Nest, statements, tree


def affine_names(s: Statement) -> Iterator[str]:
    """The names in a statement's affine expressions."""
    expressions: tuple[Affine, ...] = ()
    match s:
        case Loop(_, _, extent):
            expressions = (extent,)
        case Load(_, _, index) | Store(_, index, _):
            expressions = index
        case Index(_, expression):
            expressions = (expression,)
    for e in expressions:
        yield from e.names


def operands(s: Statement) -> tuple[str, ...]:
    """The values that a statement computes with, not those in its affine expressions."""
    match s:
        case Op(_, _, _, args):
            return args
        case Store(_, _, value) | Fold(_, value):
            return (value,)
        case _:
            return ()


def defined(s: Statement) -> str | None:
    """The value that a statement defines."""
    return s.dest if isinstance(s, (Acc, Const, Index, Load, Op, Scalar)) else None


def live_tree(kernel: Kernel) -> tuple[Statement | Nest, ...]:
    """`tree(kernel)` without the statements, locals and loops that no output depends on."""
    wanted: set[str] = {a.name for a in kernel.arrays if a.mode == "out"}
    nodes = tree(kernel)
    size = -1
    while size != len(wanted):
        size = len(wanted)
        _mark(nodes, wanted)
    return _kept(nodes, wanted)


def _is_live(s: Statement, wanted: set[str]) -> bool:
    match s:
        case Store(array, _, _):
            return array in wanted
        case Fold(acc, _):
            return acc in wanted
        case Local(name, _, _):
            return name in wanted
        case Loop() | End():
            return False
        case _:
            return defined(s) in wanted


def _mark(nodes: tuple[Statement | Nest, ...], wanted: set[str]) -> bool:
    """Adds the names that live statements read; whether any statement here is live."""
    live = False
    for node in reversed(nodes):
        if isinstance(node, Nest):
            if _mark(node.body, wanted):
                live = True
                wanted.update(affine_names(node.loop))
        elif _is_live(node, wanted):
            live = True
            wanted.update(operands(node))
            wanted.update(affine_names(node))
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


def moving_values(nest: Nest) -> frozenset[str]:
    """The values inside that can differ between iterations of the loop."""
    moving = {nest.loop.var}
    size = 0
    while size != len(moving):
        size = len(moving)
        for s in statements(nest.body):
            name = s.acc if isinstance(s, Fold) else defined(s)
            if name is not None and moving.intersection((*operands(s), *affine_names(s))):
                moving.add(name)
    return frozenset(moving)
