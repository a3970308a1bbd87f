"""LatePrinter: the C function of a product whose row r has the terms k >= r only, as gradients of keys and values have.

What is packed of a tile's rows, and multiplied, begins at the tile's first row; the terms that not all rows of the tile
have are added row by row.
"""

from dataclasses import replace

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_product import ProductPrinter
from presk_db.kernels.products import LateSum, Product
from presk_db.kernels.schedule import ProductTile


class LatePrinter(ProductPrinter):
    """Prints the body of a late product's function."""

    def __init__(self, late: LateSum, product: Product, tile: ProductTile, first: str, last: str, scratch: str) -> None:
        super().__init__(late.every, product, tile, first, last, scratch)
        self.n["begin"] = self._free("begin")

    def _begin(self) -> str:
        """The first term of the tile's first row: behind the last one where the rows are more than the terms."""
        row, k = self.product.row, self.product.k
        assert row is not None
        tile = self.n["tile"]
        few = k.extent.is_const and self.bounds[row.var] <= k.extent.const
        return tile if few else f"presk_least({tile}, {self._k()})"

    def _pack_rows(self) -> None:
        n, source = self.n, self.product.left.source
        if source is None:
            super()._pack_rows()
            return
        with self.braces(self._tile_loop()):
            self._tile_rows()
            self.line(f"const ptrdiff_t {n['begin']} = {self._begin()};")
            begun = replace(source, base=source.base + Affine.var(n["begin"]) * source.down)
            to = f"{self._packed()} + {n['begin']} * {n['rows']}"
            self.panel(begun, to, n["tile"], n["rows"], n["rows"], f"{self._k()} - {n['begin']}")

    def _tile_sums(self) -> None:
        n = self.n
        self.line(f"_Alignas(64) {self.element} {n['sums']}[PRESK_ROWS * {self.width}];")
        self.line(f"const ptrdiff_t {n['begin']} = {self._begin()};")
        left = f"{self._packed()} + {n['begin']} * {n['rows']}"
        right = f"{n['right']} + {n['begin']} * {self._stride()}"
        self._call("late", f"{self._k()} - {n['begin']}", left, right, n["sums"])
