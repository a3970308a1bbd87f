"""random_kernel: legal kernels that cover the grammar, and arguments full of special values."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    Acc,
    Array,
    End,
    ExtentParameter,
    Fold,
    Kernel,
    Load,
    Local,
    Loop,
    LoopKind,
    Op,
    ScalarParameter,
    Store,
)
from presk_db.kernels.types import COMPUTE
from presk_db.native.numbers import STORAGE
from tests.kernels.random_values import SPECIALS, Level, Values, WrittenLocal

EXTENTS = (0, 1, 2, 3, 5, 7, 31, 32, 33, 65, 70)
MOST = 1500  # iterations of all loops around a statement together

Data = list[np.ndarray[Any, np.dtype[Any]]]


def random_kernel(r: random.Random, functions: bool = True) -> Kernel:
    """A checked-looking kernel; the caller checks it."""
    maker = _Maker(r, functions)
    for _ in range(r.randint(1, 2)):
        maker.loop("par")
    if r.random() < 0.2:
        maker.straight(3)
        maker.store()
    return Kernel(tuple(maker.parameters), tuple(maker.statements))


def random_arguments(r: random.Random, kernel: Kernel) -> tuple[Data, dict[str, float | int]]:
    """Arrays with zeros, infinities, NaNs and subnormals among ordinary numbers, and the numbers."""
    rng = np.random.default_rng(r.randrange(2**32))
    special = r.choice((0.0, 0.02, 0.3))
    arrays: Data = []
    for p in kernel.arrays:
        n = int(np.prod(p.shape))
        arrays.append(_elements(rng, p, n, special))
    scalars: dict[str, float | int] = {}
    for q in kernel.parameters:
        if isinstance(q, ScalarParameter):
            scalars[q.name] = r.choice((0.1, -0.0, 1e300, 3.0))
        elif isinstance(q, ExtentParameter):
            scalars[q.name] = r.randint(0, q.bound)
    return arrays, scalars


def _elements(rng: np.random.Generator, p: Array, n: int, special: float) -> np.ndarray[Any, np.dtype[Any]]:
    if p.type == "bool":
        return rng.integers(0, 2, n, dtype=np.uint8)
    if p.type == "i64":
        if p.limit is None:
            return rng.integers(-(2**63), 2**63 - 1, n, dtype=np.int64) >> rng.integers(0, 63, n)
        return rng.integers(0, max(p.limit, 1), n, dtype=np.int64)
    type_ = "f64" if p.type == "f64" else "f32"
    values = (rng.standard_normal(n) * 2.0 ** rng.integers(-3, 4, n)).astype(STORAGE[type_])
    chosen = rng.random(n) < special
    values[chosen] = rng.choice(np.array(SPECIALS[type_], STORAGE[type_]), int(chosen.sum()))
    return (values.view(np.uint32) >> 16).astype(np.uint16) if p.type == "bf16" else values


class _Maker(Values):
    """The loops, and what is stored in them."""

    def store(self) -> None:
        """Stores a value into a new output, at an index that no two iterations share."""
        type_ = self.r.choice(("f32", "f32", "f64", "i64", "bool"))
        value = self.value(type_)
        index, shape = [], []
        loops = self.r.sample(self.loops, len(self.loops)) if self.r.random() < 0.3 else self.loops
        for var, _, bound in loops:
            factor, offset = self.r.choice(((1, 0), (1, 0), (1, 0), (2, 1), (-1, bound - 1)))
            if bound == 0:
                factor, offset = 1, 0
            index.append(Affine.of([(var, factor)], offset))
            shape.append(abs(factor) * max(bound - 1, 0) + 1 + (offset if factor > 0 else 0))
        if int(np.prod(shape)) > 200_000:
            return
        stored = self.r.choice(("f32", "f32", "bf16")) if type_ == "f32" else type_
        array = Array(self.name("a"), "out", stored, tuple(shape))
        self.parameters.append(array)
        self.statements.append(Store(array.name, tuple(index), value))

    def times(self) -> int:
        n = 1
        for _, _, bound in self.loops:
            n *= max(bound, 1)
        return n

    def extent(self) -> Affine:
        fits = [n for n in EXTENTS if n * self.times() <= MOST]
        outer = [v for v in self.integers() if self.ranges[v][0] >= 0 and self.ranges[v][1] * self.times() < MOST]
        if outer and self.r.random() < 0.3:
            return Affine.var(self.r.choice(outer)) + self.r.choice((0, 1))
        if self.r.random() < 0.1:
            bound = self.r.choice(fits)
            name = self.name("n")
            self.parameters.append(ExtentParameter(name, bound))
            self.ranges[name] = (0, bound)
            self.levels[0].integers.append(name)
            return Affine.var(name)
        return Affine((), self.r.choice(fits[1:] if len(fits) > 1 and self.r.random() < 0.9 else fits))

    def open(self, kind: LoopKind, extent: Affine | None = None) -> str:
        extent = self.extent() if extent is None else extent
        var = self.name("i")
        bound = max(extent.range(self.ranges)[1], 0)
        self.statements.append(Loop(kind, var, extent))
        self.loops.append((var, kind, bound))
        self.ranges[var] = (0, max(bound - 1, 0))
        self.levels.append(Level(integers=[var]))
        return var

    def close(self) -> None:
        self.statements.append(End())
        self.loops.pop()
        self.levels.pop()

    def loop(self, kind: LoopKind) -> None:
        """A loop with a random body that stores something."""
        self.open(kind)
        actions: list[tuple[float, Callable[[], None]]] = [
            (3, lambda: self.straight(3)), (1.5, self.store), (2, self.reduction), (1, self.product), (0.7, self.fill),
            (0.5, self.carried), (0.6, lambda: self.loop("seq")),
        ]  # fmt: skip
        if kind == "par":
            actions.append((2, lambda: self.loop("par")))
        weights = [w for w, _ in actions]
        for _ in range(self.r.randint(1, 4)):
            if len(self.statements) < 90 and len(self.loops) < 5:
                self.r.choices([a for _, a in actions], weights)[0]()
        self.store()
        self.close()

    def accumulators(self, count: int) -> list[Acc]:
        accs = []
        for _ in range(count):
            kind = self.r.choice(("sum", "lanes", "max", "argmax"))
            type_ = self.r.choice(("f32", "f32", "f64", "i64") if kind in ("sum", "max") else ("f32", "f64"))
            accs.append(Acc(self.name("v"), type_, kind))
        self.statements.extend(accs)
        return accs

    def readable(self, accs: list[Acc]) -> None:
        for acc in accs:
            self.define("i64" if acc.kind == "argmax" else acc.type, acc.dest)

    def fold(self, accs: list[Acc]) -> None:
        for acc in accs:
            for _ in range(self.r.choice((1, 1, 1, 1, 2))):
                self.statements.append(Fold(acc.dest, self.value(acc.type)))

    def reduction(self) -> None:
        accs = self.accumulators(self.r.choice((1, 1, 2, 3)))
        self.open("seq")
        self.straight(3)
        if self.r.random() < 0.25 and len(self.loops) < 4:
            self.reduction()
        if self.r.random() < 0.3:
            self.store()
        if self.r.random() < 0.25:
            outer = [a for a in accs if a.kind in ("sum", "max")]
            self.open("seq")
            self.straight(2)
            self.fold(outer)
            self.close()
            accs_here = [a for a in accs if a not in outer]
        else:
            accs_here = accs
        self.fold(accs_here)
        self.close()
        self.readable(accs)

    def product(self) -> None:
        """Some sums of products, and what is made of them."""
        type_ = self.r.choice(("f32", "f32", "f64"))
        for _ in range(self.r.choice((1, 1, 2))):
            acc = Acc(self.name("v"), type_, "sum")
            self.statements.append(acc)
            self.open("seq")
            product = self.name("v")
            self.statements.append(Op(product, "mul", type_, (self.load(type_), self.load(type_))))
            self.statements.append(Fold(acc.dest, product))
            self.close()
            self.readable([acc])
        self.straight(2)

    def fill(self) -> None:
        """A local, written in a loop of its own."""
        type_ = self.r.choice(("f32", "f64", "bf16", "i64", "bool"))
        extent = self.extent()
        bound = max(extent.range(self.ranges)[1], 0)
        local = Local(self.name("l"), type_, (bound,))
        self.statements.append(local)
        seq_outside = any(kind == "seq" for _, kind, _ in self.loops)
        var = self.open("seq" if seq_outside or self.r.random() < 0.6 else "par", extent)
        self.straight(2)
        self.statements.append(Store(local.name, (Affine.var(var),), self.value(COMPUTE[type_])))
        self.close()
        self.levels[-1].locals.append(WrittenLocal(local, extent))

    def carried(self) -> None:
        """A loop whose iterations hand a value on through a local, one place further or at the same place."""
        type_ = self.r.choice(("f32", "f64"))
        extent = self.r.choice([n for n in EXTENTS if n * self.times() <= MOST])
        local = Local(self.name("l"), type_, (extent + 1,))
        first = self.value(type_)
        self.statements += [local, Store(local.name, (Affine(),), first)]
        var = self.open("seq", Affine((), extent))
        before, after = self.name("v"), self.name("v")
        step = self.r.choice((0, 1))
        self.statements.append(Load(before, local.name, (Affine.of([(var, step)]),)))
        self.define(type_, before)
        self.statements.append(Op(after, self.r.choice(("add", "mul", "max")), type_, (before, self.value(type_))))
        self.statements.append(Store(local.name, (Affine.of([(var, step)], step),), after))
        self.store()
        self.close()
        self.levels[-1].locals.append(WrittenLocal(local, Affine((), 1)))
