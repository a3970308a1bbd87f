"""TilePrinter: what the functions of products have in common: names, panels of operands, the epilogue of a tile."""

from collections.abc import Sequence
from typing import TypeGuard

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_statements import StatementPrinter
from presk_db.kernels.c_text import COMPUTED, PRIMARY, affine_text
from presk_db.kernels.ir import Const, Load, Loop, Op, Statement, Store
from presk_db.kernels.legality import LINE
from presk_db.kernels.liveness import affine_names, defined, operands
from presk_db.kernels.products import Operand, Product, Strided, slice_of
from presk_db.kernels.ranges import flat_address
from presk_db.kernels.types import SIZES

_NAMES = (
    "unit", "next", "rest", "chunk", "group", "row_first", "row_last", "tile", "rows", "column", "lane", "row",
    "packed_rows", "panel", "right", "stride", "sums", "step", "depth", "line", "count", "queries", "keys", "values",
    "score_rows", "weight_rows", "weights", "all", "least",
    "wide", "ahead", "column_last", "group_first", "group_last",
)  # fmt: skip


EACH = ("exp", "sigmoid", "silu", "tanh")
"""The functions of f32 that `presk_math_each.h` has for many elements at once."""

EACH_ELEMENTS = 16
"""Of how many elements theirs are a multiple."""


