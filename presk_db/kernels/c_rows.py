"""RowPrinter: loops over rows that lie in scratch memory in whole lines: the rest of a row is a block like the others.

What such a block computes beyond the row's end is stored into the line's padding, where nothing reads it but other such
blocks, and is no part of a sum or a maximum. So every loop over lanes has a literal count, whatever the row's length.
"""

from collections.abc import Callable

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_loops import LoopPrinter
from presk_db.kernels.c_text import PRIMARY, constant_text
from presk_db.kernels.ir import Acc, Const, Fold, Index, Kernel, Load, Local, Loop, Op, Scalar, Statement, Store
from presk_db.kernels.legality import LINE, is_tileable
from presk_db.kernels.schedule import Schedule
from presk_db.kernels.tree import Nest, statements
from presk_db.kernels.types import COMPUTE, SIZES

NEUTRAL = {"lanes": "-0x0p+0", "max": "-inf"}
"""What changes no accumulator of this kind: x + -0 is x, and no key is below -infinity's."""


class RowPrinter(LoopPrinter):
    """Prints loops over the locals that `scratch_of` has put into scratch memory."""

    def __init__(self, kernel: Kernel, schedule: Schedule, first: str, last: str, scratch: str) -> None:
        super().__init__(kernel, schedule, first, last, scratch)
        self.rows = {
            s.name: LINE // SIZES[COMPUTE[s.type]]
            for s in statements(self.nodes)
            if isinstance(s, Local) and len(s.shape) == 1
        }
        self.padding = 0
        self.live = ""

    def nest(self, nest: Nest) -> None:
        """The loop; in whole blocks where it reads and writes its rows' elements side by side, and nothing else."""
        padding = self._padding(nest)
        if not padding:
            super().nest(nest)
            return
        self.padding, self.before_lanes = padding, "PRESK_APART"
        super().nest(nest)
        self.padding, self.before_lanes = 0, ""

    def rest(self, loop: Loop, base: Affine, left: str, block: Callable[[Affine, str], None]) -> None:
        """Blocks of a line of elements, the last with lanes beyond the row's end."""
        if not self.padding:
            super().rest(loop, base, left, block)
            return
        part, live = self.aux(loop.var, "part"), self.aux(loop.var, "live")
        with self.braces(f"for (ptrdiff_t {part} = 0; {part} < {left}; {part} += {self.padding})"):
            if self.folds:
                behind = f"presk_live + 16 - presk_least({left} - {part}, {self.padding})"
                self.line(f"const int32_t *const {live} = {behind};")
                self.live = f"{live}[{self.aux(loop.var, '1')}]"
            self.first_lane = f"{part} + "
            block(base + Affine.var(part), str(self.padding))
        self.first_lane = self.live = ""

    def fold(self, acc: Acc, value: str) -> None:
        """One step of an accumulator, of the lanes that are live."""
        if not self.live:
            super().fold(acc, value)
            return
        neutral, _ = constant_text(acc.type, NEUTRAL[acc.kind])
        before = self.text.get(value)
        self.text[value] = (f"presk_select_{acc.type}({self.live}, {self.value(value)[0]}, {neutral})", PRIMARY)
        super().fold(acc, value)
        del self.text[value]
        if before is not None:
            self.text[value] = before

    def _padding(self, nest: Nest) -> int:
        """The elements of a line of the nest's rows, or 0 where it is printed as other loops are."""
        body = [s for s in nest.body if not isinstance(s, Nest)]
        if len(body) != len(nest.body) or not all(self._is_apart(s, nest.loop) for s in body):
            return 0
        stored = {s.array for s in body if isinstance(s, Store)}
        if any(isinstance(s, Load) and s.array in stored and nest.loop.var not in s.index[0].names for s in body):
            return 0
        self.folds = [s for s in body if isinstance(s, Fold)]
        in_lanes = all(self.accs[s.acc].kind == "lanes" or s.acc in self.keyed for s in self.folds)
        blocks = in_lanes if self.folds else is_tileable(nest) and nest.loop.var in self.tiles
        widths = {self.rows[s.array] for s in body if isinstance(s, (Load, Store)) and s.array in self.rows}
        return min(*widths, 16) if blocks and widths else 0

    def _is_apart(self, s: Statement, loop: Loop) -> bool:
        """Whether a statement has no effect but on the element of this iteration, in a row, or on its lane."""
        match s:
            case Load(_, array, index) | Store(array, index, _):
                along = index == (Affine.var(loop.var),) and array in self.rows
                return along or (isinstance(s, Load) and all(loop.var not in e.names for e in index))
            case Const() | Fold() | Index() | Op() | Scalar():
                return True
            case _:
                return False
