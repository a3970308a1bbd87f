"""default_schedule: a good schedule by a kernel's shape; candidate_schedules: those worth measuring."""

from dataclasses import replace

from presk_db.errors import ScheduleIllegal
from presk_db.kernels.attention import attention_of
from presk_db.kernels.ir import Acc, Kernel, Load, Local, Store
from presk_db.kernels.legality import (
    LINE,
    STREAM_ROWS,
    Pure,
    check_schedule,
    goes_by_rows,
    is_tileable,
    is_unpacked,
    packing_of,
    units,
)
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.products import Product, product_of, sizes_of
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address
from presk_db.kernels.schedule import AttentionTile, ProductTile, Right, Schedule, Split, Tile
from presk_db.kernels.tree import Nest
from presk_db.kernels.types import SIZES

WIDTHS = {"f32": 64, "f64": 32}
"""The number of output elements that are summed side by side outside products, by the type of the sums."""

ROWS = 12
"""The rows of a unit: a multiple of every target's tile."""

BLOCK_BYTES = 512 * 1024
"""What a block of packed rows may take of the second-level cache."""

INSIDE_BYTES = 3072 * 1024
"""The same where each block packs the right factor's panels anew: it is worth the third-level cache to do so less often."""

GROUP_BYTES = 256 * 1024
"""What the panels that are packed together inside a kernel may take of the second-level cache, beside the rows."""

FEW_ROWS = 4
"""Fewer rows of an attention are not worth packing its keys and values."""

GRAIN = 16384
"""The operations, at least, that a unit of a split should hold."""

PIECES = 64
"""The most pieces that a launch is divided into."""

WORTH = 65536
"""The operations, at least, that a piece should hold: a team of threads costs some microseconds."""


def default_schedule(kernel: Kernel, packed: bool = False) -> Schedule:
    """The schedule to use where nothing was measured.

    Args:
        kernel: a checked kernel.
        packed: the right operand of a product is a weight that is packed at load (see `packing_of`); where the kernel
            has no such operand this changes nothing.
    """
    product = product_of(kernel)
    if product is not None and min(_extents(kernel, product)) > 0:
        tile = _product_tile(kernel, product, packed and packing_of(kernel) is not None)
        return Schedule(product=tile)
    if (attention := attention_of(kernel)) is not None:
        rows = extent_bounds(kernel)[attention.row.var]
        if rows >= FEW_ROWS:
            return Schedule(attention=AttentionTile(min(rows, 2 * ROWS)))
    tiles = _tiles(kernel)
    for splits in (_splits(kernel, tiles), ()):
        schedule = Schedule(tiles=tiles, splits=splits)
        try:
            check_schedule(kernel, schedule)
        except ScheduleIllegal:
            continue
        return schedule
    return Schedule()


