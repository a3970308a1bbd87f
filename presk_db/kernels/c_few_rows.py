"""FewRowsPrinter: the C function of a product with one row or a few, which reads the right factor as it lies in memory."""

from presk_db.kernels.c_text import STORED, affine_text
from presk_db.kernels.c_tiles import TilePrinter
from presk_db.kernels.ir import Kernel
from presk_db.kernels.legality import STACK, STREAM_ROWS, is_left_in_place, product_units
from presk_db.kernels.products import Product, sizes_of
from presk_db.kernels.schedule import ProductTile
from presk_db.kernels.types import SIZES


class FewRowsPrinter(TilePrinter):
    """Prints the body of such a product's function (see `legality.goes_by_rows`).

    Units are chunks of columns; consecutive ones of a batch go together. A packed weight meets the row some panels side
    by side, an array as it stands meets all rows a few lines at a time. `first`, `last` and `scratch` are the C names of
    the function's own parameters.
    """

    def __init__(
        self, kernel: Kernel, product: Product, tile: ProductTile, first: str, last: str, scratch: str
    ) -> None:
        super().__init__(kernel)
        self.product, self.tile = product, tile
        self.first, self.last, self.memory = first, last, scratch
        self.taken.update((first, last, scratch))
        self.prepare(product)
        self.rows = sizes_of(product, kernel).rows
        assert self.rows <= STREAM_ROWS
        self.tile_rows = str(self.rows)

    def print_body(self) -> None:
        """The function's statements, between its braces."""
        n = self.n
        unit, next_ = n["unit"], n["next"]
        with self.braces(
            f"for (ptrdiff_t {unit} = {self.first}, {next_} = {self.first}; {unit} < {self.last}; {unit} = {next_})"
        ):
            self._unit()
            self.run(list(self.product.before))
            self._rows()
            left = self._left()
            begin, end = self._share()
            step = f"PRESK_WIDE * {self.width}" if self.tile.right == "packed" else str(self._block())
            wide = n["wide"]
            with self.braces(f"for (ptrdiff_t {wide} = {begin}; {wide} < {end}; {wide} += {step})"):
                self.line(f"const ptrdiff_t {n['ahead']} = presk_least({end} - {wide}, {step});")
                self.line(f"_Alignas(64) {self.element} {n['sums']}[{step if self.rows == 1 else self._sums()}];")
                self.line(f"memset({n['sums']}, 0, sizeof {n['sums']});")
                if self.tile.right == "packed":
                    self._panels(left)
                else:
                    self._stream(left)
                column = n["column"]
                last = f"{wide} + {n['ahead']}"
                with self.braces(f"for (ptrdiff_t {column} = {wide}; {column} < {last}; {column} += {self.width})"):
                    sums, apart = f"{n['sums']} + ({column} - {wide})", None if self.rows == 1 else self._block()
                    self.epilogue(self.product, sums, apart)

    def _unit(self) -> None:
        """The unit's batch and columns: the chunks `chunk` to `chunk` + `next` - `unit`."""
        n = self.n
        _, chunks, _ = product_units(self.kernel, self.product, self.tile)
        unit, chunk, next_ = n["unit"], n["chunk"], n["next"]
        self.line(f"ptrdiff_t {n['group']} = {unit};")
        self.divide(chunk, chunks)
        self.line(f"{next_} = presk_least({unit} + {chunks} - {chunk}, {self.last});")
        for loop in reversed(self.product.batch):
            self.divide(loop.var, self.bounds[loop.var])
        if chunks == 1 and not self.product.batch:
            self.line(f"(void){n['group']};")

    def _share(self) -> tuple[str, str]:
        """The first column, and the one behind the last: an equal share of those that there are in this run."""
        n, extent = self.n, self.product.column.extent
        chunk, behind = n["chunk"], f"({n['chunk']} + {n['next']} - {n['unit']})"
        text = affine_text(self.resolved(extent))[0]
        if extent.is_const:
            share = self.width * self.tile.panels
            begin, end = f"{chunk} * {share}", f"{behind} * {share}"
        else:
            _, chunks, _ = product_units(self.kernel, self.product, self.tile)
            self.line(f"const ptrdiff_t {n['all']} = ({text} + {self.width - 1}) / {self.width};")
            begin = f"{n['all']} * {chunk} / {chunks} * {self.width}"
            end = f"{n['all']} * {behind} / {chunks} * {self.width}"
        self.line(f"const ptrdiff_t {n['column_last']} = presk_least({end}, {text});")
        return begin, n["column_last"]

    def _rows(self) -> None:
        """`tile` and `rows`, of which the epilogue speaks."""
        n = self.n
        if self.product.row is not None:
            self.line(f"const ptrdiff_t {n['tile']} = 0;")
        rows = "1" if self.product.row is None else self.extent(self.product.row)
        self.line(f"const ptrdiff_t {n['rows']} = {rows};")

    def _left(self) -> str:
        """Where the left factor lies, the rows of one k side by side: in its array, or packed."""
        n, source = self.n, self.product.left.source
        if is_left_in_place(self.product, self.kernel):
            assert source is not None
            return f"{source.array} + {affine_text(self.resolved(source.base))[0]}"
        packed = n["packed_rows"]
        self.line(f"{self.element} *const {packed} = ({self.element} *)(void *){self.memory};")
        self.pack(self.product, self.product.left, self.product.row, n["tile"], packed, n["rows"], n["rows"])
        return packed

    def _k(self) -> str:
        return self.depth_text(self.product)

    def _block(self) -> int:
        """The columns of a stream whose sums are kept at once, and the elements from a row of sums to the next."""
        rows = STREAM_ROWS if self.rows > STREAM_ROWS // 2 else STREAM_ROWS // 2
        panels = STACK // SIZES[self.product.acc.type] // rows // self.width
        return min(panels, -(-self.bounds[self.product.column.var] // self.width)) * self.width

    def _sums(self) -> int:
        return self.rows * self._block()

    def _panels(self, left: str) -> None:
        """Some panels of a packed weight, side by side."""
        n, source = self.n, self.product.right.source
        assert source is not None
        pairs = source.type == "bf16"
        odd = pairs and self.bounds[self.product.k.var] % 2
        lines = f"({self._k()} + 1)" if odd else self._k()
        begin = f"{source.array} + {n['wide']} * {lines}"
        panels = f"({n['ahead']} + {self.width - 1}) / {self.width}"
        name = "bf16" if pairs else self.suffix
        self.line(f"const {STORED[source.type]} *const {n['right']} = {begin};")
        self.line(
            f"presk_row_panels_{name}({panels}, {self._k()}, {left}, {n['right']}, {lines} * {self.width},"
            f" {n['sums']});"
        )

    def _stream(self, left: str) -> None:
        """A block of columns of an array, as it stands."""
        n, source = self.n, self.product.right.source
        assert source is not None
        self.line(
            f"presk_rows_stream_{self.suffix}({n['rows']}, {self._k()}, {n['ahead']}, {left},"
            f" {self.address(source, n['wide'])}, {source.down}, {n['sums']}, {self._block()});"
        )
