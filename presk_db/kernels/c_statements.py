"""StatementPrinter: straight-line statements of a kernel as C lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from presk_db.kernels.affine import Affine
from presk_db.kernels.c_text import (
    CHOICE,
    COMPUTED,
    KEYS,
    NAMED_OPERANDS,
    PRIMARY,
    UNARY,
    Expression,
    affine_text,
    constant_text,
    grouped,
    local_element,
    operation_text,
)
from presk_db.kernels.ir import (
    COMPARISONS,
    LANES,
    Acc,
    Const,
    End,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Op,
    Routine,
    Scalar,
    Statement,
    Store,
)
from presk_db.kernels.liveness import affine_names, live_tree, operands
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address, name_ranges, value_types
from presk_db.kernels.routines import ROUTINES, arguments_of, extents
from presk_db.kernels.tree import Nest, nests, statements

_LINE = 88  # an expression longer than this gets a name

LOWEST_KEYS = {
    "f32": "INT32_C(-0x7f800001)",
    "f64": "INT64_C(-0x7ff0000000000001)",
    "i64": "INT64_MIN",
}
"""The key of −inf: the maximum over nothing."""


class StatementPrinter:
    """The lines so far, and what stands for each name.

    `text` is the C expression of a value, `affine` the integer that a loop variable or index value stands for, `place`
    the element that a value is assigned to instead of being declared, `lane` the lane that an accumulator adds to,
    `scratch` where a local lies that is no array on the stack, `rounded` the locals of bf16: floats in C.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.nodes = live_tree(kernel)
        self.types = value_types(kernel)
        self.shapes = array_shapes(kernel)
        self.bounds = extent_bounds(kernel)
        self.stored = {a.name: a.type for a in kernel.arrays}
        self.rounded: set[str] = set()
        self.accs: dict[str, Acc] = {}
        self.folded: set[str] = set()
        self.uses: Counter[str] = Counter()
        self.small = {n for n, (low, high) in name_ranges(kernel).items() if low >= -(2**31) and high < 2**31}
        self.taken = {p.name for p in kernel.parameters} | set(self.types) | set(self.shapes)
        for s in statements(self.nodes):
            self.uses.update(operands(s))
            if isinstance(s, Acc):
                self.accs[s.dest] = s
            elif isinstance(s, Fold):
                self.folded.add(s.acc)
            elif isinstance(s, Local):
                self.stored[s.name] = s.type
                if s.type == "bf16":
                    self.rounded.add(s.name)
            self.uses.update(2 * affine_names(s, self.shapes))  # in a subscript a value has a name
        self.taken.update(nest.loop.var for nest in nests(self.nodes))
        self.uses.update(n for nest in nests(self.nodes) for n in 2 * nest.loop.extent.names)
        self.keyed = {
            s.acc
            for nest in nests(self.nodes)
            if not any(isinstance(n, Nest) for n in nest.body)
            for s in nest.body
            if isinstance(s, Fold)
            if self.accs[s.acc].kind == "max" and self.accs[s.acc].type != "i64"
        }
        self.counters = {s.acc: nest.loop.var for nest in nests(self.nodes) for s in nest.body if isinstance(s, Fold)}
        for s in statements(self.nodes):
            if isinstance(s, Index):  # its expression stands in subscripts
                self.uses[s.dest] = sum(operands(t).count(s.dest) for t in statements(self.nodes))
        self.text: dict[str, Expression] = {}
        self.affine: dict[str, Affine] = {}
        self.place: dict[str, str] = {}
        self.lane: dict[str, str] = {}
        self.extra: dict[tuple[str, str], str] = {}
        self.scratch: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        """Appends one line at the present depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """`head {` … `}` around what is printed inside."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def aux(self, name: str, suffix: str) -> str:
        """The helper variable `name_suffix`, under a name that the kernel does not use."""
        if (name, suffix) not in self.extra:
            free = f"{name}_{suffix}"
            while free in self.taken:
                free += "_"
            self.taken.add(free)
            self.extra[name, suffix] = free
        return self.extra[name, suffix]

    def resolved(self, e: Affine) -> Affine:
        """`e` in C's variables."""
        total = Affine((), e.const)
        for name, c in e.terms:
            found = self.affine.get(name)
            total = total + (Affine.var(name) if found is None else self.resolved(found)) * c
        return total

    def constants(self) -> None:
        """Declares the constants, with the decimal beside where the literal is hexadecimal."""
        for s in statements(self.nodes):
            if isinstance(s, Const):
                text, decimal = constant_text(s.type, s.literal)
                beside = f" /* {decimal} */" if decimal else ""
                self.line(f"const {COMPUTED[s.type]} {s.dest} = {text};{beside}")

    def print_body(self) -> None:
        """Prints the function's statements between its braces, below the constants."""
        raise NotImplementedError

    def body(self, nodes: Sequence[Statement | Nest]) -> None:
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
            self.nest(node)
            if node.loop.kind == "seq":
                for acc in opened:
                    if acc.dest in self.folded:
                        self.finish(acc)
                opened = []
        self.run(run)

    def nest(self, nest: Nest) -> None:
        """Prints a loop and what it holds."""
        raise NotImplementedError

    def operation(self, op: str, type_: str, args: list[Expression], sources: list[str]) -> Expression:
        """An operation's expression."""
        return operation_text(op, type_, args, sources)

    def value(self, name: str) -> Expression:
        """The expression that stands for a value."""
        return self.text.get(name, (name, PRIMARY))

    def access(self, array: str, index: tuple[Affine, ...]) -> str:
        """`a0[384 * i0 + i2]`."""
        return f"{array}[{affine_text(self.resolved(flat_address(self.shapes[array], index)))[0]}]"

    def run(self, run: Sequence[Statement]) -> None:
        """Straight statements in order; a value that is used once, by one of them, stands in its place."""
        stored = {s.array for s in run if isinstance(s, Store)}
        user = {v: s for s in run for v in operands(s)}
        for s in run:
            match s:
                case Load(dest, array, index):
                    text = self.access(array, index)
                    if self.stored[array] == "bf16" and array not in self.rounded:
                        text = f"presk_f32_from_bf16({text})"
                    self._define(dest, (text, PRIMARY), user.get(dest), array not in stored)
                case Op(dest, op, type_, args):
                    sources = [self.types[a] for a in args]
                    given = [self.value(a) for a in args]
                    if op in COMPARISONS and type_ == "i64" and all(a in self.small for a in args):
                        given = [(f"(int32_t){grouped(text, UNARY)}", UNARY) for text in given]
                    expression = self.operation(op, type_, given, sources)
                    self._define(dest, expression, user.get(dest), True)
                case Index(dest, e):
                    self.affine[dest] = e
                    if self.uses[dest]:
                        self._define(dest, affine_text(self.resolved(e)), user.get(dest), True)
                case Scalar(dest, scalar):
                    self.text[dest] = (scalar, PRIMARY)
                case Const():
                    pass  # declared at the top of the function
                case _:
                    self.act(s)

    def _define(self, dest: str, expression: Expression, user: Statement | None, may_move: bool) -> None:
        self.text.pop(dest, None)
        needs_name = isinstance(user, Op) and user.op in NAMED_OPERANDS
        needs_name |= isinstance(user, Fold) and self.accs[user.acc].kind == "max" and self.types[dest] == "i64"
        short = len(expression[0]) <= _LINE and not (expression[1] == CHOICE and isinstance(user, Op))
        if dest in self.place:
            self.text[dest] = (self.place[dest], PRIMARY)
            self.line(f"{self.place[dest]} = {expression[0]};")
        elif self.uses[dest] == 1 and user is not None and may_move and short and not needs_name:
            self.text[dest] = expression
        else:
            self.line(f"const {COMPUTED[self.types[dest]]} {dest} = {expression[0]};")

    def act(self, s: Statement) -> None:
        """Prints a statement that defines no value."""
        match s:
            case Store(array, index, value):
                expression = self.value(value)
                text = expression[0]
                if self.stored[array] == "bf16":
                    text = f"presk_bf16_from_f32({text})"
                    text = f"presk_f32_from_bf16({text})" if array in self.rounded else text
                elif self.stored[array] == "bool":
                    text = f"(uint8_t){grouped(expression, UNARY)}"
                self.line(f"{self.access(array, index)} = {text};")
            case Local(name, type_, shape):
                size = 1
                for n in shape:
                    size *= n
                element = local_element(type_)
                if name in self.scratch:
                    self.line(f"{element} *const restrict {name} = ({element} *)(void *)({self.scratch[name]});")
                else:
                    self.line(f"{element} {name}[{max(size, 1)}];")
            case Acc():
                self.begin(s)
            case Fold(acc, value):
                self.fold(self.accs[acc], value)
            case Routine():
                self.routine(s)
            case _:
                assert not isinstance(s, (Loop, End)), "loops are nests here"

    def routine(self, s: Routine) -> None:
        """Calls a routine: its arguments, then the extents of its arrays."""
        given = arguments_of(self.kernel, s)
        slots = zip(ROUTINES[s.name], given, strict=True)
        type_ = next((f"_{g.type}" for slot, g in slots if len(slot.types) > 1), "")
        sizes = extents(s.name, given).values()
        self.line(
            f"presk_routine_{s.name}{type_}({', '.join([*(self.value(a)[0] for a in s.args), *map(str, sizes)])});"
        )

    def begin(self, acc: Acc) -> None:
        """Declares an accumulator's state."""
        type_ = COMPUTED[acc.type]
        match acc.kind:
            case "sum":
                self.line(f"{type_} {acc.dest} = 0;")
            case "lanes":
                self.line(f"{type_} {self.aux(acc.dest, 'lanes')}[{LANES}] = {{0}};")
            case "max" if acc.type == "i64":
                self.line(f"int64_t {acc.dest} = {LOWEST_KEYS['i64']};")
            case "max" if acc.dest in self.keyed:
                keys, lane = self.aux(acc.dest, "keys"), self.aux(acc.dest, "lane")
                self.line(f"{KEYS[acc.type]} {keys}[{LANES}];")
                with self.braces(f"for (ptrdiff_t {lane} = 0; {lane} < {LANES}; {lane}++)"):
                    self.line(f"{keys}[{lane}] = {LOWEST_KEYS[acc.type]};")
            case "max":
                self.line(f"{KEYS[acc.type]} {self.aux(acc.dest, 'key')} = {LOWEST_KEYS[acc.type]};")
            case "argmax":
                lowest = "INT32_MIN" if acc.type == "f32" else "INT64_MIN"
                self.line(f"int64_t {acc.dest} = 0;")
                if acc.dest in self.folded:
                    self.line(f"{KEYS[acc.type]} {self.aux(acc.dest, 'key')} = {lowest};")
        if acc.dest not in self.folded:
            self.finish(acc)

    def fold(self, acc: Acc, value: str) -> None:
        """One step of an accumulator."""
        name, (text, _) = acc.dest, self.value(value)
        if acc.kind == "lanes":
            self.line(f"{self.aux(name, 'lanes')}[{self.lane[name]}] += {text};")
        elif acc.kind == "sum":
            name = self.place.get(name, name)
            self.line(f"{name} = presk_add_i64({name}, {text});" if acc.type == "i64" else f"{name} += {text};")
            self.text[acc.dest] = (name, PRIMARY)
        elif acc.type == "i64":
            self.line(f"{name} = {text} > {name} ? {text} : {name};")
        else:
            key, new = self.aux(name, "key"), self.aux(name, "new")
            if name in self.keyed:
                key = f"{self.aux(name, 'keys')}[{self.lane[name]}]"
            with self.braces(""):
                self.line(f"const {KEYS[acc.type]} {new} = presk_key_{acc.type}({text});")
                if acc.kind == "max":
                    self.line(f"{key} = {new} > {key} ? {new} : {key};")
                else:
                    with self.braces(f"if ({new} > {key})"):
                        self.line(f"{key} = {new};")
                        self.line(f"{name} = {self.counted(acc)};")

    def counted(self, acc: Acc) -> str:
        """The iteration of the loop that folds into an argmax."""
        return affine_text(self.resolved(Affine.var(self.counters[acc.dest])))[0]

    def finish(self, acc: Acc) -> None:
        """Turns an accumulator's state into its value."""
        name = acc.dest
        if acc.kind == "lanes":
            self.line(f"const {COMPUTED[acc.type]} {name} = presk_lanes_{acc.type}({self.aux(name, 'lanes')});")
        elif name in self.keyed:
            largest = f"presk_largest_{acc.type}({self.aux(name, 'keys')})"
            self.line(f"const {COMPUTED[acc.type]} {name} = presk_{acc.type}_from_key({largest});")
        elif acc.kind == "max" and acc.type != "i64":
            self.line(f"const {COMPUTED[acc.type]} {name} = presk_{acc.type}_from_key({self.aux(name, 'key')});")
