"""Clusters: which equations become one kernel.

A cluster has a domain, the shape over which its output elements run:

    elementwise   its equations' shape
    row           the full shape of a reduction's operand, and the reduced axis; softmax and norms are rows
    product       the shape of a matmul's result
    concat        the parts of one concat
    scatter       the shape of a scatter_add's result, and alone
    put           the shape of the rows that a put_rows writes, and alone
    routine       one element: a routine takes whole arrays from memory, and is alone
    attention     a row's; the products before and behind it are in it, too (see `attention`)

Equations join, in program order, the latest cluster that one of their operands comes from, where their shapes fit: so
bias, activation and residual go into a product's store, and a norm is one row. Then, in reverse order, an elementwise
equation that only one later cluster uses moves there: so scale and mask go into the softmax. Both keep clusters in an
order in which each depends only on earlier ones. Nothing is fused across the iterations of a fold.
"""

from dataclasses import dataclass, field
from typing import Literal

from presk_db.kernels.ir import FUNCTIONS
from presk_db.kernels.routines import ROUTINES
from presk_db.language.primitives import ELEMENTWISE, REDUCTIONS
from presk_db.lowering.attention import Attention, Part, attention_of
from presk_db.lowering.extents import limits_of
from presk_db.lowering.flat import Flat, FlatEquation, Value
from presk_db.lowering.tails import tails_of
from presk_db.lowering.views import (
    axis_variables,
    chain_of,
    contiguous_strides,
    is_lazy,
    pulled,
    pushed,
    root_of,
    strided_of,
    strided_step,
)

BY_INTEGER = ("gather", "scatter_add", "take_rows", "put_rows")
"""Equations that find elements by an integer of the run: their operands are in memory."""

IN_MEMORY = (*BY_INTEGER, *ROUTINES)
"""Equations whose operands are in memory."""

ClusterKind = Literal["elementwise", "row", "product", "concat", "scatter", "put", "routine", "attention"]


@dataclass(eq=False)
class Cluster:
    """Equations that become one kernel; `axis` is the reduced axis of a row."""

    kind: ClusterKind
    shape: tuple[int, ...]
    axis: int | None
    scope: tuple[tuple[int, int], ...]
    equations: list[FlatEquation] = field(default_factory=list)
    attention: Attention | None = None

    def kept_shape(self) -> tuple[int, ...]:
        """A row's shape with its reduced axis at extent 1."""
        assert self.axis is not None
        return (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])


