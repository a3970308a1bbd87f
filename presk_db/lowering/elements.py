"""Elements: the elements of a cluster's values, each by demand, while its kernel's statements are built.

`demand(value, index)` is the one rule: a stored value is loaded, a layout equation changes the index, anything else is
computed at that index. An operation is done in the compute type of its result; an operand of another type is converted
once. So a value that is not stored is not rounded to its site's storage type.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from presk_db.kernels.affine import Affine, delinearized
from presk_db.kernels.ir import FUNCTIONS, Array, literal
from presk_db.kernels.ir import Load as LoadStatement
from presk_db.kernels.ir import Store as StoreStatement
from presk_db.kernels.types import COMPUTE
from presk_db.language.primitives import COMPARE, ELEMENTWISE, REDUCTIONS
from presk_db.lowering.builder import Builder
from presk_db.lowering.clusters import Cluster, Clustering
from presk_db.lowering.flat import FlatEquation, Value
from presk_db.lowering.numbers import rounded
from presk_db.lowering.views import Index, Strided, chain_of, contiguous_strides, pulled, pushed, root_of, strided_of

RENAMED = {"maximum": "max", "minimum": "min"}


@dataclass
class _Spill:
    """A costly element of a row, kept in a local from the phase that computes it first."""

    local: str
    type: str
    filled: bool = False


class Elements:
    """The elements of a cluster's values, by name, in the kernel that `builder` builds."""

    def __init__(self, cluster: Cluster, clustering: Clustering) -> None:
        self.cluster = cluster
        self.clustering = clustering
        self.builder = Builder()
        self.done: dict[tuple[int, Index], str] = {}
        self.spills: dict[int, _Spill] = {}
        self.shape = cluster.shape
        self.kept: dict[int, str] = {}
        self.masks: tuple[FlatEquation, ...] = ()

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

    def moved(self, e: FlatEquation, index: Index, start: Value) -> Index:
        """The index of a row's element in the whole of which the rows are a run."""
        first = self.affine(start, ()) or Affine.var(self.demand(start, ()))
        return tuple(i + first if a == e.attributes["axis"] else i for a, i in enumerate(index))

    def computed(self, e: FlatEquation, index: Index) -> str:
        """An element of an equation of this cluster."""
        if (e.output.id, index) in self.done:
            return self.done[(e.output.id, index)]
        if e.output.id in self.kept:
            return self.local(self.kept[e.output.id], COMPUTE[e.output.type], index[-1])
        if e in self.masks:
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
