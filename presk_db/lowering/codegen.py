"""A cluster's kernel at point zero: loops over its domain, and each element by demand.

`demand(value, index)` is the one rule: a stored value is loaded, a layout equation changes the index, anything else is
computed at that index. An operation is done in the compute type of its result; an operand of another type is converted
once. So a value that is not stored is not rounded to its site's storage type.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from presk_db.kernels.affine import Affine, delinearized
from presk_db.kernels.ir import FUNCTIONS, AccKind, Array, Kernel, literal
from presk_db.kernels.ir import Load as LoadStatement
from presk_db.kernels.ir import Store as StoreStatement
from presk_db.kernels.types import COMPUTE
from presk_db.language.primitives import COMPARE, ELEMENTWISE, REDUCTIONS
from presk_db.lowering.builder import Argument, Builder
from presk_db.lowering.clusters import Cluster, Clustering
from presk_db.lowering.flat import FlatEquation, Value
from presk_db.lowering.numbers import rounded
from presk_db.lowering.views import Index, Strided, chain_of, contiguous_strides, pulled, pushed, root_of, strided_of

RENAMED = {"maximum": "max", "minimum": "min"}
ACCUMULATORS: dict[str, AccKind] = {"reduce_sum": "lanes", "reduce_max": "max", "argmax": "argmax"}


@dataclass(frozen=True)
class Lowered:
    """A kernel and what its array parameters stand for, in order."""

    kernel: Kernel
    arguments: tuple[Argument, ...]


@dataclass
class _Spill:
    """A costly element of a row, kept in a local from the phase that computes it first."""

    local: str
    type: str
    filled: bool = False


def lowered(cluster: Cluster, clustering: Clustering) -> Lowered:
    """The cluster's kernel."""
    generator = _Generator(cluster, clustering)
    {
        "elementwise": generator.elementwise,
        "row": generator.row,
        "product": generator.product,
        "concat": generator.concat,
        "scatter": generator.scatter,
        "put": generator.put,
        "attention": generator.attention,
    }[cluster.kind]()
    return Lowered(generator.builder.kernel(), tuple(generator.builder.arguments))