class Clustering:
    """The clusters of a flat graph, in launch order, and which values need memory."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.free = _free_values(flat)
        self.limits = limits_of(flat)
        self.of: dict[int, Cluster] = {}
        self.clusters: list[Cluster] = []
        self.stacks: dict[int, Cluster | None] = {}
        self.uses: dict[int, list[FlatEquation]] = {}
        for e in flat.equations:
            self._note_uses(e)
        for e in flat.equations:
            self._place(e)
        for e in reversed(flat.equations):
            self._move(e)
        self.clusters = [c for c in self.clusters if c.equations]
        number = {id(e): i for i, e in enumerate(flat.equations)}
        for c in self.clusters:
            c.equations.sort(key=lambda e: number[id(e)])
        self.tails = tails_of(flat)
        for c in [c for c in self.clusters if c.kind == "product"]:
            self._attend(c)

    def _note_uses(self, e: FlatEquation) -> None:
        if is_lazy(e):
            return
        for value in e.inputs:
            self.uses.setdefault(root_of(value).id, []).append(e)

    def is_free(self, value: Value) -> bool:
        """Whether the value is recomputed wherever it is used: constants, indices, and what little follows from them."""
        return root_of(value).id in self.free

    def cluster_of(self, value: Value) -> Cluster | None:
        """The cluster that computes the value's root; None for parameters, inputs, layers and free values."""
        return self.of.get(root_of(value).id)

    def materialized(self, value: Value) -> bool:
        """Whether the root of the value is stored: a result, or used outside the cluster that computes it."""
        root = root_of(value)
        cluster = self.of.get(root.id)
        if cluster is None:
            return root.id not in self.free
        return root.id in self.flat.stored or any(
            _needs_memory(e, root) or self.of.get(e.output.id) is not cluster for e in self.uses.get(root.id, [])
        )

    # --- placing -------------------------------------------------------------------------------------------------

    def _place(self, e: FlatEquation) -> None:
        if is_lazy(e) or e.output.id in self.free:
            return
        if e.op == "stack":
            clusters = [self.of[v.id] for v in e.inputs]
            self.stacks[e.output.id] = max(clusters, key=self.clusters.index) if clusters else None
            return
        cluster = self._joined(e) or self._fresh(e)
        cluster.equations.append(e)
        self.of[e.output.id] = cluster

    def _fresh(self, e: FlatEquation) -> Cluster:
        match e.op:
            case "matmul":
                cluster = Cluster("product", e.output.shape, None, e.scope)
            case "concat":
                cluster = Cluster("concat", e.output.shape, None, e.scope)
            case "scatter_add":
                cluster = Cluster("scatter", e.output.shape, None, e.scope)
            case "put_rows":
                cluster = Cluster("put", e.inputs[1].shape, None, e.scope)
            case _ if e.op in ROUTINES:
                cluster = Cluster("routine", (), None, e.scope)
            case "pack":
                cluster = Cluster("elementwise", e.inputs[0].shape, None, e.scope)
            case _ if e.op in REDUCTIONS:
                cluster = Cluster("row", e.inputs[0].shape, e.attributes["axis"], e.scope)
            case _:
                cluster = Cluster("elementwise", e.output.shape, None, e.scope)
        self.clusters.append(cluster)
        return cluster

    def _joined(self, e: FlatEquation) -> Cluster | None:
        found = [c for v in e.inputs if (c := self._producer(v)) is not None]
        if not found or e.op in ("matmul", "concat", *IN_MEMORY):
            return None
        latest = max(found, key=self.clusters.index)
        before = [c for c in found if c is not latest]
        if before and self._absorbed(latest, max(before, key=self.clusters.index)):
            latest = max(before, key=self.clusters.index)
        if any(self._producer(v) is latest and self.cluster_of(v) is not latest for v in e.inputs):
            return None  # a layer of what this kernel writes: only a later one can read it
        return latest if latest.scope == e.scope and self.fits(e, latest) else None

    def _absorbed(self, cluster: Cluster, into: Cluster) -> bool:
        """Moves an elementwise cluster's equations to an earlier cluster that has all they need, if they fit there."""
        if cluster.kind != "elementwise" or cluster.scope != into.scope or cluster in self.stacks.values():
            return False
        last = self.clusters.index(into)
        producers = [p for e in cluster.equations for v in e.inputs if (p := self._producer(v)) is not None]
        if any(p is not cluster and self.clusters.index(p) > last for p in producers):
            return False
        for done, e in enumerate(cluster.equations):
            if e.op in ("gather", "take_rows", "pack") or not self.fits(e, into):
                for moved in cluster.equations[:done]:
                    self.of[moved.output.id] = cluster
                return False
            self.of[e.output.id] = into
        into.equations += cluster.equations
        self.clusters.remove(cluster)
        return True

    def _producer(self, value: Value) -> Cluster | None:
        """The cluster after which the value's elements are in memory; of a stack's layer, or a stack, the last part's."""
        root = root_of(value)
        while root.window is not None:
            root = root_of(root.window[0])
        return self.stacks.get(root.id) or self.of.get(root.id)

    def fits(self, e: FlatEquation, cluster: Cluster) -> bool:
        """Whether the cluster's loops can compute `e`, given that its operands from there are seen at the same element."""
        if cluster.kind in ("concat", "scatter", "put", "routine"):
            return False
        if e.op == "pack":
            value = e.inputs[0]
            root = root_of(value)
            if self.of.get(root.id) is not cluster:
                return cluster.kind == "elementwise" and value.shape == cluster.shape
            index, ranges = axis_variables(cluster.shape)
            return root.shape == cluster.shape and pushed([*chain_of(value), e], index, ranges) is not None
        shape = e.inputs[0].shape if e.op in REDUCTIONS else e.output.shape
        if cluster.kind == "row":
            if e.op in REDUCTIONS and (shape != cluster.shape or e.attributes["axis"] != cluster.axis):
                return False
            return all(self._seen_in_row(v, cluster) for v in (*e.inputs, e.output))
        if e.op in REDUCTIONS or shape != cluster.shape:
            return False
        return all(self.of.get(root_of(v).id) is not cluster or not chain_of(v) for v in e.inputs)

    def _seen_in_row(self, value: Value, cluster: Cluster) -> bool:
        """Whether a value has a row cluster's full shape, or one element a row; and if computed there, at the same place."""
        kept = cluster.kept_shape()
        dropped = (*cluster.shape[: cluster.axis], *cluster.shape[cluster.axis + 1 :])  # type: ignore[operator]  # a row has an axis
        if value.shape not in (cluster.shape, kept, dropped):
            return False
        root = root_of(value)
        if self.of.get(root.id) is not cluster or root is value:
            return True
        view = strided_of(value)
        if view is None or view.offset:
            return False
        expected = list(contiguous_strides(root.shape))
        if root.shape == dropped and root.shape != cluster.shape:
            expected.insert(cluster.axis, 0)  # type: ignore[arg-type]  # a row has an axis
        elif root.shape == kept:
            expected[cluster.axis] = 0  # type: ignore[index]  # a row has an axis
        if value.shape == dropped and value.shape != cluster.shape:
            del expected[cluster.axis]  # type: ignore[arg-type]  # a row has an axis
        return all(s == t for s, t, n in zip(view.strides, expected, value.shape, strict=True) if n != 1)

    # --- moving --------------------------------------------------------------------------------------------------

    def _move(self, e: FlatEquation) -> None:
        """Moves an elementwise equation, or a gather, into the one later cluster that uses it, where that costs nothing."""
        here = self.of.get(e.output.id)
        if here is None or e.op not in (*ELEMENTWISE, "gather", "take_rows") or e.output.id in self.flat.stored:
            return
        users = self.uses.get(e.output.id, [])
        targets = {id(c): c for u in users if (c := self.of.get(u.output.id)) is not None}
        if len(targets) != 1 or any(u.op == "stack" for u in users):
            return
        (there,) = targets.values()
        if there is here or there.scope != here.scope or not all(self._inlines(e, u, there) for u in users):
            return
        if there.kind == "product" and e.output.shape != there.shape:
            return
        here.equations.remove(e)
        there.equations.append(e)
        self.of[e.output.id] = there

    def _inlines(self, e: FlatEquation, user: FlatEquation, there: Cluster) -> bool:
        """Whether `user` can compute its operand `e` in place, element by element, without repeating it."""
        if user.op in ("matmul", *IN_MEMORY):
            return False
        for value in user.inputs:
            if root_of(value) is not e.output:
                continue
            chain = chain_of(value)
            if any(step.op == "broadcast" for step in chain) and e.op in (*FUNCTIONS, "div", "sqrt", "gather"):
                return False
            if (
                there.kind == "row"
                and not self._seen_in_row(e.output, there)
                and any(s.op == "broadcast" for s in chain)
                and e.op not in ("add", "sub", "mul", "neg")
            ):
                return False
            index, ranges = axis_variables(value.shape)
            if pulled(value, index, ranges) is None:
                return False
        return True

    # --- attention -----------------------------------------------------------------------------------------------

    def _attend(self, scores: Cluster) -> None:
        """Joins a product, a row function of it and a product with that, where one kernel can do them row by row."""
        if scores not in self.clusters:
            return
        rows = [c for c in self._readers(scores) if c is not scores]
        if len(rows) != 1 or rows[0].kind != "row" or rows[0].axis != len(rows[0].shape) - 1:
            return
        (row,) = rows
        for values in self._readers(row):
            if values.kind != "product" or not scores.scope == row.scope == values.scope:
                continue
            if any(
                v.id in self.limits for c in (scores, row, values) for e in c.equations for v in (*e.inputs, e.output)
            ):
                continue  # a step of decoding: what of its keys counts is known when it runs
            parts = (self._part(scores), self._part(row), self._part(values))
            found = attention_of(parts, lambda v: self.uses.get(v.id, []), REDUCTIONS, self.flat.stored, self.tails)
            place = None if found is None else self._place_of(scores, row, values)
            if place is not None:
                self._join(scores, row, values, place, found)
                return

    def _place_of(self, scores: Cluster, row: Cluster, values: Cluster) -> Cluster | None:
        """Which of two clusters to stand in place of: the row where all is there that the values need, else the values
        where nothing between them reads the row."""
        last, later = self.clusters.index(row), self.clusters.index(values)
        needed = [p for e in values.equations for v in e.inputs if (p := self._producer(v)) is not None]
        if all(p in (row, values) or self.clusters.index(p) < last for p in needed):
            return row
        return values if all(self.clusters.index(c) >= later for c in self._readers(row)) else None

    def _join(
        self, scores: Cluster, row: Cluster, values: Cluster, place: Cluster, attention: Attention | None
    ) -> None:
        joined = Cluster("attention", row.shape, row.axis, row.scope, attention=attention)
        joined.equations = [*scores.equations, *row.equations, *values.equations]
        self.clusters[self.clusters.index(place)] = joined
        self.clusters = [c for c in self.clusters if c not in (scores, row, values)]
        for e in joined.equations:
            self.of[e.output.id] = joined
        for stack, last in self.stacks.items():
            if last in (scores, row, values):
                self.stacks[stack] = joined

    def _readers(self, cluster: Cluster) -> list[Cluster]:
        """The other clusters that use what this one computes, in order."""
        found = {
            id(c): c
            for e in cluster.equations
            for u in self.uses.get(e.output.id, [])
            if (c := self.of.get(u.output.id)) is not None and c is not cluster
        }
        return sorted(found.values(), key=self.clusters.index)

    def _part(self, cluster: Cluster) -> Part:
        outputs = tuple(e.output for e in cluster.equations if self.materialized(e.output))
        return Part(cluster.kind, cluster.shape, tuple(cluster.equations), outputs)


