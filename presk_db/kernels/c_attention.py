"""AttentionPrinter: the C function of an attention by tiles of rows: scores, what is done with each row, values.

Keys and values are packed once for all rows of a head that are computed together. A tile has the keys that its last row
sees; a weight beyond what a row sees is neither read nor multiplied: behind the keys that all rows of the tile see, each
row goes on by itself.
"""

from presk_db.kernels.affine import Affine
from presk_db.kernels.attention import Attention
from presk_db.kernels.c_rows import RowPrinter
from presk_db.kernels.c_text import affine_text
from presk_db.kernels.c_tiles import TilePrinter
from presk_db.kernels.ir import Kernel, Local, Loop
from presk_db.kernels.legality import attention_units, is_in_rows, is_tileable, row_stride, scratch_of
from presk_db.kernels.schedule import AttentionTile, Schedule
from presk_db.kernels.tree import nests

TILE = 64
"""How many elements of a row are computed side by side where its loops are par."""


class AttentionPrinter(TilePrinter, RowPrinter):
    """Prints the body of an attention's function. `first`, `last` and `scratch` are the C names of its own parameters."""

    tile_rows = "PRESK_QUERIES"

    def __init__(
        self, kernel: Kernel, attention: Attention, tile: AttentionTile, first: str, last: str, scratch: str
    ) -> None:
        super().__init__(kernel, Schedule(attention=tile), first, last, scratch)
        self.attention, self.tile, self.memory = attention, tile, scratch
        self.prepare(attention.scores)
        self.places = scratch_of(kernel, Schedule(attention=tile))
        inside = nests(attention.middle)
        self.tiles = {nest.loop.var: TILE for nest in inside if is_tileable(nest)}

    def print_body(self) -> None:
        """The function's statements, between its braces."""
        n, at = self.n, 0
        for name, size in self.places.tiles:
            self.line(f"{self.element} *const {n[name]} = ({self.element} *)(void *)({self.memory} + {at});")
            at += size
        unit, next_ = n["unit"], n["next"]
        with self.braces(
            f"for (ptrdiff_t {unit} = {self.first}, {next_} = {self.first}; {unit} < {self.last}; {unit} = {next_})"
        ):
            self._unit()
            self.run(list(self.attention.scores.before))
            self._pack()
            tile = n["tile"]
            with self.braces(
                f"for (ptrdiff_t {tile} = {n['row_first']}; {tile} < {n['row_last']}; {tile} += PRESK_QUERIES)"
            ):
                self.line(f"const ptrdiff_t {n['rows']} = presk_least({n['row_last']} - {tile}, PRESK_QUERIES);")
                self._scores()
                self._rows()
                self._values()

    def _unit(self) -> None:
        """The unit's head and rows; consecutive units of a head go together."""
        n = self.n
        _, row_units = attention_units(self.kernel, self.tile)
        unit, rest, next_ = n["unit"], n["rest"], n["next"]
        self.line(f"ptrdiff_t {n['group']} = {unit} / {row_units};")
        self.line(f"const ptrdiff_t {rest} = {unit} - {n['group']} * {row_units};")
        self.line(f"{next_} = presk_least({unit} + {row_units} - {rest}, {self.last});")
        self.line(f"const ptrdiff_t {n['row_first']} = {rest} * {self.tile.rows};")
        rows = self.extent(self.attention.row)
        end = f"presk_least(({rest} + {next_} - {unit}) * {self.tile.rows}, {rows})"
        if not self.attention.row.extent.is_const:
            end = f"presk_most({end}, {n['row_first']})"
        self.line(f"const ptrdiff_t {n['row_last']} = {end};")
        for loop in reversed(self.attention.scores.batch):
            self.divide(loop.var, self.bounds[loop.var])
        if not self.attention.scores.batch:
            self.line(f"(void){n['group']};")

    def _at(self, extent: Affine, row: str, behind: int = 0) -> str:
        """An extent at the row `row` - behind."""
        self.affine[self.attention.row.var] = Affine.var(row) + -behind
        text = affine_text(self.resolved(extent))[0]
        del self.affine[self.attention.row.var]
        return text

    def _pack(self) -> None:
        """All keys and values that the last row sees."""
        n, scores, values = self.n, self.attention.scores, self.attention.values
        assert scores.right.source is not None and values.right.source is not None
        column, depth = n["column"], self.extent(scores.k)
        seen = self._at(scores.column.extent, n["row_last"], 1)
        with self.braces(f"for (ptrdiff_t {column} = 0; {column} < {seen}; {column} += {self.width})"):
            count = f"presk_least({seen} - {column}, {self.width})"
            to = f"{n['keys']} + {column} * {depth}"
            self.panel(scores.right.source, to, column, count, str(self.width), depth)
        summed = self._at(values.k.extent, n["row_last"], 1)
        self.line(f"const ptrdiff_t {n['depth']} = {summed};")
        columns = self.extent(values.column)
        with self.braces(f"for (ptrdiff_t {column} = 0; {column} < {columns}; {column} += {self.width})"):
            count = f"presk_least({columns} - {column}, {self.width})"
            to = f"{n['values']} + {column} * {n['depth']}"
            self.panel(values.right.source, to, column, count, str(self.width), n["depth"])

    def _stride(self, local: Local) -> int:
        return row_stride(local, self.width)

    def _scores(self) -> None:
        """The tile's scores of all keys that its last row sees, a row of them for each row."""
        n, scores, local = self.n, self.attention.scores, self.attention.score_row
        column, row, depth = n["column"], n["row"], self.extent(scores.k)
        queries, apart = self._queries()
        self.line(f"const ptrdiff_t {n['all']} = {self._last(scores.column)};")
        with self.braces(f"for (ptrdiff_t {column} = 0; {column} < {n['all']}; {column} += {self.width})"):
            to, stride = f"{n['score_rows']} + {column}", self._stride(local)
            keys = f"{n['keys']} + {column} * {depth}"
            self._tile_sums(depth, 0, queries, apart, keys, to, stride)
            if local.name in self.rounded:
                with self.braces(f"for (ptrdiff_t {row} = 0; {row} < {n['rows']}; {row}++)"):
                    self.line(f"{self.element} *const {n['line']} = {to} + {row} * {stride};")
                    with self.braces(f"for (ptrdiff_t {n['lane']} = 0; {n['lane']} < {self.width}; {n['lane']}++)"):
                        score = f"{n['line']}[{n['lane']}]"
                        self.line(f"{score} = presk_f32_from_bf16(presk_bf16_from_f32({score}));")

    def _queries(self) -> tuple[str, str]:
        """Where the tile's queries are, and the elements from one to the next; packed where they are not in rows."""
        n, scores = self.n, self.attention.scores
        source, depth = scores.left.source, self.extent(scores.k)
        assert source is not None
        start = self.address(source, n["tile"])
        if is_in_rows(source, self.suffix):
            return start, str(source.across)
        name = self.suffix if source.type == self.suffix else f"{self.suffix}_from_{source.type}"
        operands = f"{depth}, {depth}, {n['rows']}, {start}, {source.down}, {source.across}"
        self.line(f"presk_panel_{name}({n['queries']}, {operands});")
        return n["queries"], depth

    def _tile_sums(self, k: str, more: int, left: str, apart: str | int, right: str, to: str, stride: int) -> None:
        """The tile's sums over k, and over `more` further terms from row to row, of one panel."""
        call = f"presk_rows_{self.suffix}({self.n['rows']}, {k}, {more}, {left}, {apart}"
        self.line(f"{call}, {right}, {to}, {stride});")

    def _last(self, loop: Loop) -> str:
        """A loop's extent at the tile's last row."""
        if loop.extent.coefficient(self.attention.row.var) == 0:
            return self.extent(loop)
        self.affine[self.attention.row.var] = Affine.var(self.n["tile"]) + Affine.var(self.n["rows"]) + -1
        text = self.extent(loop)
        del self.affine[self.attention.row.var]
        return text

    def _rows(self) -> None:
        """What stands between the products, for each row of the tile."""
        n, a = self.n, self.attention
        row = n["row"]
        with self.braces(f"for (ptrdiff_t {row} = 0; {row} < {n['rows']}; {row}++)"):
            self.affine[a.row.var] = Affine.var(n["tile"]) + Affine.var(row)
            self.scratch[a.score_row.name] = f"{n['score_rows']} + {row} * {self._stride(a.score_row)}"
            self.scratch[a.weight_row.name] = f"{n['weight_rows']} + {row} * {self._stride(a.weight_row)}"
            self.body([*a.lead, *a.middle])
            del self.affine[a.row.var]

    def _values(self) -> None:
        """The tile's sums over values."""
        n, values = self.n, self.attention.values
        column, stride = n["column"], self._stride(self.attention.weight_row)
        moving = values.k.extent.coefficient(self.attention.row.var) != 0
        shared = n["depth"]
        if moving:
            shared = n["least"]
            self.line(f"const ptrdiff_t {shared} = {self._at(values.k.extent, n['tile'])};")
        columns = self.extent(values.column)
        with self.braces(f"for (ptrdiff_t {column} = 0; {column} < {columns}; {column} += {self.width})"):
            panel = f"{n['values']} + {column} * {n['depth']}"
            self.line(f"_Alignas(64) {self.element} {n['sums']}[PRESK_QUERIES * {self.width}];")
            self._tile_sums(shared, int(moving), n["weight_rows"], stride, panel, n["sums"], self.width)
            self.epilogue(values, n["sums"])
