"""A cluster's kernel at point zero: loops over its domain, in which `elements` computes each element by demand."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import AccKind, Kernel, literal
from presk_db.kernels.routines import ROUTINES, Given, extents
from presk_db.kernels.types import COMPUTE
from presk_db.language.primitives import REDUCTIONS
from presk_db.lowering.attention import Attention
from presk_db.lowering.builder import Argument
from presk_db.lowering.clusters import Cluster, Clustering
from presk_db.lowering.elements import Elements
from presk_db.lowering.flat import FlatEquation
from presk_db.lowering.tails import is_zero_before_row
from presk_db.lowering.views import Index, root_of

ACCUMULATORS: dict[str, AccKind] = {"reduce_sum": "lanes", "reduce_max": "max", "argmax": "argmax"}


@dataclass(frozen=True)
class Lowered:
    """A kernel and what its array parameters stand for, in order."""

    kernel: Kernel
    arguments: tuple[Argument, ...]


def lowered(cluster: Cluster, clustering: Clustering) -> Lowered:
    """The cluster's kernel."""
    nests = _Nests(cluster, clustering)
    {
        "elementwise": nests.elementwise,
        "row": nests.row,
        "product": nests.product,
        "concat": nests.concat,
        "scatter": nests.scatter,
        "put": nests.put,
        "routine": nests.routine,
        "attention": nests.attention,
    }[cluster.kind]()
    return Lowered(nests.builder.kernel(), tuple(nests.builder.arguments))


