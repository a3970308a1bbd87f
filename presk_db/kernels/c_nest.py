"""c_nest: a kernel at point zero as one plain C function, for tools that read loop nests.

The nest stands between `#pragma scop` and `#pragma endscop`: loops with affine bounds, arrays with literal dimensions and
one index an axis, scalars, and calls of functions of values, which the file that includes it declares const. The lanes
of a long sum are an array that is added up by affine loops; a maximum is a key that a function compares; what an argmax
keeps is selected, by a condition that is computed once. Loaded integers that are the same throughout come before the nest.
The runtime's functions go by another prefix than `presk_`: a header of their declarations alone can stand in for it.
"""

import re
from collections.abc import Sequence
from math import prod

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_statements import StatementPrinter
from presk_db.kernels.c_text import (
    COMPUTED,
    KEYS,
    PRIMARY,
    STORED,
    Expression,
    affine_text,
    check_names,
    local_element,
    wrapped,
)
from presk_db.kernels.ir import (
    LANES,
    Acc,
    Array,
    ExtentParameter,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Parameter,
    Statement,
)
from presk_db.kernels.legality import STACK
from presk_db.kernels.liveness import live_statements, parameters_of
from presk_db.kernels.tree import Nest, statements
from presk_db.kernels.types import COMPUTE, SIZES

PREFIX = "scop_"
"""What the runtime's functions begin with here."""


def c_nest(kernel: Kernel, name: str) -> list[str]:
    """The lines of `void name(…)`, whose parameters are the kernel's in order: arrays, doubles, integers.

    It is silent under -Wall but for the pragmas, and calls nothing but functions `scop_*` of values.

    Raises:
        KernelNameBad (E2002): a name of the kernel means something in C.
    """
    printer = _NestPrinter(kernel)
    check_names(printer.taken)
    printer.depth = 1
    printer.constants()
    for local in printer.locals:
        if local.name in printer.kept:
            printer.line(f"static {printer.declared(local)};")
    printer.parameters()
    head, printer.lines = printer.lines, []
    printer.body(printer.nodes)
    used = set(re.findall(r"\w+", "\n".join(printer.lines)))
    unused = [f"    (void){p.name};" for p in kernel.parameters if p.name not in used]
    scop = ["#pragma scop", *printer.lines, "#pragma endscop"]
    lines = [*wrapped(f"void {name}(", [_parameter(p) for p in kernel.parameters]), "{", *unused, *head, *scop, "}"]
    return [re.sub(r"\bpresk_", PREFIX, line) for line in lines]


def nest_prototype(kernel: Kernel, name: str) -> list[str]:
    """The lines that declare the function."""
    lines = wrapped(f"void {name}(", [_parameter(p) for p in kernel.parameters])
    return [re.sub(r"\bpresk_", PREFIX, line) for line in [*lines[:-1], f"{lines[-1]};"]]


def _parameter(p: Parameter) -> str:
    match p:
        case Array(name, mode, type_, shape, _):
            const = "const " if mode == "in" else ""
            first, *rest = _extents(shape)
            return f"{const}{STORED[type_]} {name}[restrict {first}]" + "".join(f"[{n}]" for n in rest)
        case ExtentParameter(name, _):
            return f"ptrdiff_t {name}"
        case _:
            return f"double {p.name}"


def _below(index: Affine, extent: Affine) -> str:
    """`index < extent`. What lessens the extent stands on the left: Polly takes `i + j < 255`, and not `i < 255 - j`."""
    less = Affine.of((name, c) for name, c in extent.terms if c < 0)
    return f"{affine_text(index + less * -1)[0]} < {affine_text(extent + less * -1)[0]}"


def _extents(shape: tuple[int, ...]) -> list[int]:
    """At least one extent, each at least 1: what C declares."""
    return [max(n, 1) for n in shape] or [1]