class TilePrinter(StatementPrinter):
    """Prints tiles of products; `n` has the C names of its own variables, which the kernel does not use."""

    tile_rows = "PRESK_ROWS"  # the most rows of a tile, in C
    place_of_lane = ""  # where an argument of a function of EACH goes

    def prepare(self, product: Product) -> None:
        """The names, and the type of the sums."""
        self.n = {name: self._free(name) for name in _NAMES}
        self.element = COMPUTED[product.acc.type]
        self.suffix = product.acc.type
        self.width = product.columns

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def extent(self, loop: Loop) -> str:
        """A loop's extent in C."""
        return affine_text(self.resolved(loop.extent))[0]

    def depth_text(self, product: Product) -> str:
        """The number of k's in C, as an operand."""
        text, precedence = affine_text(self.resolved(product.k.extent))
        return text if precedence == PRIMARY else f"({text})"

    def divide(self, name: str, size: int) -> None:
        """`name` is the group modulo `size`; the group, what is left."""
        group = self.n["group"]
        if size == 1:
            self.line(f"const ptrdiff_t {name} = 0;")
        else:
            self.line(f"const ptrdiff_t {name} = {group} % {size};")
            self.line(f"{group} /= {size};")

    def address(self, source: Strided, begin: str) -> str:
        """Where the column (or row) `begin` of an operand starts."""
        address = source.base + Affine.var(begin) * source.across
        return f"{source.array} + {affine_text(self.resolved(address))[0]}"

    def panel(self, source: Strided, to: str, begin: str, count: str, width: str, k: str) -> None:
        """Packs columns `begin` … of an operand: `count` of them, in a panel of `width`."""
        name, start = self._packed_name(source), self.address(source, begin)
        self.line(f"presk_panel_{name}({to}, {width}, {count}, {k}, {start}, {source.across}, {source.down});")

    def panels_of(self, source: Strided, to: str, begin: str, count: str, k: str) -> None:
        """Packs columns `begin` … of an operand, `count` of them, in panels one after another."""
        name, start = self._packed_name(source), self.address(source, begin)
        self.line(f"presk_panels_{name}({to}, {count}, {k}, {start}, {source.across}, {source.down});")

    def _packed_name(self, source: Strided) -> str:
        return self.suffix if source.type == self.suffix else f"{self.suffix}_from_{source.type}"

    def pack(
        self, product: Product, operand: Operand, loop: Loop | None, begin: str, to: str, count: str, width: str
    ) -> None:
        """Elements `begin` … of the operand side by side for each k, zeros from `count` to `width`."""
        source, extent = operand.source, self.depth_text(product)
        if source is not None:
            self.panel(source, to, begin, count, width, extent)
            return
        n, k = self.n, product.k.var
        wide, line = width if width.isidentifier() or width.isdigit() else f"({width})", n["line"]
        with self.braces(f"for (ptrdiff_t {k} = 0; {k} < {extent}; {k}++)"):
            self.line(f"{self.element} *const {n['row']} = {to} + {k} * {wide};")
            with self.braces(f"for (ptrdiff_t {line} = 0; {line} < {count}; {line}++)"):
                if loop is not None:
                    self.affine[loop.var] = Affine.var(begin) + Affine.var(line)
                self.run(list(operand.statements))
                self.line(f"{n['row']}[{line}] = {self.value(operand.value)[0]};")
                if loop is not None:
                    del self.affine[loop.var]
            if width != count:
                with self.braces(f"for (ptrdiff_t {line} = {count}; {line} < {wide}; {line}++)"):
                    self.line(f"{n['row']}[{line}] = 0;")

    def epilogue(self, product: Product, sums: str, apart: int | None = None) -> None:
        """The statements beside the sum, for each row of the tile, over its columns side by side.

        `sums` are the tile's, `apart` elements from row to row: a panel's columns, unless they are given. A function of
        `EACH` is computed for the whole tile at once: its arguments go to an array, which the function is called with.
        """
        stores = [s for s in product.beside if isinstance(s, Store)]
        needed = slice_of(product.beside, [v for s in stores for v in (*operands(s), *affine_names(s))])
        moving = _moving(needed, {product.column.var, product.acc.dest})
        self.place_of_lane = ""
        at_once = [s for s in needed if _is_at_once(s) and defined(s) in moving] if self._is_wide() else []
        rest = [s for s in product.beside if isinstance(s, Store) or (s in needed and s not in at_once)]
        for call in at_once:
            self._arguments(product, call, slice_of(rest, call.args), moving, sums, apart)
        used = slice_of(rest, [v for s in stores for v in (*operands(s), *affine_names(s))])
        self._each_row(product, [s for s in rest if isinstance(s, Store) or s in used], moving, sums, apart)

    def _is_wide(self) -> bool:
        return self.suffix == "f32" and self.width % EACH_ELEMENTS == 0

    def _arguments(
        self, product: Product, call: Op, run: Sequence[Statement], moving: set[str], sums: str, apart: int | None
    ) -> None:
        """The array of a function's arguments, all of the tile, and the call that puts the values in their places."""
        n, values = self.n, self.aux(call.dest, "tile")
        whole = product.column.extent.is_const and self.bounds[product.column.var] % self.width == 0
        zero = "" if whole else " = {0}"  # no value that was never written is computed with
        self.line(f"_Alignas(64) float {values}[{self.tile_rows} * {self.width}]{zero};")
        self.place_of_lane = f"{values}[{n['row']} * {self.width} + {n['lane']}]"
        self._each_row(product, run, moving, sums, apart, call.args[0])
        self.line(f"presk_{call.op}_{call.type}_each({n['rows']} * {self.width}, {values});")
        self.text[call.dest] = (self.place_of_lane, PRIMARY)

    def _each_row(
        self, product: Product, run: Sequence[Statement], moving: set[str], sums: str, apart: int | None, to: str = ""
    ) -> None:
        """Statements of the epilogue for each row of the tile; the value `to` goes to `place_of_lane`."""
        n, column = self.n, product.column
        row, read = n["row"], {to}.union(*(operands(s) for s in run))
        once = [s for s in run if defined(s) not in moving and not isinstance(s, (Const, Store))]
        each = [s for s in run if isinstance(s, Store) or defined(s) in moving]
        with self.braces(f"for (ptrdiff_t {row} = 0; {row} < {n['rows']}; {row}++)"):
            if product.row is not None:
                self.affine[product.row.var] = Affine.var(n["tile"]) + Affine.var(row)
            if product.acc.dest in read:
                line = f"{sums} + {row} * {apart or self.width}"
                self.line(f"const {self.element} *const {n['line']} = {line};")
            self.run(once)
            extent, full = self.extent(column), str(self.width)
            bound = self.bounds[column.var]
            if not column.extent.is_const or (bound % self.width and bound > self.width):
                with self.braces(f"if ({extent} - {n['column']} >= {full})"):
                    self._columns(product, each, full, to)
                with self.braces("else"):
                    self._columns(product, each, f"{extent} - {n['column']}", to)
            else:
                self._columns(product, each, full if bound % self.width == 0 else f"{extent} - {n['column']}", to)
            if product.row is not None:
                del self.affine[product.row.var]

    def ahead(self, product: Product) -> None:
        """Asks for the lines that the epilogue of this tile reads and writes: a row's lie far from the next row's."""
        n, row, column = self.n, product.row, product.column
        if row is None:
            return
        inside = {defined(s) for s in product.beside}
        places = {s.array: s for s in product.beside if isinstance(s, (Load, Store))}
        self.affine |= {row.var: Affine.var(n["tile"]) + Affine.var(n["row"]), column.var: Affine.var(n["column"])}
        lines = []
        for array, s in places.items():
            address = flat_address(self.shapes[array], s.index)
            apart = address.coefficient(row.var) * SIZES[self.stored[array]] >= LINE
            if apart and address.coefficient(column.var) == 1 and not inside.intersection(address.names):
                how = "WRITTEN" if isinstance(s, Store) else "READ"
                lines.append(f"PRESK_SOON_{how}({array} + {affine_text(self.resolved(address))[0]});")
        if lines:
            with self.braces(f"for (ptrdiff_t {n['row']} = 0; {n['row']} < {n['rows']}; {n['row']}++)"):
                for line in lines:
                    self.line(line)
        del self.affine[row.var], self.affine[column.var]

    def _columns(self, product: Product, each: Sequence[Statement], count: str, to: str) -> None:
        lane, acc = self.n["lane"], product.acc.dest
        var = product.column.var
        self.affine[var] = Affine.var(self.n["column"]) + Affine.var(lane)
        self.line("PRESK_ACROSS")
        with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {count}; {lane}++)"):
            self.text[acc] = (f"{self.n['line']}[{lane}]", PRIMARY)
            self.run(each)
            if to:
                self.line(f"{self.place_of_lane} = {self.value(to)[0]};")
        del self.affine[var]


def _is_at_once(s: Statement) -> TypeGuard[Op]:
    return isinstance(s, Op) and s.type == "f32" and s.op in EACH


def _moving(pool: Sequence[Statement], variables: set[str]) -> set[str]:
    moving = set(variables)
    for s in pool:
        name = defined(s)
        if name is not None and moving.intersection((*operands(s), *affine_names(s))):
            moving.add(name)
    return moving
