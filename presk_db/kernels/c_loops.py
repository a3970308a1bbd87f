"""LoopPrinter: a kernel's loops as C, with the tiles and splits of its schedule."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_statements import StatementPrinter
from presk_db.kernels.c_text import COMPUTED, PRIMARY, affine_text
from presk_db.kernels.ir import ARITHMETIC, LANES, Acc, Const, Fold, Index, Kernel, Load, Loop, Op, Statement, Store
from presk_db.kernels.legality import is_tileable, scratch_of, split_units
from presk_db.kernels.liveness import defined, moving_values, operands
from presk_db.kernels.ranges import extent_bounds
from presk_db.kernels.schedule import Schedule, Split
from presk_db.kernels.tree import Nest, statements

Nodes = Sequence[Statement | Nest]

REPEATS = 4
"""How many blocks of a light reduction the lanes' sums take before they go back to memory."""


class LoopPrinter(StatementPrinter):
    """Prints loops; straight statements are the base class's."""

    def __init__(self, kernel: Kernel, schedule: Schedule, first: str, last: str, scratch: str) -> None:
        super().__init__(kernel)
        self.taken.update((first, last, scratch))
        self.tiles = {t.loop: t.width for t in schedule.tiles}
        self.splits = schedule.splits
        self.bounds = extent_bounds(kernel)
        self.first, self.last = first, last
        self.limits: dict[str, tuple[str, str]] = {}
        self.before_lanes = ""  # a line before each loop over lanes
        self.first_lane = ""  # what is added to a lane's number
        places = scratch_of(kernel, schedule)
        at = sum(size for _, size in places.tiles)
        for local, size in places.locals:
            self.scratch[local] = f"{scratch} + {at}"
            at += size

    def print_body(self) -> None:
        """The function's statements, between its braces."""
        if not self.splits:
            self.body(self.nodes)
            return
        self.run([s for s in self.nodes if not isinstance(s, Nest)])
        begin = 0
        for nest, split in zip((n for n in self.nodes if isinstance(n, Nest)), self.splits, strict=True):
            count = split_units(split, self.bounds)
            if len(self.splits) == 1:
                self._split(nest, split, 0, self.first, self.last)
            else:
                with self.braces(""):
                    names = self.aux(split.loops[0], "first"), self.aux(split.loops[0], "last")
                    for name, unit in zip(names, (self.first, self.last), strict=True):
                        shifted = f"{unit} - {begin}" if begin else unit
                        self.line(f"const ptrdiff_t {name} = presk_most(0, presk_least({shifted}, {count}));")
                    self._split(nest, split, 0, *names)
            begin += count

    def _split(self, nest: Nest, split: Split, level: int, first: str, last: str) -> None:
        """The loop over `nest` for its part of the units first … last - 1, which are counted from its own first."""
        var = nest.loop.var
        extent = affine_text(self.resolved(nest.loop.extent))[0]
        if level == len(split.loops) - 1:
            ends = (first, last) if split.grain == 1 else (f"{first} * {split.grain}", f"{last} * {split.grain}")
            exact = self.bounds[var] % split.grain == 0 and nest.loop.extent.is_const
            self.limits[var] = (ends[0], ends[1] if exact and level == 0 else f"presk_least({ends[1]}, {extent})")
            self.nest(nest)
            return
        inner = next(n for n in nest.body if isinstance(n, Nest))
        size = split_units(Split(split.loops[level + 1 :], split.grain), self.bounds)
        wide = f" && {var} < {extent}" if level or not nest.loop.extent.is_const else ""
        with self.braces(f"for (ptrdiff_t {var} = {first} / {size}; {var} * {size} < {last}{wide}; {var}++)"):
            self.run([s for s in nest.body if not isinstance(s, Nest)])
            names = self.aux(inner.loop.var, "first"), self.aux(inner.loop.var, "last")
            self.line(f"const ptrdiff_t {names[0]} = presk_most({first} - {var} * {size}, 0);")
            self.line(f"const ptrdiff_t {names[1]} = {last} - {var} * {size};")
            self._split(inner, split, level + 1, *names)

    def nest(self, nest: Nest) -> None:
        """The loop, in tiles, in lanes or as it is."""
        folds = [s.acc for s in nest.body if isinstance(s, Fold)]
        in_lanes = [acc for acc in folds if self.accs[acc].kind == "lanes" or acc in self.keyed]
        if nest.loop.var in self.tiles and is_tileable(nest):
            self._blocks(nest.loop, self.tiles[nest.loop.var], partial(self._tile, nest))
        elif in_lanes:
            self._blocks(nest.loop, LANES, partial(self._lanes, nest, in_lanes), REPEATS if _is_light(nest) else 1)
        else:
            var = nest.loop.var
            begin, end = self._limits(nest.loop)
            with self.braces(f"for (ptrdiff_t {var} = {begin}; {var} < {end}; {var}++)"):
                self.body(nest.body)

    def _limits(self, loop: Loop) -> tuple[str, str]:
        """The first iteration and the end of them in C."""
        return self.limits.get(loop.var, ("0", affine_text(self.resolved(loop.extent))[0]))

    def _blocks(self, loop: Loop, width: int, block: Callable[[Affine, str], None], repeats: int = 1) -> None:
        """Blocks of `width` iterations, then the rest. `block` gets the first iteration and the number of them.

        Where `repeats` is more than 1, `block` also takes that many widths at once, while so many are left.
        """
        base, extent = self.aux(loop.var, "0"), self.resolved(loop.extent)
        widths = [width * repeats, width] if repeats > 1 else [width]
        if not extent.is_const or loop.var in self.limits:
            begin, end = self._limits(loop)
            until = self.aux(loop.var, "rest")
            with self.braces(""):
                self.line(f"ptrdiff_t {base} = {begin};")
                self.line(f"const ptrdiff_t {until} = {end};")
                for size in widths:
                    if self.bounds[loop.var] >= size:  # else compilers see accesses out of bounds in what never runs
                        with self.braces(f"for (; {base} + {size} <= {until}; {base} += {size})"):
                            block(Affine.var(base), str(size))
                with self.braces(f"if ({base} < {until})"):
                    self.rest(loop, Affine.var(base), f"{until} - {base}", block)
            return
        at = 0
        for size in widths:
            end_ = at + (extent.const - at) // size * size
            if end_ - at > size:
                with self.braces(f"for (ptrdiff_t {base} = {at}; {base} < {end_}; {base} += {size})"):
                    block(Affine.var(base), str(size))
            elif end_ > at:
                with self.braces(""):
                    block(Affine((), at), str(size))
            at = end_
        if at < extent.const:
            with self.braces(""):
                self.rest(loop, Affine((), at), str(extent.const - at), block)

    def rest(self, loop: Loop, base: Affine, left: str, block: Callable[[Affine, str], None]) -> None:
        """The iterations from `base` on that fill no block; `left` is their number."""
        block(base, left)

    def lane_loop(self, lane: str, count: str) -> AbstractContextManager[None]:
        """A loop over lanes."""
        if self.before_lanes:
            self.line(self.before_lanes)
        return self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {count}; {lane}++)")

    def _lanes(self, nest: Nest, accs: list[str], base: Affine, count: str) -> None:
        """A block whose iterations go to a lane each; of a multiple of the lanes, that many iterations to each in order."""
        var = nest.loop.var
        lane = self.aux(var, "1")
        for acc in accs:
            self.lane[acc] = self.first_lane + lane
        repeats = int(count) // LANES if count.isdigit() and int(count) > LANES else 1
        with self.lane_loop(lane, str(LANES) if repeats > 1 else count):
            for repeat in range(repeats):
                self.affine[var] = base + Affine.var(lane) + repeat * LANES
                if repeats > 1:
                    with self.braces(""):
                        self.body(nest.body)
                else:
                    self.body(nest.body)
        del self.affine[var]

    def _tile(self, nest: Nest, base: Affine, count: str) -> None:
        """One tile: every stretch of statements, and every reduction's body, runs over the tile innermost.

        Values that move along the tile and are read in another stretch are arrays of the tile's width.
        """
        var, width = nest.loop.var, self.tiles[nest.loop.var]
        size = count if count.isdigit() else str(width)
        lane = self.aux(var, "1")
        self.affine[var] = base + Affine.var(lane)
        moving = moving_values(nest, self.shapes)
        stretches = _stretches(nest.body)
        self.place = {v: f"{v}[{lane}]" for v in _crossing(stretches, moving)}
        for v in self.place:
            in_lanes = v in self.accs and self.accs[v].kind == "lanes"
            start = " = {{0}}" if in_lanes else " = {0}" if v in self.accs else ""
            if in_lanes:
                self.place[v] = f"{self.aux(v, 'lanes')}[0][{lane}]"
                self.line(f"{COMPUTED[self.types[v]]} {self.aux(v, 'lanes')}[{LANES}][{size}]{start};")
            else:
                self.line(f"{COMPUTED[self.types[v]]} {v}[{size}]{start};")
            if v in self.accs:  # also where nothing is folded into it
                self.text[v] = (self.place[v], PRIMARY)
        for stretch in stretches:
            in_lanes_ = _lane_sums(stretch, self.accs) if isinstance(stretch, Nest) else []
            if isinstance(stretch, Nest) and in_lanes_:
                self._blocks(stretch.loop, LANES, partial(self._lane_rows, stretch, in_lanes_, moving, lane, count))
                self._add_rows(in_lanes_, lane, count)
            elif isinstance(stretch, Nest):
                k, extent = stretch.loop.var, affine_text(self.resolved(stretch.loop.extent))[0]
                with self.braces(f"for (ptrdiff_t {k} = 0; {k} < {extent}; {k}++)"):
                    self._across(stretch.body, moving, lane, count)
            else:
                self._across(stretch, moving, lane, count)
        self.place = {}
        del self.affine[var]

    def _lane_rows(
        self, nest: Nest, accs: list[str], moving: frozenset[str], lane: str, count: str, base: Affine, rows: str
    ) -> None:
        """A block of iterations of a reduction, each of which adds a row of the tile to a row of lane sums of its own."""
        k = nest.loop.var
        row = self.aux(k, "1")
        for acc in accs:
            self.lane[acc] = f"{row}][{lane}"
        with self.braces(f"for (ptrdiff_t {row} = 0; {row} < {rows}; {row}++)"):
            self.affine[k] = base + Affine.var(row)
            self._across(nest.body, moving, lane, count)
        del self.affine[k]

    def _add_rows(self, accs: list[str], lane: str, count: str) -> None:
        """Adds the halves of the rows of lane sums, until one row is left."""
        half, row = self.aux(accs[0], "half"), self.aux(accs[0], "row")
        with (
            self.braces(f"for (ptrdiff_t {half} = {LANES // 2}; {half} > 0; {half} /= 2)"),
            self.braces(f"for (ptrdiff_t {row} = 0; {row} < {half}; {row}++)"),
            self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {count}; {lane}++)"),
        ):
            for acc in accs:
                sums = self.aux(acc, "lanes")
                self.line(f"{sums}[{row}][{lane}] += {sums}[{row} + {half}][{lane}];")

    def _across(self, nodes: Nodes, moving: frozenset[str], lane: str, count: str) -> None:
        """What does not move along the tile, once; then the loop over the tile."""
        run = [s for s in nodes if not isinstance(s, (Nest, Acc))]
        inside = [s for s in run if isinstance(s, (Store, Fold)) or defined(s) in moving]
        self.run([s for s in run if s not in inside])
        if inside:
            with self.lane_loop(lane, count):
                self.run(inside)