class _Nests(Elements):
    """The loops of each kind of cluster."""

    def elementwise(self) -> None:
        """One parallel nest over the domain."""
        index = self.open_all(self.cluster.shape, self.limits(self.outputs()))
        for e in self.outputs():
            self.store(e, index)
        self.close_all(self.cluster.shape)

    def row(self) -> None:
        """Parallel over rows: the reductions in order, then what is stored."""
        cluster, b = self.cluster, self.builder
        assert cluster.axis is not None
        axis, n = cluster.axis, cluster.shape[cluster.axis]
        kept = cluster.kept_shape()
        limits = self.limits([e for e in cluster.equations if e.op in REDUCTIONS], 0)
        rows = self.open_all(kept, limits)
        phases = [e for e in cluster.equations if e.op in REDUCTIONS]
        outputs = self.outputs()
        columns = [
            e for e in outputs if e.op not in REDUCTIONS and _domain(e) == cluster.shape and cluster.shape != kept
        ]
        self.plan_spills([*([p] for p in phases), columns])
        for e in phases:
            self.reduce(e, rows, axis, n, limits.get(axis))
        for e in outputs:
            if e not in columns:
                index = tuple(i for a, i in enumerate(rows) if a != axis)
                self.store(e, rows if len(_domain(e)) == len(rows) else index)
        if columns:
            index = self.with_axis(rows, axis, b.open("par", n, limits.get(axis)))
            for e in columns:
                self.store(e, index)
            b.close()
        self.close_all(kept)

    def reduce(self, e: FlatEquation, rows: Index, axis: int, n: int, limit: Affine | None) -> None:
        """One reduction of a row's n elements, or those up to a limit."""
        b, operand = self.builder, e.inputs[0]
        type_ = COMPUTE[operand.type if e.op == "argmax" else e.output.type]
        acc = b.acc(type_, ACCUMULATORS[e.op])
        i = b.open("seq", n, limit)
        index = self.with_axis(rows, axis, i if n != 1 else Affine())
        b.fold(acc, b.converted(self.demand(operand, index), type_))
        b.close()
        self.done[(e.output.id, tuple(i for a, i in enumerate(rows) if a != axis))] = acc
        for spill in self.spills.values():
            spill.filled = spill.filled or bool(spill.local)

    def attention(self) -> None:
        """Parallel over queries: the scores into a local, the row function, its result into another, the values' sum."""
        cluster, b = self.cluster, self.builder
        a = cluster.attention
        assert a is not None and cluster.axis is not None
        axis, keys = cluster.axis, cluster.shape[-1]
        rows = self.open_all(cluster.kept_shape())
        visible: Affine | None = None
        if a.seen is not None:
            visible, self.masks = rows[-2] + a.seen.behind + 1, a.seen.masks
        columns = [e for e in a.stored if e.output.shape == cluster.shape]
        scores = b.local(a.made.type, (keys,))
        key = b.open("par", keys, visible)
        index = self.with_axis(rows, axis, key)
        self.done[(a.scores.output.id, index)] = self.summed(a.scores, index)
        b.put(scores, key, b.converted(self.demand(a.made, index), COMPUTE[a.made.type]))
        b.close()
        self.kept[a.made.id] = scores
        self.plan_spills([*([p] for p in a.phases), [a.weights, *columns]])
        for e in a.phases:
            self.reduce(e, rows, axis, keys, visible)
        for e in a.stored:
            if e not in columns:
                self.store(e, rows if len(_domain(e)) == len(rows) else rows[:-1])
        weights = b.local(a.weights.output.type, (keys,))
        key = b.open("par", keys, visible)
        index = self.with_axis(rows, axis, key)
        weight = self.demand(a.weights.output, index)
        b.put(weights, key, b.converted(weight, COMPUTE[a.weights.output.type]))
        for e in columns:
            self.store(e, index)
        b.close()
        self.rest(a, columns, rows)
        self.kept[a.weights.output.id] = weights
        self.shape = a.values.output.shape
        index = self.with_axis(rows, axis, Affine() if self.shape[-1] == 1 else b.open("par", self.shape[-1]))
        self.done[(a.values.output.id, index)] = self.summed(a.values, index, visible)
        for output in a.results:
            self.store(output, index)
        if self.shape[-1] != 1:
            b.close()
        self.close_all(cluster.kept_shape())

    def rest(self, a: Attention, columns: list[FlatEquation], rows: Index) -> None:
        """What is stored of the keys that a query does not see, from the last one."""
        if a.seen is None or not columns:
            return
        b, keys = self.builder, self.cluster.shape[-1]
        hidden = b.open("par", keys, rows[-2] * -1 + (keys - a.seen.behind - 1))
        for e in columns:
            type_ = COMPUTE[e.output.type]
            number = b.const(type_, literal(dict(a.seen.rest)[e.output.id], type_))
            self.store_element(e.output, number, (*rows[:-1], hidden * -1 + (keys - 1)))
        b.close()

    def summed(self, e: FlatEquation, index: Index, limit: Affine | None = None) -> str:
        """The accumulator of a matmul's element: its products, up to a limit, in order.

        A row of the left factor that is 0 before the row's own number has no products there: see `tails`.
        """
        b = self.builder
        left, right = e.inputs
        type_ = COMPUTE[e.output.type]
        acc = b.acc(type_, "sum")
        k = b.open("seq", left.shape[-1], limit)
        x = b.converted(self.demand(left, (*index[:-1], k)), type_)
        y = b.converted(self.demand(right, (*index[:-2], k, index[-1])), type_)
        term = b.op("mul", type_, x, y)
        if is_zero_before_row(left, self.clustering.tails):
            seen = b.op("le", "i64", b.index(index[-2]), b.index(k))
            term = b.op("select", type_, seen, term, b.const(type_, literal(0.0, type_)))
        b.fold(acc, term)
        b.close()
        return acc

    def product(self) -> None:
        """Parallel over output elements, each an ordered sum over k."""
        (e,) = [e for e in self.cluster.equations if e.op == "matmul"]
        last = len(e.inputs[0].shape) - 1
        inner = {**self.limits([e], 0), **{a + 1: n for a, n in self.limits([e], 1).items()}}.get(last)
        index = self.open_all(self.cluster.shape, self.limits([e]))
        self.done[(e.output.id, index)] = self.summed(e, index, inner)
        for output in self.outputs():
            self.store(output, index)
        self.close_all(self.cluster.shape)

    def concat(self) -> None:
        """One nest a part."""
        (e,) = [e for e in self.cluster.equations if e.op == "concat"]
        axis, offset = e.attributes["axis"], 0
        for part in e.inputs:
            index = self.open_all(part.shape)
            name = self.demand(part, index)
            self.store_element(e.output, name, tuple(i + offset if a == axis else i for a, i in enumerate(index)))
            self.close_all(part.shape)
            offset += part.shape[axis]

    def scatter(self) -> None:
        """Parallel over columns: a local column of zeros, to which the updates are added in order, then stored."""
        b = self.builder
        (e,) = self.cluster.equations
        which, updates = e.inputs
        rows, type_ = e.output.shape[0], COMPUTE[e.output.type]
        columns = self.open_all(e.output.shape[1:])
        column = b.local(type_, (rows,))
        zero = b.const(type_, literal(0.0, type_))
        b.put(column, b.open("par", rows), zero)
        b.close()
        at = tuple(Affine() if n == 1 else b.open("seq", n) for n in which.shape)
        row = self.affine(which, at) or Affine.var(self.demand(which, at))
        value = b.converted(self.demand(updates, (*at, *columns)), type_)
        b.put(column, row, b.op("add", type_, b.take(column, row, type_), value))
        self.close_all(which.shape)
        last = b.open("par", rows)
        self.store_element(e.output, b.take(column, last, type_), (last if rows != 1 else Affine(), *columns))
        b.close()
        self.close_all(e.output.shape[1:])

    def put(self) -> None:
        """Parallel over the rows' elements, each to its place behind the first row's."""
        (e,) = self.cluster.equations
        _, rows, start = e.inputs
        index = self.open_all(rows.shape)
        self.store_element(e.output, self.demand(rows, index), self.moved(e, index, start))
        self.close_all(rows.shape)

    def routine(self) -> None:
        """The routine on its arrays and values."""
        b = self.builder
        (e,) = self.cluster.equations
        slots, operands = ROUTINES[e.op], iter(e.inputs)
        values = [e.output if s.mode == "out" else next(operands) if s.mode != "local" else None for s in slots]
        shapes = [
            _collapsed(v.shape, len(s.shape)) if v is not None else () for s, v in zip(slots, values, strict=True)
        ]
        taken = [(s, v, n) for s, v, n in zip(slots, values, shapes, strict=True) if v is not None]
        given = [Given(s.mode, v.type, n) for s, v, n in taken]
        sizes = extents(e.op, given)
        args: list[str] = []
        for slot, value, shape in zip(slots, values, shapes, strict=True):
            if value is None:
                args.append(b.local(slot.types[0], tuple(sizes[n] if isinstance(n, str) else n for n in slot.shape)))
            elif slot.mode == "value":
                args.append(b.converted(self.demand(value, ()), slot.types[0]))
            else:
                args.append(b.array(root_of(value), shape, slot.mode).name)
        b.run(e.op, tuple(args))

    def limits(self, equations: list[FlatEquation], operand: int | None = None) -> dict[int, Affine]:
        """How many elements count along the axes of equations' results, or of an operand of each; where not all do."""
        found: dict[int, Affine] = {}
        for e in equations:
            value = e.output if operand is None else e.inputs[operand]
            for axis, (start, count) in self.clustering.limits.get(value.id, {}).items():
                first = self.affine(start, ()) or Affine.var(self.demand(start, ()))
                found[axis] = first + count
        return found

    def open_all(self, shape: tuple[int, ...], limits: Mapping[int, Affine] | None = None) -> Index:
        """A parallel loop for each axis that is longer than 1, up to its limit; 0 for the others."""
        ends = limits or {}
        return tuple(Affine() if n == 1 else self.builder.open("par", n, ends.get(a)) for a, n in enumerate(shape))

    def close_all(self, shape: tuple[int, ...]) -> None:
        for n in shape:
            if n != 1:
                self.builder.close()

    @staticmethod
    def with_axis(rows: Index, axis: int, i: Affine) -> Index:
        return (*rows[:axis], i, *rows[axis + 1 :])


def _collapsed(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape of this many axes: the first stands for all leading ones."""
    last = shape[len(shape) - rank + 1 :] if rank else ()
    return (math.prod(shape[: len(shape) - len(last)]), *last) if rank else ()


def _domain(e: FlatEquation) -> tuple[int, ...]:
    """The shape over which an equation's elements are computed: a pack's are its operand's."""
    return root_of(e.inputs[0]).shape if e.op == "pack" else e.output.shape