def candidate_schedules(kernel: Kernel, packed: bool = False) -> tuple[Schedule, ...]:
    """The default first, then variations of it worth measuring, point zero last; all legal and different."""
    default = default_schedule(kernel, packed)
    found = [default]
    if (tile := default.product) is not None:
        sizes = sizes_of(_known(kernel), kernel)
        total = -(-sizes.columns // _known(kernel).columns)
        for rows, block in ((12, 48), (12, 96), (24, 120), (24, 240), (36, 504)):
            for depth in (0, 256, 512):
                for panels in sorted({tile.panels, min(8, total), total}):
                    found.append(Schedule(ProductTile(rows, panels, block, depth, 1, tile.right)))
            for group in sorted({min(g, tile.panels) for g in (2, 4, 8, tile.panels)}):
                found.append(Schedule(ProductTile(rows, tile.panels, block, 0, group, tile.right)))
    elif default.attention is not None:
        found += [Schedule(attention=AttentionTile(rows)) for rows in (12, 24, 48, 96)]
    else:
        for width in (16, 32, 64, 128):
            tiles = tuple(Tile(t.loop, width) for t in default.tiles)
            found.append(Schedule(tiles=tiles, splits=default.splits))
    legal = [s for s in found if _is_legal(kernel, s)]
    return tuple(dict.fromkeys([*legal, *([] if packed else [Schedule()])]))


def pieces_of(kernel: Kernel, schedule: Schedule) -> int:
    """The pieces that a launch is worth dividing into, at most: 1 where the work is small."""
    return max(1, min(units(kernel, schedule), _work(kernel) // WORTH, PIECES))


def _is_legal(kernel: Kernel, schedule: Schedule) -> bool:
    try:
        check_schedule(kernel, schedule)
    except ScheduleIllegal:
        return False
    return True


def _known(kernel: Kernel) -> Product:
    product = product_of(kernel)
    assert product is not None
    return product


def _extents(kernel: Kernel, product: Product) -> tuple[int, int, int, int]:
    sizes = sizes_of(product, kernel)
    return sizes.batch, sizes.rows, sizes.columns, sizes.k


def _product_tile(kernel: Kernel, product: Product, packed: bool) -> ProductTile:
    sizes, source = sizes_of(product, kernel), product.right.source
    total = -(-sizes.columns // product.columns)
    rows = min(ROWS, sizes.rows)
    row_units = -(-sizes.rows // rows)
    chunks = 1
    if sizes.batch * row_units < 16:
        chunks = min(-(-64 // (sizes.batch * row_units)), max(1, total // 4))
    right: Right = "packed" if packed else "inside"
    direct = source is not None and source.across == 1 and source.type == product.acc.type
    if not packed and direct and sizes.rows <= STREAM_ROWS:
        right = "direct"
    again = right == "inside" or is_unpacked(kernel, product, ProductTile(rows, total, rows, right=right))
    room = INSIDE_BYTES if again else BLOCK_BYTES
    blocks = -(-row_units // max(1, room // (sizes.k * SIZES[product.acc.type] * rows)))
    block = -(-row_units // blocks) * rows
    panels = -(-total // chunks)
    group = max(1, min(panels, GROUP_BYTES // (sizes.k * LINE)))
    tile = ProductTile(rows, panels, block, 0, group if right == "inside" else 1, right)
    return replace(tile, panels=1) if goes_by_rows(kernel, product, tile) else tile


def _tiles(kernel: Kernel) -> tuple[Tile, ...]:
    """Tiles of the innermost par loops and of loops of sums along which an output is contiguous."""
    tiles: list[Tile] = []
    shapes = array_shapes(kernel)

    def visit(nodes: tuple[object, ...]) -> None:
        for node in nodes:
            if not isinstance(node, Nest):
                continue
            stores = [s for s in node.body if isinstance(s, Store)]
            along = any(flat_address(shapes[s.array], s.index).coefficient(node.loop.var) == 1 for s in stores)
            if along and is_tileable(node) and _is_contiguous(node, shapes):
                sums = [s.type for s in node.body if isinstance(s, Acc)]
                tiles.append(Tile(node.loop.var, min((WIDTHS[t] for t in sums), default=64)))
            visit(node.body)

    visit(live_tree(kernel))
    return tuple(tiles)


def _is_contiguous(nest: Nest, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether what the lanes of sums add lies side by side along the loop; of other kernels, true."""
    lanes = any(isinstance(s, Acc) and s.kind == "lanes" for s in nest.body)
    inner = [s for n in nest.body if isinstance(n, Nest) for s in n.body if isinstance(s, Load)]
    steps = [flat_address(shapes[s.array], s.index).coefficient(nest.loop.var) for s in inner]
    return not lanes or (1 in steps and set(steps) <= {0, 1})


def _splits(kernel: Kernel, tiles: tuple[Tile, ...]) -> tuple[Split, ...]:
    """Every nest's par loops from the top down to units of some size: whole tiles, where a loop has them."""
    widths = {t.loop: t.width for t in tiles}
    bounds = extent_bounds(kernel)
    splits: list[Split] = []
    for node in live_tree(kernel):
        if not isinstance(node, Nest):
            continue
        loops, work = [node.loop.var], _nest_work(node, bounds)
        nest = node
        inside = work // max(bounds[nest.loop.var], 1)
        while inside > GRAIN or bounds[loops[0]] == 1:
            inner = [n for n in nest.body if isinstance(n, Nest)]
            if (
                len(inner) != 1
                or inner[0].loop.kind != "par"
                or any(not isinstance(n, (*Pure, Nest)) for n in nest.body)
            ):
                break
            nest = inner[0]
            loops.append(nest.loop.var)
            inside //= max(bounds[nest.loop.var], 1)
        width = widths.get(loops[-1], 1)
        grain = -(-max(1, GRAIN // max(inside, 1)) // width) * width
        splits.append(Split(tuple(loops), min(bounds[loops[-1]], grain)))
    return tuple(splits)


def _nest_work(nest: Nest, bounds: dict[str, int]) -> int:
    """Statements that run."""
    inside = sum(_nest_work(n, bounds) if isinstance(n, Nest) else not isinstance(n, (Acc, Local)) for n in nest.body)
    return inside * bounds[nest.loop.var]


def _work(kernel: Kernel) -> int:
    bounds = extent_bounds(kernel)
    return sum(_nest_work(n, bounds) for n in live_tree(kernel) if isinstance(n, Nest))
