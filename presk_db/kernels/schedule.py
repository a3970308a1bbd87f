"""How a kernel's nest is computed, as data: a schedule changes speed, never a bit.

`Schedule()` is point zero, the nest as its text has it, in one piece. Everything else keeps the order of operations of
every output element. The text form, a line each (it is stored as a plan, and read back by `parse_schedule`):

    product rows=12 panels=24 block=252 depth=0 group=4 right=inside
    attention rows=24
    tile i1 width=64
    split i0,i1 grain=4

*product*: the output is cut into units of `rows` rows by `panels` panels of columns. Rows are packed, `block` rows at a
time, so that those of one k lie side by side; `right` says what the kernel reads the right factor from: an array that
is *packed* already (weights), the array itself packed *inside* the kernel a panel at a time, or *direct*, where its
columns are contiguous. `depth` is the k's that a tile takes at once (0: all); sums are carried from block to block. A
tile of rows meets `group` panels, one after another, before the next tile does: of packing *inside* they are packed
together.

*attention*: units of `rows` rows, whose products with the keys and the values go in tiles; keys and values are packed
once for all units of a head that are computed together, and a tile's scores lie in scratch memory.

*tile*: a par loop runs `width` iterations side by side, innermost, inside the sums that it holds.

*split*: units are iterations of these par loops, the last of which is cut into `grain` iterations a unit.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from presk_db.errors import ScheduleIllegal

Right = Literal["packed", "inside", "direct"]


@dataclass(frozen=True)
class ProductTile:
    """A product in tiles of registers."""

    rows: int
    panels: int
    block: int
    depth: int = 0
    group: int = 1
    right: Right = "inside"


@dataclass(frozen=True)
class AttentionTile:
    """Two products with what stands between them, in tiles of registers; units of `rows` rows."""

    rows: int


@dataclass(frozen=True)
class Tile:
    """The par loop over `loop` runs `width` iterations side by side, innermost, inside the sums that it holds."""

    loop: str
    width: int


@dataclass(frozen=True)
class Split:
    """Nested par loops from the top of the kernel whose iterations are units; `grain` of the last loop's make one."""

    loops: tuple[str, ...]
    grain: int


@dataclass(frozen=True)
class Schedule:
    """The transformations of one kernel: a product, an attention, or tiles and splits of other nests."""

    product: ProductTile | None = None
    tiles: tuple[Tile, ...] = ()
    splits: tuple[Split, ...] = ()
    attention: AttentionTile | None = None

    @property
    def text(self) -> str:
        """The canonical text: empty for point zero, else lines that end in newlines."""
        lines = []
        if (p := self.product) is not None:
            lines.append(
                f"product rows={p.rows} panels={p.panels} block={p.block} depth={p.depth} group={p.group}"
                f" right={p.right}"
            )
        if self.attention is not None:
            lines.append(f"attention rows={self.attention.rows}")
        lines += [f"tile {t.loop} width={t.width}" for t in self.tiles]
        lines += [f"split {','.join(s.loops)} grain={s.grain}" for s in self.splits]
        return "".join(f"{line}\n" for line in lines)


_PRODUCT = re.compile(
    r"product rows=(\d+) panels=(\d+) block=(\d+) depth=(\d+) group=(\d+) right=(packed|inside|direct)"
)
_ATTENTION = re.compile(r"attention rows=(\d+)")
_TILE = re.compile(r"tile ([a-z][a-z0-9_]*) width=(\d+)")
_SPLIT = re.compile(r"split ([a-z][a-z0-9_,]*) grain=(\d+)")


def parse_schedule(text: str) -> Schedule:
    """The schedule whose text this is; ScheduleIllegal (E3004) with the line's number where it is none."""
    product: ProductTile | None = None
    tiles: list[Tile] = []
    splits: list[Split] = []
    attention: AttentionTile | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if (m := _PRODUCT.fullmatch(line)) and product is None:
            rows, panels, block, depth, group = (int(m[i]) for i in range(1, 6))
            product = ProductTile(rows, panels, block, depth, group, cast(Right, m[6]))
        elif (m := _ATTENTION.fullmatch(line)) and attention is None:
            attention = AttentionTile(int(m[1]))
        elif m := _TILE.fullmatch(line):
            tiles.append(Tile(m[1], int(m[2])))
        elif m := _SPLIT.fullmatch(line):
            splits.append(Split(tuple(m[1].split(",")), int(m[2])))
        else:
            raise ScheduleIllegal(f"'{line}' is no line of a schedule", f"line {number}")
    return Schedule(product, tuple(tiles), tuple(splits), attention)
