"""check_schedule: whether a schedule fits its kernel and keeps every element's order; units and scratch memory of one.

The units of a schedule are numbered from 0; a kernel's function computes the units [first, last). Different units write
different elements, so that whoever calls it may divide the units as they like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from presk_db.errors import ScheduleIllegal
from presk_db.kernels.attention import attention_of
from presk_db.kernels.ir import Acc, Const, Fold, Index, Kernel, Load, Local, Loop, Op, Scalar, Statement, Store
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.products import Product, Strided, product_of, sizes_of
from presk_db.kernels.ranges import extent_bounds
from presk_db.kernels.schedule import AttentionTile, ProductTile, Schedule, Split
from presk_db.kernels.tree import Nest, nests
from presk_db.kernels.types import COMPUTE, SIZES

LINE = 64
"""Bytes of a cache line: a panel's width, and the alignment of scratch memory."""

STACK = 16384
"""Bytes of local arrays that a function may hold on its stack; more go to scratch memory."""

Pure = (Const, Index, Load, Op, Scalar)


@dataclass(frozen=True)
class Packing:
    """How an array becomes a packed operand: the (k, n) matrix with element (i, j) at `i * down + j * across`."""

    array: str
    type: str
    k: int
    n: int
    down: int
    across: int

    @property
    def panels(self) -> int:
        """The panels of columns."""
        width = LINE // SIZES[COMPUTE[self.type]]
        return -(-self.n // width)

    @property
    def elements(self) -> int:
        """The elements of the packed array, of the same type."""
        k = self.k + self.k % 2 if self.type == "bf16" else self.k
        return self.panels * (LINE // SIZES[COMPUTE[self.type]]) * k


def packing_of(kernel: Kernel) -> Packing | None:
    """The right operand of the kernel's product as a matrix to pack beforehand, or None where it is no whole array."""
    product = product_of(kernel)
    if product is None or product.right.source is None or product.late:
        return None
    source, sizes = product.right.source, sizes_of(product, kernel)
    array = next(a for a in kernel.arrays if a.name == source.array)
    fits = prod(array.shape) == sizes.k * sizes.columns and source.base.is_const and source.base.const == 0
    shaped = (source.across, source.down) in ((1, sizes.columns), (sizes.k, 1))
    constant = product.k.extent.is_const and product.column.extent.is_const
    once = sum(isinstance(s, Load) and s.array == source.array for s in kernel.statements) == 1
    begins = product.late and source.type == "bf16"  # at any k, where packed bf16 has pairs
    if begins or not (fits and shaped and constant and once) or COMPUTE[source.type] != product.acc.type:
        return None
    return Packing(source.array, source.type, sizes.k, sizes.columns, source.down, source.across)


def check_schedule(kernel: Kernel, schedule: Schedule) -> None:
    """Raises ScheduleIllegal (E3004) where the schedule does not fit the kernel or could change a bit."""
    if schedule.product is not None or schedule.attention is not None:
        if schedule.tiles or schedule.splits or (schedule.product and schedule.attention):
            raise ScheduleIllegal(
                "a product or an attention has its own tiles and units; no tile or split goes with it"
            )
        if schedule.product is not None:
            _check_product(kernel, schedule.product)
        elif attention_of(kernel) is None:
            raise ScheduleIllegal("the kernel is no attention: two products, rows of one being summed by the other")
        if schedule.attention is not None and schedule.attention.rows < 1:
            raise ScheduleIllegal("rows are at least 1")
        return
    loops = {nest.loop.var: nest for nest in nests(live_tree(kernel))}
    tiled = [t.loop for t in schedule.tiles]
    if len(set(tiled)) != len(tiled):
        raise ScheduleIllegal("a loop is tiled twice")
    for tile in schedule.tiles:
        if tile.width < 1 or tile.loop not in loops or not is_tileable(loops[tile.loop]):
            raise ScheduleIllegal(f"{tile.loop} cannot run {tile.width} iterations side by side")
    if schedule.splits:
        _check_splits(kernel, schedule.splits)


def units(kernel: Kernel, schedule: Schedule) -> int:
    """How many units the kernel's function has under a legal schedule."""
    if schedule.product is not None:
        product = product_of(kernel)
        assert product is not None
        batch, chunks, rows = product_units(kernel, product, schedule.product)
        return batch * chunks * rows
    if schedule.attention is not None:
        batch, rows = attention_units(kernel, schedule.attention)
        return batch * rows
    if not schedule.splits:
        return 1
    bounds = extent_bounds(kernel)
    return sum(split_units(split, bounds) for split in schedule.splits)


def product_units(kernel: Kernel, product: Product, tile: ProductTile) -> tuple[int, int, int]:
    """The batches, the chunks of columns, and the units of rows, of which the last run fastest."""
    sizes = sizes_of(product, kernel)
    return sizes.batch, -(-sizes.columns // (product.columns * tile.panels)), -(-sizes.rows // tile.rows)


def group_of(kernel: Kernel, product: Product, tile: ProductTile) -> int:
    """The most panels that a tile of rows meets before the next one does."""
    return min(tile.group, tile.panels, -(-sizes_of(product, kernel).columns // product.columns))


UNPACK_ROWS = 24
"""More rows than these are worth a panel of bf16 pairs being widened once for all tiles, not by each."""


def is_unpacked(kernel: Kernel, product: Product, tile: ProductTile) -> bool:
    """Whether the panels of a packed bf16 weight are widened to f32 before tiles meet them."""
    source = product.right.source
    pairs = tile.right == "packed" and source is not None and source.type == "bf16"
    return pairs and tile.depth == 0 and sizes_of(product, kernel).rows > UNPACK_ROWS


STREAM_ROWS = 8
"""Up to so many rows, reading the right factor once, where it is, costs less than packing panels of it."""


def goes_by_rows(kernel: Kernel, product: Product, tile: ProductTile) -> bool:
    """Whether the rows meet the right factor as it lies in memory: one a packed weight, up to STREAM_ROWS an array."""
    rows = sizes_of(product, kernel).rows
    few = rows == 1 if tile.right == "packed" else tile.right == "direct" and rows <= STREAM_ROWS
    return few and rows <= tile.rows and tile.depth == 0 and not product.late


def is_left_in_place(product: Product, kernel: Kernel) -> bool:
    """Whether one row's left factor is read where it is, without packing."""
    source = product.left.source
    one = sizes_of(product, kernel).rows == 1
    return one and source is not None and source.down == 1 and source.type == product.acc.type


def attention_units(kernel: Kernel, tile: AttentionTile) -> tuple[int, int]:
    """The batches, and the units of rows, which run faster."""
    attention = attention_of(kernel)
    assert attention is not None
    bounds = extent_bounds(kernel)
    batch = prod(bounds[loop.var] for loop in attention.scores.batch)
    return batch, -(-bounds[attention.row.var] // tile.rows)


def split_units(split: Split, bounds: dict[str, int]) -> int:
    """The units of one split."""
    return prod(bounds[v] for v in split.loops[:-1]) * -(-bounds[split.loops[-1]] // split.grain)


@dataclass(frozen=True)
class Scratch:
    """Bytes of one piece's scratch memory, by what lies there in order; each part begins on a cache line."""

    rows: int = 0
    panel: int = 0
    sums: int = 0
    locals: tuple[tuple[str, int], ...] = ()
    tiles: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        """Bytes altogether."""
        return self.rows + self.panel + self.sums + sum(size for _, size in (*self.tiles, *self.locals))


def scratch_of(kernel: Kernel, schedule: Schedule) -> Scratch:
    """What a piece's scratch memory holds under a legal schedule."""
    if schedule.attention is not None:
        return _attention_scratch(kernel)
    if schedule.product is None:
        sizes = {
            s.name: _lines(prod(s.shape) * SIZES[COMPUTE[s.type]]) for s in kernel.statements if isinstance(s, Local)
        }
        return Scratch(locals=tuple(sizes.items()) if sum(sizes.values()) > STACK else ())
    tile, product = schedule.product, product_of(kernel)
    assert product is not None
    sizes_, element = sizes_of(product, kernel), SIZES[product.acc.type]
    rows = min(tile.block, -(-sizes_.rows // tile.rows) * tile.rows)
    ragged = not product.column.extent.is_const or sizes_.columns % product.columns != 0
    if goes_by_rows(kernel, product, tile):
        return Scratch(0 if is_left_in_place(product, kernel) else _lines(sizes_.rows * sizes_.k * element))
    whole = tile.right == "inside" or is_unpacked(kernel, product, tile)
    panels = group_of(kernel, product, tile) if whole else int(tile.right == "direct" and ragged)
    return Scratch(
        _lines(rows * sizes_.k * element),
        sizes_.k * LINE * panels,
        rows * LINE if tile.depth else 0,
    )


TILE_ROWS = 12
"""The most rows of a tile on any target."""


def _attention_scratch(kernel: Kernel) -> Scratch:
    """Queries that do not lie in rows, keys and values packed, rows of scores and of weights; then the other locals."""
    attention = attention_of(kernel)
    assert attention is not None
    scores, values, bounds = attention.scores, attention.values, extent_bounds(kernel)
    size, width = SIZES[scores.acc.type], scores.columns
    keys, depth = bounds[scores.column.var], bounds[scores.k.var]
    summed, columns = bounds[values.k.var], bounds[values.column.var]
    assert scores.left.source is not None
    tiles = {} if is_in_rows(scores.left.source, scores.acc.type) else {"queries": TILE_ROWS * depth}
    tiles |= {
        "keys": -(-keys // width) * width * depth,
        "values": -(-columns // width) * width * summed,
        "score_rows": TILE_ROWS * row_stride(attention.score_row, width),
        "weight_rows": TILE_ROWS * row_stride(attention.weight_row, width),
    }
    rows = {attention.score_row.name, attention.weight_row.name}
    locals_ = {
        s.name: _lines(prod(s.shape) * SIZES[COMPUTE[s.type]])
        for s in kernel.statements
        if isinstance(s, Local) and s.name not in rows
    }
    return Scratch(tiles=tuple((name, _lines(n * size)) for name, n in tiles.items()), locals=tuple(locals_.items()))


def is_in_rows(source: Strided, type_: str) -> bool:
    """Whether an operand's k lie side by side in memory, in the type of the sums."""
    return source.down == 1 and source.type == type_


def row_stride(local: Local, width: int) -> int:
    """The elements from one row of a tile to the next, where each row has its own `local`: whole panels."""
    return -(-prod(local.shape) // width) * width


def scratch_bytes(kernel: Kernel, schedule: Schedule, pieces: int = 1) -> int:
    """Bytes of scratch memory for so many pieces, a multiple of 64 each; 0 where the function has no such parameter."""
    return scratch_of(kernel, schedule).total * pieces


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE


def _check_product(kernel: Kernel, tile: ProductTile) -> None:
    product = product_of(kernel)
    if product is None:
        raise ScheduleIllegal("the kernel is no nest of products whose order a tile keeps")
    if tile.rows < 1 or tile.panels < 1 or tile.group < 1 or tile.depth < 0:
        raise ScheduleIllegal("rows, panels and a group are at least 1, depth at least 0")
    if tile.block < 1 or tile.block % tile.rows:
        raise ScheduleIllegal(f"a block of {tile.block} rows is no multiple of a unit's {tile.rows}")
    if tile.group > 1 and tile.depth:
        raise ScheduleIllegal("a group of panels goes with depth 0: sums that are carried are those of one panel")
    if product.late and tile.depth:
        raise ScheduleIllegal("where each row begins at a term of its own, depth is 0")
    source = product.right.source
    if tile.right == "packed":
        packing = packing_of(kernel)
        if packing is None:
            raise ScheduleIllegal("the right factor is no whole matrix that could be packed beforehand")
        if packing.type == "bf16" and tile.depth % 2:
            raise ScheduleIllegal("the depth of packed bf16 is even: two k lie side by side")
    if tile.right == "direct" and (source is None or source.across != 1 or source.type != product.acc.type):
        raise ScheduleIllegal("the right factor's columns are not contiguous in the type of the sums")


def _check_splits(kernel: Kernel, splits: Sequence[Split]) -> None:
    nodes = live_tree(kernel)
    if any(not isinstance(s, (*Pure, Nest)) for s in nodes):
        raise ScheduleIllegal("statements outside all loops write or sum: the kernel is one piece")
    tops = [n for n in nodes if isinstance(n, Nest)]
    if len(tops) != len(splits):
        raise ScheduleIllegal(f"{len(splits)} splits for {len(tops)} nests")
    bounds, seen = extent_bounds(kernel), set[str]()
    for top, split in zip(tops, splits, strict=True):
        _check_split(top, split, bounds)
        if seen.intersection(split.loops):
            raise ScheduleIllegal("a loop is split twice")
        seen.update(split.loops)


def _check_split(nest: Nest, split: Split, bounds: dict[str, int]) -> None:
    if split.grain < 1 or not split.loops:
        raise ScheduleIllegal("a split has loops and a grain of at least 1")
    for number, var in enumerate(split.loops):
        if nest.loop.var != var or nest.loop.kind != "par":
            raise ScheduleIllegal(f"{var} is not the par loop at this place")
        if set(split.loops).intersection(nest.loop.extent.names):
            raise ScheduleIllegal(f"the extent of {var} moves with a loop that is split")
        if bounds[var] < 1:
            raise ScheduleIllegal(f"{var} never runs")
        if number + 1 < len(split.loops):
            inner = [n for n in nest.body if isinstance(n, Nest)]
            if len(inner) != 1 or any(not isinstance(n, (*Pure, Nest)) for n in nest.body):
                raise ScheduleIllegal(f"what {var} holds beside its inner loop writes or sums")
            nest = inner[0]


def is_tileable(nest: Nest) -> bool:
    """Whether a tile of this loop can run innermost: par, straight statements and reductions by sums of floats."""
    if nest.loop.kind != "par":
        return False
    return all(_is_sums(node, nest.loop) if isinstance(node, Nest) else _is_plain(node) for node in nest.body)


def _is_plain(s: Statement) -> bool:
    if isinstance(s, Acc):
        return s.kind in ("sum", "lanes") and s.type in ("f32", "f64")
    return isinstance(s, (*Pure, Store))


def _is_sums(nest: Nest, outer: Loop) -> bool:
    """A seq loop of pure statements and folds whose extent does not move with the outer loop."""
    plain = all(isinstance(s, (*Pure, Fold)) for s in nest.body)
    return nest.loop.kind == "seq" and plain and outer.var not in nest.loop.extent.names
