"""Values: a random kernel under construction, its parameters and values; SPECIALS: numbers that go wrong easily."""

import random
from dataclasses import dataclass, field

import numpy as np

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LOGIC,
    Array,
    Const,
    Index,
    Load,
    Local,
    Loop,
    LoopKind,
    Op,
    Parameter,
    Scalar,
    ScalarParameter,
    Statement,
    literal,
)
from presk_db.kernels.types import COMPUTE
from presk_db.native.numbers import STORAGE

SPECIALS = {
    "f32": (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, -3.4028235e38, 1.0, -1.0),
    "f64": (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, 1.7976931348623157e308, -1e308, 1.0, 0.1),
}


@dataclass
class WrittenLocal:
    """A local of which the elements up to `extent` are written."""

    statement: Local
    extent: Affine


@dataclass
class Level:
    """One open loop, or the top: its values by type, loops, locals."""

    values: dict[str, list[str]] = field(default_factory=lambda: {t: [] for t in ("f32", "f64", "i64", "bool")})
    integers: list[str] = field(default_factory=list)
    locals: list[WrittenLocal] = field(default_factory=list)


@dataclass
class Values:
    """A kernel under construction: its statements so far, and random values in them."""

    r: random.Random
    functions: bool
    parameters: list[Parameter] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    levels: list[Level] = field(default_factory=lambda: [Level()])
    loops: list[tuple[str, LoopKind, int]] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    count: int = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def define(self, type_: str, name: str) -> str:
        self.levels[-1].values[type_].append(name)
        return name

    def visible(self, type_: str) -> list[str]:
        return [v for level in self.levels for v in level.values[type_]]

    def integers(self) -> list[str]:
        return [v for level in self.levels for v in level.integers]

    def value(self, type_: str) -> str:
        """A value of the type: one that there is, or a new one."""
        there = self.visible(type_)
        if there and self.r.random() < 0.7:
            return self.r.choice(there[-6:])
        return self.new(type_)

    def new(self, type_: str) -> str:
        kind = self.r.random()
        if (type_ in ("f32", "f64") and kind < 0.15) or (type_ == "bool" and kind < 0.1):
            return self.const(type_)
        if type_ == "f64" and kind < 0.25:
            return self.scalar()
        if type_ == "i64" and kind < 0.4:
            return self.index()
        return self.load(type_)

    def const(self, type_: str) -> str:
        name = self.name("v")
        if type_ == "bool":
            text = self.r.choice("01")
        elif type_ == "i64":
            text = str(self.r.choice((0, -1, 7, 2**40, -(2**63), 2**63 - 1)))
        else:
            special = self.r.random() < 0.3
            x = self.r.choice(SPECIALS[type_]) if special else float(np.float32(self.r.gauss(0, 2)))
            text = literal(float(STORAGE[type_].type(x)), type_)
        self.statements.append(Const(name, type_, text))
        return self.define(type_, name)

    def scalar(self) -> str:
        scalars = [p.name for p in self.parameters if isinstance(p, ScalarParameter)]
        if not scalars:
            scalars = [self.name("s")]
            self.parameters.append(ScalarParameter(scalars[0]))
        name = self.name("v")
        self.statements.append(Scalar(name, scalars[0]))
        return self.define("f64", name)

    def index(self) -> str:
        e = self.affine()
        name = self.name("v")
        self.statements.append(Index(name, e))
        self.ranges[name] = e.range(self.ranges)
        self.levels[-1].integers.append(name)
        return self.define("i64", name)

    def affine(self) -> Affine:
        names = self.r.sample(self.integers(), min(len(self.integers()), self.r.randint(0, 2)))
        return Affine.of([(n, self.r.choice((-2, -1, 1, 1, 1, 3))) for n in names], self.r.randint(-2, 2))

    def load(self, type_: str) -> str:
        there = [x for level in self.levels for x in level.locals if x.statement.type == type_]
        if there and self.r.random() < 0.6 and self.load_local(self.r.choice(there)):
            return self.visible(type_)[-1]
        index, shape = [], []
        for _ in range(self.r.randint(0, 3)):
            e = self.affine()
            low, high = e.range(self.ranges)
            index.append(e + -low)
            shape.append(high - low + 1 + self.r.choice((0, 0, 2)))
        if int(np.prod(shape)) > 200_000:
            index, shape = [], []
        stored = self.r.choice(("f32", "bf16")) if type_ == "f32" else type_
        limit = self.r.choice((None, 1, 4)) if type_ == "i64" else None
        array = Array(self.name("a"), "in", stored, tuple(shape), limit)
        self.parameters.append(array)
        name = self.name("v")
        self.statements.append(Load(name, array.name, tuple(index)))
        if limit is not None:
            self.ranges[name] = (0, limit - 1)
            self.levels[-1].integers.append(name)
        return self.define(type_, name)

    def load_local(self, there: WrittenLocal) -> bool:
        """Loads an element that is written, if one is certain."""
        names = [v for v in self.integers() if v.startswith("i")]
        for var in names[::-1]:
            loops = [s for s in self.statements if isinstance(s, Loop) and s.var == var]
            if loops and loops[0].extent == there.extent:
                index: Affine | None = Affine.var(var)
                break
        else:
            index = Affine() if there.extent.is_const and there.extent.const else None
        if index is None:
            return False
        name = self.name("v")
        self.statements.append(Load(name, there.statement.name, (index,)))
        self.define(COMPUTE[there.statement.type], name)
        return True

    def op(self) -> str:
        r, name = self.r, ""
        choice = r.random()
        if choice < 0.5:
            type_ = r.choice(("f32", "f32", "f64", "i64"))
            ops = [o for o in ARITHMETIC if type_ != "i64" or o in ("add", "sub", "mul", "neg", "max", "min")]
            op = r.choice(ops)
            args = [self.value(type_) for _ in range(ARITHMETIC[op])]
            result = type_
        elif choice < 0.6 and self.functions:
            type_, op = r.choice(("f32", "f32", "f32", "f64")), r.choice(FUNCTIONS)
            args, result = [self.value(type_)], type_
        elif choice < 0.7:
            type_, op = r.choice(("f32", "f64", "i64")), r.choice(COMPARISONS)
            args, result = [self.value(type_), self.value(type_)], "bool"
        elif choice < 0.75:
            type_, op = "bool", r.choice(sorted(LOGIC))
            args, result = [self.value("bool") for _ in range(LOGIC[op])], "bool"
        elif choice < 0.85:
            type_, op = r.choice(("f32", "f64", "i64", "bool")), "select"
            args, result = [self.value("bool"), self.value(type_), self.value(type_)], type_
        else:
            type_, op = r.choice(("f32", "f64", "i64")), "cvt"
            source = r.choice([t for t in ("f32", "f64", "i64", "bool") if t != type_])
            args, result = [self.value(source)], type_
        name = self.name("v")
        self.statements.append(Op(name, op, type_, tuple(args)))
        return self.define(result, name)

    def straight(self, most: int) -> None:
        for _ in range(self.r.randint(1, most)):
            self.op()