def _lane_sums(nest: Nest, accs: Mapping[str, Acc]) -> list[str]:
    """The accumulators that add in lanes in the loop, each once however many folds of the body it takes."""
    return list(dict.fromkeys(s.acc for s in nest.body if isinstance(s, Fold) and accs[s.acc].kind == "lanes"))


def _is_light(nest: Nest) -> bool:
    """Whether the body is a few exact operations, so that carrying the lanes' sums through memory would cost the most."""
    light = all(
        isinstance(s, (Const, Index, Load, Fold)) or (isinstance(s, Op) and s.op in ARITHMETIC) for s in nest.body
    )
    return light and len(nest.body) <= 6


def _stretches(nodes: Nodes) -> list[list[Statement] | Nest]:
    """The loops, and the straight statements between them."""
    found: list[list[Statement] | Nest] = []
    for node in nodes:
        if isinstance(node, Nest):
            found.append(node)
        elif found and isinstance(found[-1], list):
            found[-1].append(node)
        else:
            found.append([node])
    return found


def _crossing(stretches: list[list[Statement] | Nest], moving: frozenset[str]) -> list[str]:
    """The accumulators, and the moving values that are read in another stretch than their own, in order."""
    homes: dict[str, int] = {}
    crossing: dict[str, None] = {}
    for number, stretch in enumerate(stretches):
        for s in statements(stretch.body if isinstance(stretch, Nest) else stretch):
            name = defined(s)
            if isinstance(s, Acc):
                crossing[s.dest] = None
            elif name in moving and name is not None:
                homes[name] = number
            crossing.update((v, None) for v in operands(s) if homes.get(v, number) != number)
    return list(crossing)