def _needs_memory(user: FlatEquation, root: Value) -> bool:
    """Whether this user reads the root from memory even inside one cluster."""
    return user.op in ("matmul", "stack", *IN_MEMORY)


def _free_values(flat: Flat) -> set[int]:
    """The values that are found wherever they are used: constants, indices, single integers of the caller's, and what
    little follows from them.

    On the way each reshape that no strided view can express, or no affine index of a free value, becomes a `pack`,
    which stores its result row by row, or gets a packed operand.
    """
    free = {v.id for _, v in flat.inputs if v.kind == "int" and v.shape == () and v.limit is not None}
    equations: list[FlatEquation] = []
    for e in flat.equations:
        if e.op == "reshape" and not _is_view(e, free):
            index, ranges = axis_variables(e.inputs[0].shape)
            if pushed([e], index, ranges) is not None:
                e.op = "pack"
            else:
                equations.append(_packed_operand(e))
        elif _is_cheap(e) and e.output.id not in flat.stored and all(root_of(v).id in free for v in e.inputs):
            free.add(e.output.id)
        equations.append(e)
    flat.equations = equations
    return free


def _is_cheap(e: FlatEquation) -> bool:
    return e.op in ("const", "iota") or (e.op in ELEMENTWISE and e.op not in FUNCTIONS)


def _is_view(e: FlatEquation, free: set[int]) -> bool:
    """Whether a reshape's elements can be found from its operand's root."""
    if root_of(e.output).id in free:
        return pulled(e.output, *axis_variables(e.output.shape)) is not None
    view = strided_of(e.inputs[0])
    assert view is not None, "layout equations before it are views or packs"
    return strided_step(view, e) is not None


def _packed_operand(e: FlatEquation) -> FlatEquation:
    """A pack that stands between a reshape and its operand."""
    source = e.inputs[0]
    copy = Value(-e.output.id, source.kind, source.shape, source.limit, source.site + "/pack", source.type)
    copy.equation = FlatEquation("pack", (source,), copy, {}, e.call, e.scope, e.source)
    e.inputs = (copy,)
    return copy.equation
