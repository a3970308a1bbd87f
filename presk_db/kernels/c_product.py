"""ProductPrinter: the C function of a product by its schedule: packed rows, panels, tiles in registers, epilogue."""

from presk_db.kernels.c_text import STORED
from presk_db.kernels.c_tiles import TilePrinter
from presk_db.kernels.ir import Kernel, Loop
from presk_db.kernels.legality import group_of, is_unpacked, product_units, scratch_of
from presk_db.kernels.products import Operand, Product
from presk_db.kernels.schedule import ProductTile, Schedule


class ProductPrinter(TilePrinter):
    """Prints the body of a product's function. `first`, `last` and `scratch` are the C names of its own parameters."""

    def __init__(
        self, kernel: Kernel, product: Product, tile: ProductTile, first: str, last: str, scratch: str
    ) -> None:
        super().__init__(kernel)
        self.product, self.tile = product, tile
        self.first, self.last, self.memory = first, last, scratch
        self.taken.update((first, last, scratch))
        self.prepare(product)
        self.size = scratch_of(kernel, Schedule(product=tile))
        self.panels = group_of(kernel, product, tile)
        self.unpacked = is_unpacked(kernel, product, tile)

    def print_body(self) -> None:
        """The function's statements, between its braces."""
        n, tile = self.n, self.tile
        at = 0
        element = self.element
        self.line(f"{element} *const {n['packed_rows']} = ({element} *)(void *){self.memory};")
        at += self.size.rows
        if self.size.panel:
            self.line(f"{element} *const {n['panel']} = ({element} *)(void *)({self.memory} + {at});")
            at += self.size.panel
        if self.size.sums:
            self.line(f"{element} *const {n['sums']} = ({element} *)(void *)({self.memory} + {at});")
        unit, next_, first = n["unit"], n["next"], self.first
        with self.braces(
            f"for (ptrdiff_t {unit} = {first}, {next_} = {first}; {unit} < {self.last}; {unit} = {next_})"
        ):
            self._unit()
            self.run(list(self.product.before))
            self._pack_rows()
            if tile.depth:
                self._deep()
            else:
                self._whole()

    def _deep(self) -> None:
        """A panel at a time, some k's at a time; the sums are carried."""
        begin, end = self._chunk()
        with self.braces(self._columns_from("column", begin, end, 1)):
            self._right()
            self._deep_sums()
            with self.braces(self._tile_loop()):
                self._tile_rows()
                self.epilogue(self.product, self._tile_of_sums())

    def _whole(self) -> None:
        """A group of panels at a time, all k."""
        n, begin, end = self.n, *self._chunk()
        with self.braces(self._columns_from("group_first", begin, end, self.panels)):
            self._right_group(end)
            with self.braces(self._tile_loop()):
                self._tile_rows()
                with self.braces(self._columns_from("column", n["group_first"], n["group_last"], 1)):
                    self._right()
                    self.ahead(self.product)
                    self._tile_sums()
                    self.epilogue(self.product, self._tile_of_sums())

    def _unit(self) -> None:
        """The unit's batch, columns and rows; consecutive units of rows go together up to a block."""
        n, tile = self.n, self.tile
        _, chunks, row_units = product_units(self.kernel, self.product, tile)
        unit, rest = n["unit"], n["rest"]
        self.line(f"ptrdiff_t {n['group']} = {unit} / {row_units};")
        self.line(f"const ptrdiff_t {rest} = {unit} - {n['group']} * {row_units};")
        ahead = f"presk_least({row_units} - {rest}, {max(tile.block // tile.rows, 1)})"
        self.line(f"{n['next']} = presk_least({unit} + {ahead}, {self.last});")
        rows = "1" if self.product.row is None else self.extent(self.product.row)
        self.line(f"const ptrdiff_t {n['row_first']} = {rest} * {tile.rows};")
        end = f"presk_least(({rest} + {n['next']} - {unit}) * {tile.rows}, {rows})"
        if self.product.row is not None and not self.product.row.extent.is_const:
            end = f"presk_most({end}, {n['row_first']})"
        self.line(f"const ptrdiff_t {n['row_last']} = {end};")
        self.divide(n["chunk"], chunks)
        for loop in reversed(self.product.batch):
            self.divide(loop.var, self.bounds[loop.var])
        if chunks == 1 and not self.product.batch:
            self.line(f"(void){n['group']};")

    def _columns_from(self, name: str, begin: str, end: str, panels: int) -> str:
        column = self.n[name]
        return f"for (ptrdiff_t {column} = {begin}; {column} < {end}; {column} += {panels * self.width})"

    def _chunk(self) -> tuple[str, str]:
        """The first column of the unit's chunk, and the one behind its last."""
        wide = self.width * self.tile.panels
        begin = f"{self.n['chunk']} * {wide}"
        return begin, f"presk_least({begin} + {wide}, {self.extent(self.product.column)})"

    def _tile_loop(self) -> str:
        tile = self.n["tile"]
        return f"for (ptrdiff_t {tile} = {self.n['row_first']}; {tile} < {self.n['row_last']}; {tile} += PRESK_ROWS)"

    def _tile_rows(self) -> None:
        n = self.n
        self.line(f"const ptrdiff_t {n['rows']} = presk_least({n['row_last']} - {n['tile']}, PRESK_ROWS);")

    def _packed(self) -> str:
        n = self.n
        return f"{n['packed_rows']} + ({n['tile']} - {n['row_first']}) * {self._k()}"

    def _k(self) -> str:
        return self.depth_text(self.product)

    def _pack_rows(self) -> None:
        n = self.n
        with self.braces(self._tile_loop()):
            self._tile_rows()
            self._pack(self.product.left, self.product.row, n["tile"], self._packed(), n["rows"], n["rows"])

    def _right_group(self, end: str) -> None:
        """The columns of a group end at `group_last`; of packing inside, its panels are packed."""
        n, product = self.n, self.product
        first, last = n["group_first"], n["group_last"]
        self.line(f"const ptrdiff_t {last} = presk_least({first} + {self.panels * self.width}, {end});")
        if self.unpacked:
            column = n["column"]
            with self.braces(self._columns_from("column", first, last, 1)):
                right = f"{self._packed_right(column)}"
                self.line(f"presk_panel_f32_from_pairs({self._panel_of_group()}, {self._k()}, {right});")
        if self.tile.right != "inside":
            return
        if product.right.source is not None:
            self.panels_of(product.right.source, n["panel"], first, f"{last} - {first}", self._k())
            return
        with self.braces(self._columns_from("column", first, last, 1)):
            column = n["column"]
            self._pack(
                product.right, product.column, column, self._panel_of_group(), self._left_over(), str(self.width)
            )

    def _panel_of_group(self) -> str:
        n = self.n
        return f"{n['panel']} + ({n['column']} - {n['group_first']}) * {self._k()}"

    def _left_over(self) -> str:
        return f"presk_least({self.extent(self.product.column)} - {self.n['column']}, {self.width})"

    def _right(self) -> None:
        """`right` and `stride`: where the tiles read this panel of the right factor."""
        n, source, column = self.n, self.product.right.source, self.n["column"]
        extent, left_over = self.extent(self.product.column), self._left_over()
        if self.unpacked:
            self.line(f"const {self.element} *const {n['right']} = {self._panel_of_group()};")
        elif self.tile.right == "packed":
            assert source is not None
            self.line(f"const {STORED[source.type]} *const {n['right']} = {self._packed_right(column)};")
        elif self.tile.right == "inside":
            to = n["panel"] if self.tile.depth else self._panel_of_group()
            if self.tile.depth:
                self._pack(self.product.right, self.product.column, column, to, left_over, str(self.width))
            self.line(f"const {self.element} *const {n['right']} = {to};")
        else:
            assert source is not None
            self.line(f"const {self.element} *{n['right']} = {self.address(source, column)};")
            self.line(f"ptrdiff_t {n['stride']} = {source.down};")
            if self.size.panel:
                with self.braces(f"if ({extent} - {column} < {self.width})"):
                    self._pack(self.product.right, self.product.column, column, n["panel"], left_over, str(self.width))
                    self.line(f"{n['right']} = {n['panel']};")
                    self.line(f"{n['stride']} = {self.width};")

    def _packed_right(self, column: str) -> str:
        """Where the panel from this column on begins in the packed weight: in pairs it holds an even number of k's."""
        source = self.product.right.source
        assert source is not None
        odd = source.type == "bf16" and self.bounds[self.product.k.var] % 2
        lines = f"({self._k()} + {self._k()} % 2)" if odd else self._k()
        return f"{source.array} + {column} * {lines}"

    def _stride(self) -> str:
        if self.tile.right == "direct":
            return self.n["stride"]
        return str(2 * self.width if self._pairs() else self.width)

    def _pairs(self) -> bool:
        source = self.product.right.source
        return self.tile.right == "packed" and not self.unpacked and source is not None and source.type == "bf16"

    def _tile_type(self) -> str:
        return "bf16" if self._pairs() else self.suffix

    def _call(self, function: str, k: str, left: str, right: str, sums: str) -> None:
        arguments = f"{self.n['rows']}, {k}, {left}, {right}, {self._stride()}, {sums}"
        self.line(f"presk_{function}_{self._tile_type()}({arguments});")

    def _tile_sums(self) -> None:
        n = self.n
        self.line(f"_Alignas(64) {self.element} {n['sums']}[PRESK_ROWS * {self.width}];")
        self._call("tile_first", self._k(), self._packed(), n["right"], n["sums"])

    def _deep_sums(self) -> None:
        """All tiles' sums of this panel, `depth` k's at a time."""
        n, step, depth = self.n, self.n["step"], self.n["depth"]
        count = f"({n['row_last']} - {n['row_first']})"
        self.line(f"memset({n['sums']}, 0, (size_t){count} * {self.width} * sizeof *{n['sums']});")
        k = self._k()
        with self.braces(f"for (ptrdiff_t {step} = 0; {step} < {k}; {step} += {self.tile.depth})"):
            self.line(f"const ptrdiff_t {depth} = presk_least({k} - {step}, {self.tile.depth});")
            with self.braces(self._tile_loop()):
                self._tile_rows()
                ahead = f"{step} / 2" if self._pairs() else step
                right = f"{n['right']} + {ahead} * {self._stride()}"
                self._call("tile", depth, f"{self._packed()} + {step} * {n['rows']}", right, self._tile_of_sums())

    def _tile_of_sums(self) -> str:
        n = self.n
        return f"{n['sums']} + ({n['tile']} - {n['row_first']}) * {self.width}" if self.tile.depth else n["sums"]

    def _pack(self, operand: Operand, loop: Loop | None, begin: str, to: str, count: str, width: str) -> None:
        self.pack(self.product, operand, loop, begin, to, count, width)
