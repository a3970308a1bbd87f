"""How a kernel's nest is printed: tiles of loops. A schedule changes speed, never a bit.

`Schedule()` is point zero, the nest as its text has it. Every transformation keeps the order of operations of every
output element.
"""

from dataclasses import dataclass

from presk_db.kernels.ir import Acc, Const, Fold, Index, Kernel, Load, Op, Scalar, Statement, Store
from presk_db.kernels.ranges import array_shapes, flat_address
from presk_db.kernels.tree import Nest, tree

WIDTHS = {"f32": 64, "f64": 32}
"""The default number of output elements that are summed side by side, by the type of the sums."""


@dataclass(frozen=True)
class Tile:
    """The par loop over `loop` runs `width` iterations side by side, innermost, inside the sums that it holds."""

    loop: str
    width: int


@dataclass(frozen=True)
class Schedule:
    """The transformations of one kernel."""

    tiles: tuple[Tile, ...] = ()


def default_schedule(kernel: Kernel) -> Schedule:
    """Tiles every loop of products along which an output is contiguous; point zero for other kernels."""
    tiles: list[Tile] = []
    shapes = array_shapes(kernel)

    def visit(nodes: tuple[Statement | Nest, ...]) -> None:
        for node in nodes:
            if not isinstance(node, Nest):
                continue
            sums = [s.type for s in node.body if isinstance(s, Acc)]
            if sums and is_tileable(node) and _stores_contiguously(node, shapes):
                tiles.append(Tile(node.loop.var, min(WIDTHS[t] for t in sums)))
            visit(node.body)

    visit(tree(kernel))
    return Schedule(tuple(tiles))


def is_tileable(nest: Nest) -> bool:
    """Whether a tile of this loop can run innermost: par, straight statements and reductions by ordered float sums."""
    if nest.loop.kind != "par":
        return False
    return all(_is_sums(node, nest.loop.var) if isinstance(node, Nest) else _is_plain(node) for node in nest.body)


def _is_plain(s: Statement) -> bool:
    if isinstance(s, Acc):
        return s.kind == "sum" and s.type in WIDTHS
    return isinstance(s, (Const, Index, Load, Op, Scalar, Store))


def _is_sums(nest: Nest, var: str) -> bool:
    """A seq loop of pure statements and folds whose extent does not move with `var`."""
    plain = all(isinstance(s, (Const, Fold, Index, Load, Op, Scalar)) for s in nest.body)
    return nest.loop.kind == "seq" and plain and var not in nest.loop.extent.names


def _stores_contiguously(nest: Nest, shapes: dict[str, tuple[int, ...]]) -> bool:
    stores = [s for s in nest.body if isinstance(s, Store)]
    return any(flat_address(shapes[s.array], s.index).coefficient(nest.loop.var) == 1 for s in stores)