class _Generator:
    def __init__(self, cluster: Cluster, clustering: Clustering) -> None:
        self.cluster = cluster
        self.clustering = clustering
        self.builder = Builder()
        self.done: dict[tuple[int, Index], str] = {}
        self.spills: dict[int, _Spill] = {}
        self.shape = cluster.shape
        self.kept: dict[int, str] = {}
        self.mask: FlatEquation | None = None

    # --- domains -------------------------------------------------------------------------------------------------

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
        if a.mask is not None and (found := self.visible(a.mask, rows, keys)) is not None:
            visible, self.mask = found, a.mask
        scores = b.local(a.made.type, (keys,))
        key = b.open("par", keys, visible)
        index = self.with_axis(rows, axis, key)
        self.done[(a.scores.output.id, index)] = self.summed(a.scores, index)
        b.put(scores, key, b.converted(self.demand(a.made, index), COMPUTE[a.made.type]))
        b.close()
        self.kept[a.made.id] = scores
        self.plan_spills([*([p] for p in a.phases), [a.weights]])
        for e in a.phases:
            self.reduce(e, rows, axis, keys, visible)
        weights = b.local(a.weights.output.type, (keys,))
        key = b.open("par", keys, visible)
        weight = self.demand(a.weights.output, self.with_axis(rows, axis, key))
        b.put(weights, key, b.converted(weight, COMPUTE[a.weights.output.type]))
        b.close()
        self.kept[a.weights.output.id] = weights
        self.shape = a.values.output.shape
        index = self.with_axis(rows, axis, Affine() if self.shape[-1] == 1 else b.open("par", self.shape[-1]))
        self.done[(a.values.output.id, index)] = self.summed(a.values, index, visible)
        for output in self.outputs():
            if output is not a.weights and output.output is not a.made:
                self.store(output, index)
        if self.shape[-1] != 1:
            b.close()
        self.close_all(cluster.kept_shape())

    def visible(self, mask: FlatEquation, rows: Index, keys: int) -> Affine | None:
        """How many keys a mask `key <= query + c` leaves the query of these rows; None where it is another one."""
        condition = root_of(mask.inputs[0]).equation
        key = Affine.var("key")
        at = pulled(mask.inputs[0], (*rows[:-1], key), {**self.builder.ranges, "key": (0, keys - 1)})
        if condition is None or condition.op != "le" or at is None:
            return None
        left, right = (self.affine(v, at) for v in condition.inputs)
        if left != key or right is None or "key" in right.names:
            return None
        low, high = (right + 1).range(self.builder.ranges)
        return right + 1 if low >= 1 and high <= keys else None

    def summed(self, e: FlatEquation, index: Index, limit: Affine | None = None) -> str:
        """The accumulator of a matmul's element: its products, up to a limit, in order."""
        b = self.builder
        left, right = e.inputs
        type_ = COMPUTE[e.output.type]
        acc = b.acc(type_, "sum")
        k = b.open("seq", left.shape[-1], limit)
        x = b.converted(self.demand(left, (*index[:-1], k)), type_)
        y = b.converted(self.demand(right, (*index[:-2], k, index[-1])), type_)
        b.fold(acc, b.op("mul", type_, x, y))
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

    def moved(self, e: FlatEquation, index: Index, start: Value) -> Index:
        """The index of a row's element in the whole of which the rows are a run."""
        first = self.affine(start, ()) or Affine.var(self.demand(start, ()))
        return tuple(i + first if a == e.attributes["axis"] else i for a, i in enumerate(index))

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

    # --- storing -------------------------------------------------------------------------------------------------

    def outputs(self) -> list[FlatEquation]:
        """The cluster's equations whose values are stored, in order."""
        return [e for e in self.cluster.equations if self.clustering.materialized(e.output)]

    def store(self, e: FlatEquation, index: Index) -> None:
        """Computes an output's element at the domain's index and stores it."""
        if e.op != "pack":
            self.store_element(e.output, self.demand(e.output, index), index)
            return
        value, chain = e.inputs[0], [e]
        if self.clustering.cluster_of(value) is self.cluster and root_of(value).shape == self.shape:
            longer = [*chain_of(value), e]
            if pushed(longer, index, self.builder.ranges) is not None:
                value, chain = root_of(value), longer
        name = self.demand(value, index)
        target = pushed(chain, index, self.builder.ranges)
        assert target is not None, "checked when the equation was placed"
        self.store_element(e.output, name, target)

    def store_element(self, value: Value, name: str, index: Index) -> None:
        b = self.builder
        name = b.converted(name, COMPUTE[value.type])
        array, at = self.access(Strided(value, 0, contiguous_strides(value.shape)).address(index), value, "out")
        b.store(array, at, name)

    def access(self, address: Affine, value: Value, mode: str) -> tuple[Array, Index]:
        """The array parameter and index for an address in a value's memory; axes of extent 1 are left out."""
        shape = tuple(n for n in value.shape if n != 1) or (1,)
        index = delinearized(address, shape, self.builder.ranges)
        if index is None:
            shape, index = (math.prod(shape),), (address,)
        return self.builder.array(value, shape, mode), index

    # --- elements ------------------------------------------------------------------------------------------------

    def demand(self, value: Value, index: Index) -> str:
        """The name of the value's element at `index`, computed, loaded, or found."""
        root = root_of(value)
        if self.clustering.is_free(value) and root.equation is not None:
            return self.at_root(value, index, self.free)
        if self.clustering.cluster_of(value) is self.cluster and not (root.equation and root.equation.op == "pack"):
            return self.at_root(value, index, self.computed)
        view = strided_of(value)
        assert view is not None, "reshapes that need a copy are packs"
        array, at = self.access(view.address(index), root, "in")
        return self.builder.load(array, at, COMPUTE[root.type])

    def at_root(self, value: Value, index: Index, rule: Callable[[FlatEquation, Index], str]) -> str:
        root = root_of(value)
        at = pulled(value, index, self.builder.ranges)
        assert at is not None and root.equation is not None, "checked when the equation was placed"
        return rule(root.equation, at)

    def free(self, e: FlatEquation, index: Index) -> str:
        """Constants, indices and what follows from them."""
        affine = self.affine(e.output, index)
        if affine is not None:
            return self.builder.index(affine)
        if e.op == "const":
            type_ = COMPUTE[e.output.type]
            return self.builder.const(type_, literal(rounded(e.attributes["value"], type_), type_))
        return self.operation(e, index)

    def affine(self, value: Value, index: Index) -> Affine | None:
        """A free integer as an affine expression of loop variables, where it is one."""
        root = root_of(value)
        if value.kind != "int" or not self.clustering.is_free(value):
            return None
        if root.equation is None:
            return Affine.var(self.demand(root, ()))
        at = pulled(value, index, self.builder.ranges)
        e = root.equation
        if at is None:
            return None
        if e.op == "iota":
            axis: int = e.attributes["axis"]
            return at[axis]
        if e.op == "const":
            return Affine((), int(e.attributes["value"]))
        parts = [self.affine(v, at) for v in e.inputs]
        if any(p is None for p in parts) or e.op not in ("add", "sub", "mul"):
            return None
        a, b = (p for p in parts if p is not None)
        if e.op == "mul":
            return a * b.const if b.is_const else b * a.const if a.is_const else None
        return a + (b if e.op == "add" else b * -1)

    def computed(self, e: FlatEquation, index: Index) -> str:
        """An element of an equation of this cluster."""
        if (e.output.id, index) in self.done:
            return self.done[(e.output.id, index)]
        if e.output.id in self.kept:
            return self.local(self.kept[e.output.id], COMPUTE[e.output.type], index[-1])
        if e is self.mask:
            return self.demand(e.inputs[1], index)
        if e.op == "gather":
            return self.gathered(e, index)
        if e.op == "take_rows":
            return self.demand(e.inputs[0], self.moved(e, index, e.inputs[1]))
        if e.output.id in self.spills:
            return self.spilled(e, index, self.spills[e.output.id])
        assert e.op in ELEMENTWISE, f"{e.op} is computed by its domain"
        return self.operation(e, index)

    def operation(self, e: FlatEquation, index: Index) -> str:
        """An elementwise operation in the compute type of its result (comparisons: the wider of the operands')."""
        b = self.builder
        names = [self.demand(v, index) for v in e.inputs]
        if e.op == "real":
            return b.converted(names[0], COMPUTE[e.output.type])
        if e.op in ("and", "or", "not"):
            return b.op(e.op, "bool", *names)
        if e.op in COMPARE:
            type_ = "f64" if "f64" in {b.types[n] for n in names} else b.types[names[0]]
            return b.op(e.op, type_, *(b.converted(n, type_) for n in names))
        type_ = COMPUTE[e.output.type]
        if e.op == "select":
            return b.op("select", type_, names[0], *(b.converted(n, type_) for n in names[1:]))
        return b.op(RENAMED.get(e.op, e.op), type_, *(b.converted(n, type_) for n in names))

    def gathered(self, e: FlatEquation, index: Index) -> str:
        """table[index[i...], j...]: by a loaded integer, or an affine one."""
        table, which = e.inputs
        rank = len(which.shape)
        row = self.affine(which, index[:rank])
        if row is None:
            row = Affine.var(self.demand(which, index[:rank]))
        return self.demand(table, (row, *index[rank:]))

    # --- spills --------------------------------------------------------------------------------------------------

    def plan_spills(self, phases: list[list[FlatEquation]]) -> None:
        """Finds the functions of a row's element that more than one phase needs; they are kept in locals."""
        seen: dict[int, set[int]] = {}
        inside = {e.output.id: e for e in self.cluster.equations}

        def visit(value: Value, phase: int) -> None:
            e = inside.get(root_of(value).id)
            if e is None or (e.op in REDUCTIONS):
                return
            if phase in seen.setdefault(e.output.id, set()):
                return
            seen[e.output.id].add(phase)
            if not (e.op in FUNCTIONS and len(seen[e.output.id]) > 1):
                for v in e.inputs:
                    visit(v, phase)

        for number, roots in enumerate(phases):
            for e in roots:
                for v in e.inputs if e.op in REDUCTIONS else (e.output,):
                    visit(v, number)
        for e in self.cluster.equations:
            often = len(seen.get(e.output.id, ())) > 1
            if e.op in FUNCTIONS and e.output.shape == self.cluster.shape and often and self.in_place(e.output):
                self.spills[e.output.id] = _Spill("", COMPUTE[e.output.type])

    def in_place(self, value: Value) -> bool:
        """Whether the row's equations see the value's element only at their own index."""
        strides = contiguous_strides(value.shape)
        for user in self.cluster.equations:
            for seen in user.inputs:
                if root_of(seen) is value and seen is not value:
                    view = strided_of(seen)
                    if seen.shape != value.shape or view is None or view.offset or view.strides != strides:
                        return False
        return True

    def spilled(self, e: FlatEquation, index: Index, spill: _Spill) -> str:
        """A costly element: computed and kept in the first phase, loaded in later ones."""
        b = self.builder
        assert self.cluster.axis is not None
        at = index[self.cluster.axis]
        if spill.filled:
            return self.local(spill.local, spill.type, at)
        if not spill.local:
            level = b.levels.pop()
            spill.local = b.local(spill.type, (self.cluster.shape[self.cluster.axis],))
            b.levels.append(level)
        filled = (e.output.id, index)
        name = self.operation(e, index)
        if filled not in b.levels[-1].memo:
            b.levels[-1].memo[filled] = name
            b.levels[-1].statements.append(StoreStatement(spill.local, (at,), name))
        return name

    def local(self, name: str, type_: str, at: Affine) -> str:
        """An element of a local that is filled already."""
        return self.builder.define(
            ("local", name, at), type_, (name, *at.names), lambda value: LoadStatement(value, name, (at,))
        )


def _domain(e: FlatEquation) -> tuple[int, ...]:
    """The shape over which an equation's elements are computed: a pack's are its operand's."""
    return root_of(e.inputs[0]).shape if e.op == "pack" else e.output.shape
