"""Step: a function of a forward pass made again for the rows of one step of generation; see `decoding`."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from presk_db.errors import EntryBad
from presk_db.language.causality import Rows, axis_before, fixed_tail, tail_of
from presk_db.language.graph import Equation, Function, Var
from presk_db.language.primitives import ELEMENTWISE, MARKS, broadcast_to, put_rows, seen, take_rows
from presk_db.language.tracing import Tensor, Trace, emit, emit_many, inside

Origin = tuple[Any, ...]
"""What a parameter of a step's function stands for: ("row", i), ("full", i), ("rows", i, axis), ("pos",), ("cache", n)."""


@dataclass(frozen=True)
class Sizes:
    """C tokens a step, T positions at most."""

    count: int
    length: int
    known: dict[Any, "Stepped"] = field(default_factory=dict)


@dataclass(frozen=True)
class Stepped:
    """A function of a step, what its parameters stand for, the caches' names and shapes, and its results' states."""

    function: Function
    origins: tuple[Origin, ...]
    caches: tuple[tuple[str, tuple[int, ...]], ...]
    states: tuple[Rows | None, ...]


class Step:
    """One function, its equations made again for the rows of a step. `states` are its parameters'.

    Of a fold's body the first `carried` parameters are carried, the next `stacked` ones layers; caches count as layers.
    What depends on no token is made only where it is needed: whole, or its rows along an axis.
    """

    def __init__(
        self, f: Function, states: tuple[Rows | None, ...], sizes: Sizes, trace: Trace, *,
        carried: int = 0, stacked: int = 0, top: bool = False,
    ) -> None:  # fmt: skip
        self.f, self.sizes, self.trace, self.top = f, sizes, trace, top
        self.carried, self.stacked = carried, stacked
        self.made = {v.id: e for e in f.equations for v in e.outputs}
        self.number = {v.id: i for i, v in enumerate(f.parameters)}
        self.states = {v.id: s for v, s in zip(f.parameters, states, strict=True) if s is not None}
        self.origins: dict[Origin, Tensor] = {}
        self.tensors: dict[Any, Tensor] = {}
        self.caches: list[tuple[str, tuple[int, ...]]] = []
        self.updated: list[Tensor] = []

    def stepped(self) -> Stepped:
        """The function of the step."""
        with inside(self.trace):
            for i, v in enumerate(self.f.parameters):
                if v.id in self.states:
                    shape = self.shape(v.shape, self.states[v.id])
                    self.tensors[v.id] = self.parameter(("row", i), v, shape)
                elif i < self.carried:
                    self.full(v)
            for e in self.f.equations:
                if any(v.id in self.states for v in e.inputs):
                    with self.at(e):
                        self.equation(e)
            results = [self.tensors[v.id] if v.id in self.states else self.full(v) for v in self.f.results]
        results += self.updated
        for v in self.f.results:
            if self.top and v.id in self.states and self.states[v.id].key is not None:
                self.refuse(self.made.get(v.id), "gives all positions back")
        order = sorted(self.origins, key=self._rank)
        function = Function(
            self.f.name,
            self.f.source,
            tuple(self.origins[o].var for o in order),
            tuple(self.trace.equations),
            tuple(t.var for t in results),
        )
        states = tuple(self.states.get(v.id) for v in self.f.results)
        return Stepped(function, tuple(order), tuple(self.caches), states)

    def _rank(self, origin: Origin) -> tuple[int, int]:
        """Carried parameters stand first, then layers with the caches, then the others; each as they were made."""
        made = list(self.origins).index(origin)
        if origin[0] == "cache":
            return (1 if self.carried or self.stacked else 3), made
        if origin[0] == "pos":
            return 2, made
        if origin[1] < self.carried:
            return 0, int(origin[1])
        return (1 if origin[1] < self.carried + self.stacked else 2), made

    @contextmanager
    def at(self, e: Equation) -> Iterator[None]:
        """What is made meanwhile comes from this equation's line."""
        before, self.trace.source = self.trace.source, e.source
        yield
        self.trace.source = before

    # --- what there is -------------------------------------------------------------------------------------------

    def shape(self, shape: tuple[int, ...], state: Rows) -> tuple[int, ...]:
        """A shape of the forward pass with the step's rows."""
        return (*shape[: state.row], self.sizes.count, *shape[state.row + 1 :])

    def parameter(self, origin: Origin, like: Var, shape: tuple[int, ...]) -> Tensor:
        if origin not in self.origins:
            self.origins[origin] = Tensor(self.trace.new_var(like.kind, shape, like.limit), self.trace)
        return self.origins[origin]

    def pos(self) -> Tensor:
        """The position of the step's first row."""
        limit = self.sizes.length - self.sizes.count + 1
        return self.parameter(("pos",), Var(0, "int", (), limit), ())

    def full(self, v: Var) -> Tensor:
        """A value that depends on no token, as in the forward pass."""
        if v.id in self.tensors:
            return self.tensors[v.id]
        e = self.made.get(v.id)
        if e is None:
            self.tensors[v.id] = self.parameter(("full", self.number[v.id]), v, v.shape)
            return self.tensors[v.id]
        inputs = [self.full(x) for x in e.inputs]
        with self.at(e):
            outputs = emit_many(e.op, inputs, [(o.kind, o.shape, o.limit) for o in e.outputs], dict(e.attributes))
        self.tensors.update((o.id, t) for o, t in zip(e.outputs, outputs, strict=True))
        return self.tensors[v.id]

    def rows(self, v: Var, axis: int) -> Tensor:
        """The step's rows along `axis` of a value that depends on no token."""
        key = (v.id, axis)
        if key not in self.tensors:
            if v.shape[axis] != self.sizes.length:
                self.refuse(self.made.get(v.id), "has another extent than there are positions")
            e = self.made.get(v.id)
            if e is None and not self.top:
                self.tensors[key] = self.parameter(
                    ("rows", self.number[v.id], axis), v, self.shape(v.shape, Rows(axis))
                )
            elif e is None:
                self.tensors[key] = take_rows(self.full(v), self.pos(), self.sizes.count, axis)
            else:
                with self.at(e):
                    self.tensors[key] = self._rows_of(e, v, axis)
        return self.tensors[key]

    def _rows_of(self, e: Equation, v: Var, axis: int) -> Tensor:
        shape = self.shape(v.shape, Rows(axis))
        match e.op:
            case "iota":
                index = emit("iota", [], "int", shape, v.limit, axis=e["axis"])
                if e["axis"] != axis:
                    return index
                return emit("add", [index, broadcast_to(self.pos(), shape)], "int", shape, v.limit)
            case "broadcast":
                before = axis_before(e, axis)
                x = self.full(e.inputs[0]) if before is None else self.rows(e.inputs[0], before)
                return broadcast_to(x, shape)
            case "transpose":
                x = self.rows(e.inputs[0], e["axes"][axis])
                return emit("transpose", [x], v.kind, shape, v.limit, axes=e["axes"])
            case _ if e.op in (*ELEMENTWISE, *MARKS) and e.op != "seen":
                return emit(e.op, [self.rows(x, axis) for x in e.inputs], v.kind, shape, v.limit)
        return take_rows(self.full(v), self.pos(), self.sizes.count, axis)

    def cached(self, v: Var, axis: int, name: str) -> Tensor:
        """All rows so far of a value, with T of them along `axis`: those of earlier steps from a cache."""
        e = self.made.get(v.id)
        before = axis_before(e, axis) if e is not None and e.op == "broadcast" else None
        base, at = (e.inputs[0], before) if e is not None and before is not None else (v, axis)
        key = ("cache", base.id)
        if key not in self.tensors:
            cache = self.cache(name, base.shape)
            updated = put_rows(cache, self.tensors[base.id], self.pos(), at)
            self.updated.append(updated)
            self.tensors[key] = seen(updated, self.pos(), self.sizes.count, at)
        return broadcast_to(self.tensors[key], v.shape)

    def cache(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A new cache; what becomes of it goes to `updated`."""
        self.caches.append((name, shape))
        return self.parameter(("cache", len(self.caches) - 1), Var(0, "real", ()), shape)

    def refuse(self, e: Equation | None, why: str) -> NoReturn:
        """Raises EntryBad (E1203) at an equation."""
        what = f"no step can be made of this entry: {e.op if e else 'an argument'} {why}"
        raise EntryBad(what, e.source if e else self.f.source)

    # --- equations -----------------------------------------------------------------------------------------------

    def equation(self, e: Equation) -> None:
        """Makes an equation with an operand that depends on tokens, and notes its results' states."""
        if e.op == "call":
            self.call(e)
        elif e.op == "fold":
            self.fold(e)
        else:
            state, inputs = self.primitive(e)
            out = e.outputs[0]
            shape = self.shape(out.shape, state)
            self.note(e, state, emit(e.op, inputs, out.kind, shape, out.limit, **dict(e.attributes)))

    def note(self, e: Equation, state: Rows, tensor: Tensor, number: int = 0) -> None:
        self.states[e.outputs[number].id], self.tensors[e.outputs[number].id] = state, tensor

    def operand(self, v: Var, row: int) -> Tensor:
        return self.tensors[v.id] if v.id in self.states else self.rows(v, row)

    def primitive(self, e: Equation) -> tuple[Rows, list[Tensor]]:
        """The state of an equation's result, and its operands in the step."""
        first = self.states.get(e.inputs[0].id)
        if e.op in (*ELEMENTWISE, *MARKS) and e.op != "seen":
            return self.elementwise(e)
        if e.op == "matmul":
            return self.matmul(e)
        if e.op == "concat":
            state = self.common(e)
            if e["axis"] in (state.row, state.key):
                self.refuse(e, "joins positions")
            return state, [self.operand(v, state.row) for v in e.inputs]
        if e.op == "gather" and first is None:
            index = self.states[e.inputs[1].id]
            return Rows(index.row, index.key), [self.full(e.inputs[0]), self.tensors[e.inputs[1].id]]
        if first is None or len(e.inputs) > 1:
            self.refuse(e, "mixes positions")
        row, key = self.moved(e, first.row), None if first.key is None else self.moved(e, first.key)
        if e.op in ("reduce_sum", "reduce_max", "argmax") and e["axis"] == first.key:
            if first.tail != (0.0 if e.op == "reduce_sum" else -math.inf):
                self.refuse(e, "reads positions that no causal mask excludes")
            return Rows(self.needed(e, row)), [self.tensors[e.inputs[0].id]]
        if first.key is not None and key is None:
            self.refuse(e, "mixes positions")
        return Rows(self.needed(e, row), key, first.tail), [self.tensors[e.inputs[0].id]]

    def needed(self, e: Equation, row: int | None) -> int:
        if row is None:
            self.refuse(e, "mixes positions")
        return row

    def moved(self, e: Equation, axis: int) -> int | None:
        """Where an operand's axis of positions is in the result; None where the equation mixes its elements."""
        shape, out = e.inputs[0].shape, e.outputs[0].shape
        match e.op:
            case "transpose":
                return int(e["axes"].index(axis))
            case "slice":
                return None if e["axis"] == axis else axis
            case "broadcast":
                return axis + len(out) - len(shape)
            case "reshape":
                before = math.prod(shape[:axis])
                places = [a for a, n in enumerate(out) if n == shape[axis] and math.prod(out[:a]) == before]
                return places[0] if places else None
            case "reduce_sum" | "reduce_max" | "argmax":
                return None if e["axis"] == axis else axis - (e["axis"] < axis)
        return None

    def common(self, e: Equation) -> Rows:
        """The state that the operands share; their keys may lack."""
        states = [s for v in e.inputs if (s := self.states.get(v.id)) is not None]
        rows, keys = {s.row for s in states}, {s.key for s in states} - {None}
        if len(rows) != 1 or len(keys) > 1:
            self.refuse(e, "mixes positions")
        return Rows(states[0].row, next(iter(keys), None))

    def elementwise(self, e: Equation) -> tuple[Rows, list[Tensor]]:
        state = self.common(e)
        tails: list[float | None] = []
        for v in e.inputs:
            known = self.states.get(v.id)
            own = known.tail if known is not None and known.key is not None else None
            tails.append(own if known is not None else fixed_tail(v, state, self.made))
        tail = None if state.key is None else tail_of(e, state, tails, self.made)
        return Rows(state.row, state.key, tail), [self.operand(v, state.row) for v in e.inputs]

    def matmul(self, e: Equation) -> tuple[Rows, list[Tensor]]:
        a, b = e.inputs
        left, right = self.states.get(a.id), self.states.get(b.id)
        last = len(e.outputs[0].shape) - 1
        if left is None:
            assert right is not None
            if right.key is not None or right.row == last - 1:
                self.refuse(e, "mixes positions")
            return Rows(right.row), [self.full(a) if right.row == last else self.rows(a, right.row), self.tensors[b.id]]
        if left.row == last or (right is not None and right.key is not None):
            self.refuse(e, "mixes positions")
        if left.key == last and left.tail != 0.0:
            self.refuse(e, "reads positions that no causal mask excludes")
        x, key = self.tensors[a.id], None if left.key == last else left.key
        if right is None:
            return Rows(left.row, key), [x, self.full(b) if left.row == last - 1 else self.rows(b, left.row)]
        if right.row == last and left.key is None:
            return Rows(left.row, last), [x, self.cached(b, last, "keys")]
        if right.row == last - 1 and left.key == last:
            return Rows(left.row), [x, self.cached(b, last - 1, "values")]
        if right.row != left.row or right.row >= last - 1 or left.key is not None:
            self.refuse(e, "mixes positions")
        return Rows(left.row), [x, self.tensors[b.id]]

    # --- functions -----------------------------------------------------------------------------------------------

    def callee(self, f: Function, states: tuple[Rows | None, ...], carried: int = 0, stacked: int = 0) -> Stepped:
        known, key = self.sizes.known, (f, states, carried, stacked)
        if key not in known:
            trace = Trace(self.trace.root)
            known[key] = Step(f, states, self.sizes, trace, carried=carried, stacked=stacked).stepped()
        return known[key]

    def argument(self, origin: Origin, inputs: Sequence[Var], caches: Sequence[Tensor], layers: range) -> Tensor:
        """What a callee's parameter is given. The inputs of the numbers `layers` are stacked: they have an axis more."""
        match origin:
            case ("pos",):
                return self.pos()
            case ("cache", n):
                return caches[n]
            case ("rows", i, axis):
                return self.rows(inputs[i], axis + (i in layers))
            case ("row", i):
                return self.tensors[inputs[i].id]
            case _:
                return self.full(inputs[origin[1]])

    def call(self, e: Equation) -> None:
        made = self.callee(e["function"], tuple(self.states.get(v.id) for v in e.inputs))
        caches = [self.cache(n, shape) for n, shape in made.caches]
        inputs = [self.argument(o, e.inputs, caches, range(0)) for o in made.origins]
        types = [(v.kind, v.shape, v.limit) for v in made.function.results]
        self.results(e, made, emit_many("call", inputs, types, {"function": made.function}), made.states)

    def fold(self, e: Equation) -> None:
        carried, stacked = e["carried"], e["stacked"]
        layers = range(carried, carried + stacked)
        states = [self.states.get(v.id) for v in e.inputs]
        for i in layers:
            state = states[i]
            if state is not None and state.row == 0:
                self.refuse(e, "runs over positions")
            states[i] = _below(state)
        made = self.callee(e["function"], tuple(states), carried, stacked)
        begins: dict[Origin, Tensor] = {}
        for i, state in enumerate(made.states[:carried]):
            if states[i] is None and state is not None:  # what it begins with depends on no token: its rows
                states[i], begins["row", i] = state, self.rows(e.inputs[i], state.row)
        made = self.callee(e["function"], tuple(states), carried, stacked)
        if list(made.states[:carried]) != states[:carried]:
            self.refuse(e, "mixes positions from layer to layer")
        caches = [self.cache(n, (e["length"], *shape)) for n, shape in made.caches]
        inputs = [begins[o] if o in begins else self.argument(o, e.inputs, caches, layers) for o in made.origins]
        count = sum(o[0] == "cache" or o[1] in layers for o in made.origins if o[0] != "pos")
        results = made.function.results
        types = [(v.kind, v.shape, v.limit) for v in results[:carried]]
        types += [(v.kind, (e["length"], *v.shape), v.limit) for v in results[carried:]]
        attributes = {**dict(e.attributes), "function": made.function, "stacked": count}
        above = tuple(s if i < carried else _above(s) for i, s in enumerate(made.states))
        self.results(e, made, emit_many("fold", inputs, types, attributes), above)

    def results(self, e: Equation, made: Stepped, tensors: list[Tensor], states: tuple[Rows | None, ...]) -> None:
        """Notes what a call gives: its results, then its caches."""
        for i, state in enumerate(states):
            if state is None:
                self.tensors[e.outputs[i].id] = tensors[i]
            else:
                self.note(e, state, tensors[i], i)
        self.updated += tensors[len(states) :]


def _below(s: Rows | None) -> Rows | None:
    """The state of a layer, from that of the stack."""
    return s and Rows(s.row - 1, None if s.key is None else s.key - 1, s.tail)


def _above(s: Rows | None) -> Rows | None:
    """The state of a stack, from that of a layer."""
    return s and Rows(s.row + 1, None if s.key is None else s.key + 1, s.tail)