class _NestPrinter(StatementPrinter):
    """Prints loops as they are, with one index an axis; `kept` are the locals that are too large for a stack."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.small = set()  # no casts in comparisons of integers
        self.keyed = set()
        self.moved = parameters_of(kernel)
        self.locals = [s for s in statements(self.nodes) if isinstance(s, Local)]
        self.kept = {s.name for s in self.locals if prod(_extents(s.shape)) * SIZES[COMPUTE[s.type]] > STACK}

    def declared(self, local: Local) -> str:
        """`float l0[8]`."""
        return f"{local_element(local.type)} {local.name}" + "".join(f"[{n}]" for n in _extents(local.shape))

    def parameters(self) -> None:
        """Loads, before the nest, the integers that are the same in all of it."""
        for s in live_statements(self.kernel):
            if isinstance(s, Loop):
                self.affine[s.var] = Affine()  # of a loop of one iteration, for nothing else is moved here
            elif isinstance(s, Index):
                self.affine[s.dest] = s.expression
            elif isinstance(s, Load) and s.dest in self.moved:
                self.line(f"const int64_t {s.dest} = {self.access(s.array, s.index)};")
        self.affine = {}

    def run(self, run: Sequence[Statement]) -> None:
        """Straight statements, but for what is loaded before the nest."""
        super().run([s for s in run if not (isinstance(s, Load) and s.dest in self.moved)])

    def operation(self, op: str, type_: str, args: list[Expression], sources: list[str]) -> Expression:
        """A selection is a function: both of its values are there, whatever the condition is."""
        if op == "select":
            return f"presk_select_{type_}({', '.join(a for a, _ in args)})", PRIMARY
        return super().operation(op, type_, args, sources)

    def access(self, array: str, index: tuple[Affine, ...]) -> str:
        """`a0[i0][i2 + 16]`."""
        return array + ("".join(f"[{affine_text(self.resolved(e))[0]}]" for e in index) or "[0]")

    def nest(self, nest: Nest) -> None:
        """The loop; the lanes of a long sum are loops of their own."""
        var, extent = nest.loop.var, self.resolved(nest.loop.extent)
        lanes = [s.acc for s in nest.body if isinstance(s, Fold) and self.accs[s.acc].kind == "lanes"]
        if not lanes:
            with self.braces(f"for (ptrdiff_t {var} = 0; {_below(Affine.var(var), extent)}; {var}++)"):
                self.body(nest.body)
            return
        block, lane = self.aux(var, "0"), self.aux(var, "1")
        self.lane.update(dict.fromkeys(lanes, lane))
        index = Affine.var(block) * LANES + Affine.var(lane)
        each_lane = f"for (ptrdiff_t {lane} = 0; {lane} < {LANES}; {lane}++)"
        if not extent.is_const:
            each_block = f"for (ptrdiff_t {block} = 0; {_below(Affine.var(block) * LANES, extent)}; {block}++)"
            inside = f"if ({_below(index, extent)})"
            with self.braces(each_block), self.braces(each_lane), self.braces(inside):
                self._lane_body(nest, index)
            return
        blocks, rest = divmod(extent.const, LANES)
        if blocks:
            with self.braces(f"for (ptrdiff_t {block} = 0; {block} < {blocks}; {block}++)"), self.braces(each_lane):
                self._lane_body(nest, index)
        if rest:
            with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {rest}; {lane}++)"):
                self._lane_body(nest, Affine.var(lane) + blocks * LANES)

    def _lane_body(self, nest: Nest, index: Affine) -> None:
        self.affine[nest.loop.var] = index
        self.body(nest.body)
        del self.affine[nest.loop.var]

    def act(self, s: Statement) -> None:
        """A local where it is in scope, unless it stands at the top of the function; the rest as ever."""
        if not isinstance(s, Local):
            super().act(s)
        elif s.name not in self.kept:
            self.line(f"{self.declared(s)};")

    def begin(self, acc: Acc) -> None:
        """Lanes are set to zero by a loop; a maximum is a key."""
        if acc.kind != "lanes":
            super().begin(acc)
            return
        sums, lane = self.aux(acc.dest, "lanes"), self.aux(acc.dest, "lane")
        self.line(f"{COMPUTED[acc.type]} {sums}[{LANES}];")
        with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {LANES}; {lane}++)"):
            self.line(f"{sums}[{lane}] = 0;")
        if acc.dest not in self.folded:
            self.finish(acc)

    def fold(self, acc: Acc, value: str) -> None:
        """A maximum compares by a function; an argmax selects by one condition."""
        text, name = self.value(value)[0], acc.dest
        if acc.kind == "max" and acc.type == "i64":
            self.line(f"{name} = presk_larger_i64({name}, {text});")
        elif acc.kind == "max":
            key, bits = self.aux(name, "key"), KEYS[acc.type].removeprefix("int").removesuffix("_t")
            self.line(f"{key} = presk_larger_i{bits}({key}, presk_key_{acc.type}({text}));")
        elif acc.kind == "argmax":
            key, new, is_more = self.aux(name, "key"), self.aux(name, "new"), self.aux(name, "is_more")
            with self.braces(""):
                self.line(f"const {KEYS[acc.type]} {new} = presk_key_{acc.type}({text});")
                self.line(f"const int {is_more} = {new} > {key};")
                self.line(f"{key} = {is_more} ? {new} : {key};")
                self.line(f"{name} = {is_more} ? {self.counted(acc)} : {name};")
        else:
            super().fold(acc, value)

    def finish(self, acc: Acc) -> None:
        """Halves of the lanes are added by affine loops."""
        if acc.kind != "lanes":
            super().finish(acc)
            return
        sums, lane, width = self.aux(acc.dest, "lanes"), self.aux(acc.dest, "lane"), LANES // 2
        while width > 1:
            with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {width}; {lane}++)"):
                self.line(f"{sums}[{lane}] += {sums}[{lane} + {width}];")
            width //= 2
        self.line(f"const {COMPUTED[acc.type]} {acc.dest} = {sums}[0] + {sums}[1];")
        self.text[acc.dest] = (acc.dest, PRIMARY)
