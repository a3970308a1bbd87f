"""Builds a kernel's statements: scopes that hoist what does not depend on inner loops, and names in order."""

from collections.abc import Callable
from dataclasses import dataclass, field

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    Acc,
    AccKind,
    Array,
    Const,
    End,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    LoopKind,
    Op,
    Routine,
    Statement,
    Store,
)
from presk_db.lowering.flat import Value


@dataclass
class Level:
    """One open loop, or the top: what it defines and its statements so far."""

    loop: Loop | None
    names: set[str] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)
    memo: dict[object, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Argument:
    """What an array parameter stands for: a value's memory, under the shape that the kernel sees."""

    value: Value
    shape: tuple[int, ...]


class Builder:
    """Statements under construction. Every statement goes to the outermost open loop that has all that it uses."""

    def __init__(self) -> None:
        self.levels = [Level(None)]
        self.arrays: dict[tuple[int, tuple[int, ...]], Array] = {}
        self.arguments: list[Argument] = []
        self.types: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.loops = self.values = self.locals = 0

    def open(self, kind: LoopKind, extent: int, limit: Affine | None = None) -> Affine:
        """Opens a loop up to the extent, or to a limit of the run that is at most the extent; returns its variable."""
        name = f"i{self.loops}"
        self.loops += 1
        self.levels.append(Level(Loop(kind, name, limit or Affine((), extent)), {name}))
        self.ranges[name] = (0, max(extent - 1, 0))
        return Affine.var(name)

    def close(self) -> None:
        """Closes the innermost loop."""
        level = self.levels.pop()
        assert level.loop is not None
        self.levels[-1].statements += [level.loop, *level.statements, End()]

    def level_of(self, names: tuple[str, ...]) -> Level:
        """The outermost level at which all these names are visible."""
        deepest = 0
        for depth, level in enumerate(self.levels):
            if any(n in level.names for n in names):
                deepest = depth
        return self.levels[deepest]

    def define(self, key: object, type_: str, names: tuple[str, ...], make: Callable[[str], Statement]) -> str:
        """The name of the statement `make(name)`, defined once for equal keys while it is visible."""
        level = self.level_of(names)
        if key in level.memo:
            return level.memo[key]
        name = self.fresh(type_, level)
        level.statements.append(make(name))
        level.memo[key] = name
        return name

    def fresh(self, type_: str, level: Level) -> str:
        """A new value's name, visible from this level on."""
        name = f"v{self.values}"
        self.values += 1
        self.types[name] = type_
        level.names.add(name)
        return name

    def const(self, type_: str, text: str) -> str:
        """A literal."""
        return self.define(("const", type_, text), type_, (), lambda name: Const(name, type_, text))

    def op(self, op: str, type_: str, *args: str) -> str:
        """An operation; comparisons give bool."""
        result = "bool" if op in ("lt", "le", "gt", "ge", "eq", "ne") else type_
        return self.define((op, type_, args), result, args, lambda name: Op(name, op, type_, args))

    def converted(self, name: str, type_: str) -> str:
        """The value in a compute type, converted if it has another."""
        return name if self.types[name] == type_ else self.op("cvt", type_, name)

    def index(self, expression: Affine) -> str:
        """An i64 from loop variables."""
        if expression.is_const:
            return self.const("i64", str(expression.const))
        return self.define(("index", expression), "i64", expression.names, lambda name: Index(name, expression))

    def array(self, value: Value, shape: tuple[int, ...], mode: str) -> Array:
        """The array parameter for a value's memory seen with this shape."""
        key = (value.id, shape)
        if key not in self.arrays:
            name = f"a{len(self.arrays)}"
            self.arrays[key] = Array(name, "out" if mode == "out" else "in", value.type, shape, value.limit)
            self.arguments.append(Argument(value, shape))
        return self.arrays[key]

    def load(self, array: Array, index: tuple[Affine, ...], type_: str) -> str:
        """An element of an array; an integer with a limit gets a range."""
        names = tuple(n for i in index for n in i.names)
        name = self.define(("load", array.name, index), type_, names, lambda name: Load(name, array.name, index))
        if array.limit is not None:
            self.ranges[name] = (0, max(array.limit - 1, 0))
        return name

    def store(self, array: Array, index: tuple[Affine, ...], value: str) -> None:
        """Writes an element, here."""
        self.levels[-1].statements.append(Store(array.name, index, value))

    def local(self, type_: str, shape: tuple[int, ...]) -> str:
        """A scratch array of the innermost open loop."""
        name = f"l{self.locals}"
        self.locals += 1
        self.levels[-1].names.add(name)
        self.levels[-1].statements.append(Local(name, type_, shape))
        return name

    def take(self, local: str, at: Affine, type_: str) -> str:
        """An element of a local as it is now: loaded here, each time."""
        name = self.fresh(type_, self.levels[-1])
        self.levels[-1].statements.append(Load(name, local, (at,)))
        return name

    def put(self, local: str, at: Affine, value: str) -> None:
        """Writes an element of a local, here."""
        self.levels[-1].statements.append(Store(local, (at,), value))

    def run(self, name: str, args: tuple[str, ...]) -> None:
        """Runs a routine, here."""
        self.levels[-1].statements.append(Routine(name, args))

    def acc(self, type_: str, kind: AccKind) -> str:
        """An accumulator, defined here."""
        name = self.fresh("i64" if kind == "argmax" else type_, self.levels[-1])
        self.levels[-1].statements.append(Acc(name, type_, kind))
        return name

    def fold(self, acc: str, value: str) -> None:
        """One step of an accumulator, here."""
        self.levels[-1].statements.append(Fold(acc, value))

    def kernel(self) -> Kernel:
        """The finished kernel."""
        assert len(self.levels) == 1
        return Kernel(tuple(self.arrays.values()), tuple(self.levels[0].statements))
