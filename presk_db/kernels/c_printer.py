"""c_function: a kernel as one C11 function, by its schedule; the kernel's text is the comment above.

What the function calls is in presk_kernel.h. Loops, subscripts and names are the kernel's: a subscript is the flat
affine address with literal strides; a value that is used once, near, stands where it is used.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from presk_db.errors import KernelNameBad
from presk_db.kernels.affine import Affine
from presk_db.kernels.c_statements import StatementPrinter
from presk_db.kernels.c_text import COMPUTED, KEYWORDS, PRIMARY, STORED, affine_text, constant_text
from presk_db.kernels.ir import (
    LANES,
    Acc,
    Array,
    Const,
    ExtentParameter,
    Fold,
    Kernel,
    Loop,
    Parameter,
    ScalarParameter,
    Statement,
    Store,
)
from presk_db.kernels.liveness import defined, moving_values, operands
from presk_db.kernels.schedule import Schedule, default_schedule, is_tileable
from presk_db.kernels.tree import Nest, statements

Nodes = Sequence[Statement | Nest]


def c_function(kernel: Kernel, name: str, schedule: Schedule | None = None, *, comment: bool = True) -> str:
    """The function `static void name(...)` in C11, ending in a newline.

    Its parameters are the kernel's in order: arrays as restrict pointers, scalars as double, extents as ptrdiff_t.
    It is silent under -Wall -Wextra -Wconversion. `schedule` is the default one where it is None.

    Raises:
        KernelNameBad (E2002): a name of the kernel means something in C.
    """
    printer = _Printer(kernel, default_schedule(kernel) if schedule is None else schedule)
    text = ["/*", *(f" * {line}" for line in kernel.text.splitlines()), " */"] if comment else []
    return "\n".join([*text, *printer.function(name)]) + "\n"


class _Printer(StatementPrinter):
    """Prints loops; straight statements are the base class's."""

    def __init__(self, kernel: Kernel, schedule: Schedule) -> None:
        super().__init__(kernel)
        self.tiles = {t.loop: t.width for t in schedule.tiles}
        for name in sorted(self.taken):
            if name in KEYWORDS or name.startswith("presk_"):
                raise KernelNameBad(f"{name} means something in C")

    def function(self, name: str) -> list[str]:
        """The function's lines."""
        self.depth = 1
        for s in statements(self.nodes):
            if isinstance(s, Const):
                text, decimal = constant_text(s.type, s.literal)
                beside = f" /* {decimal} */" if decimal else ""
                self.line(f"const {COMPUTED[s.type]} {s.dest} = {text};{beside}")
        self.body(self.nodes)
        used = set(re.findall(r"\w+", "\n".join(self.lines)))
        unused = [f"    (void){p.name};" for p in self.kernel.parameters if p.name not in used]
        return [*_head(name, self.kernel.parameters), "{", *unused, *self.lines, "}"]

    def body(self, nodes: Nodes) -> None:
        """Statements and loops in order; accumulators become values behind the seq loop that folds into them."""
        run: list[Statement] = []
        opened: list[Acc] = []
        for node in nodes:
            if not isinstance(node, Nest):
                if isinstance(node, Acc):
                    opened.append(node)
                run.append(node)
                continue
            self.run(run)
            run = []
            self._nest(node)
            if node.loop.kind == "seq":
                self._finish(opened)
                opened = []
        self.run(run)

    def _finish(self, accs: list[Acc]) -> None:
        for acc in accs:
            if acc.dest in self.folded:
                self.finish(acc)

    def _nest(self, nest: Nest) -> None:
        in_lanes = [s.acc for s in nest.body if isinstance(s, Fold) and self.accs[s.acc].kind == "lanes"]
        if nest.loop.var in self.tiles and is_tileable(nest):
            self._blocks(nest.loop, self.tiles[nest.loop.var], partial(self._tile, nest))
        elif in_lanes:
            self._blocks(nest.loop, LANES, partial(self._lanes, nest, in_lanes))
        else:
            var = nest.loop.var
            extent = affine_text(self.resolved(nest.loop.extent))[0]
            with self.braces(f"for (ptrdiff_t {var} = 0; {var} < {extent}; {var}++)"):
                self.body(nest.body)

    def _blocks(self, loop: Loop, width: int, block: Callable[[Affine, str], None]) -> None:
        """Blocks of `width` iterations, then the rest. `block` gets the first iteration and the number of them."""
        base, extent = self.aux(loop.var, "0"), self.resolved(loop.extent)
        end = affine_text(extent)[0]
        if not extent.is_const:
            with self.braces(""):
                self.line(f"ptrdiff_t {base} = 0;")
                if self.bounds[loop.var] >= width:  # else compilers see accesses out of bounds in what never runs
                    with self.braces(f"for (; {base} + {width} <= {end}; {base} += {width})"):
                        block(Affine.var(base), str(width))
                block(Affine.var(base), affine_text(extent + Affine.var(base) * -1)[0])
            return
        whole, rest = divmod(extent.const, width)
        if whole > 1:
            with self.braces(f"for (ptrdiff_t {base} = 0; {base} < {whole * width}; {base} += {width})"):
                block(Affine.var(base), str(width))
        elif whole:
            with self.braces(""):
                block(Affine(), str(width))
        if rest:
            with self.braces(""):
                block(Affine((), whole * width), str(rest))

    def _lanes(self, nest: Nest, accs: list[str], base: Affine, count: str) -> None:
        var = nest.loop.var
        lane = self.aux(var, "1")
        self.affine[var] = base + Affine.var(lane)
        for acc in accs:
            self.lane[acc] = lane
        with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {count}; {lane}++)"):
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
            start = " = {0}" if v in self.accs else ""
            self.line(f"{COMPUTED[self.types[v]]} {v}[{size}]{start};")
            if v in self.accs:  # also where nothing is folded into it
                self.text[v] = (self.place[v], PRIMARY)
        for stretch in stretches:
            if isinstance(stretch, Nest):
                k, extent = stretch.loop.var, affine_text(self.resolved(stretch.loop.extent))[0]
                with self.braces(f"for (ptrdiff_t {k} = 0; {k} < {extent}; {k}++)"):
                    self._across(stretch.body, moving, lane, count)
            else:
                self._across(stretch, moving, lane, count)
        self.place = {}
        del self.affine[var]

    def _across(self, nodes: Nodes, moving: frozenset[str], lane: str, count: str) -> None:
        """What does not move along the tile, once; then the loop over the tile."""
        run = [s for s in nodes if not isinstance(s, (Nest, Acc))]
        inside = [s for s in run if isinstance(s, (Store, Fold)) or defined(s) in moving]
        self.run([s for s in run if s not in inside])
        if inside:
            with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {count}; {lane}++)"):
                self.run(inside)


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


def _head(name: str, parameters: Sequence[Parameter]) -> list[str]:
    """`static void name(parameters)`, as many parameters on a line as fit."""
    lines = [f"static void {name}("]
    texts = [_parameter(p) for p in parameters] or ["void"]
    for number, text in enumerate(texts):
        text += ")" if number == len(texts) - 1 else ", "
        if number and len(lines[-1]) + len(text) > 120:
            lines[-1] = lines[-1].rstrip()
            lines.append("    ")
        lines[-1] += text
    return lines


def _parameter(p: Parameter) -> str:
    match p:
        case Array(name, "in", type_, _, _):
            return f"const {STORED[type_]} *restrict {name}"
        case Array(name, _, type_, _, _):
            return f"{STORED[type_]} *restrict {name}"
        case ExtentParameter(name, _):
            return f"ptrdiff_t {name}"
        case ScalarParameter(name):
            return f"double {name}"
