"""The flat graph: every call and fold expanded, each value a site with a type, the tree of calls kept beside it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from presk_db.errors import EntryBad
from presk_db.kernels.launches import Call, FoldInfo, FunctionInfo
from presk_db.kernels.routines import ROUTINES, Slot
from presk_db.keys import KEY_LIMIT, KEY_WORDS
from presk_db.language.graph import Equation, Function, Graph, Kind, Var
from presk_db.language.primitives import LAYOUT, MARKS
from presk_db.lowering.realization import Realization

UNSTORED = (*LAYOUT, "const", "iota")
"""Equations whose value has no memory: other indices of an operand, or computed wherever it is used."""

OVER_NOTHING = {"reduce_sum": 0.0, "matmul": 0.0, "scatter_add": 0.0, "reduce_max": -math.inf}
"""The elements of equations that fold nothing: an empty axis, no updates."""

Scope = tuple[tuple[int, int], ...]
"""A path of fold iterations, each a fold's number and a layer."""


@dataclass(eq=False)
class Value:
    """A value of the flat graph. With `window` (v, l) it is the l-th run of as many elements as it has in v's memory.

    A `scalar` is a scalar argument, or one number computed from such and from constants: an f64 in every realization.
    """

    id: int
    kind: Kind
    shape: tuple[int, ...]
    limit: int | None
    site: str
    type: str
    equation: "FlatEquation | None" = None
    window: "tuple[Value, int] | None" = None
    scalar: bool = False


@dataclass(eq=False)
class FlatEquation:
    """One primitive. `scope` is the path of fold iterations that it stands in, `call` its call's number."""

    op: str
    inputs: tuple[Value, ...]
    output: Value
    attributes: Mapping[str, Any]
    call: int
    scope: Scope
    source: str


@dataclass
class Flat:
    """The whole entry, flat: `results` are (name, value) pairs; every equation's values have elements."""

    parameters: list[tuple[str, Value]] = field(default_factory=list)
    inputs: list[tuple[str, Value]] = field(default_factory=list)
    equations: list[FlatEquation] = field(default_factory=list)
    results: list[tuple[str, Value]] = field(default_factory=list)
    functions: list[FunctionInfo] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    folds: list[FoldInfo] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    """Values that need memory of their own whoever uses them: results, parts of stacks, what layers are windows on."""
    updates: list[tuple[Value, Value, str]] = field(default_factory=list)
    """New values of some state, each with the old one and its source line."""
    renewed: list[tuple[str, Value]] = field(default_factory=list)
    """The results that are new values of a parameter or an input, each with it."""
    seen: dict[int, tuple[int, Value, int]] = field(default_factory=dict)
    """Values of which only the first elements count, by id: the axis, and the integer and the number whose sum they are."""


class _Flattener:
    def __init__(self, realization: Realization) -> None:
        self.realization = realization
        self.flat = Flat()
        self.count = 0
        self.taken: set[int] = set()
        self.function_numbers: dict[int, int] = {}

    def value(self, var: Var, site: str) -> Value:
        self.count += 1
        if var.kind == "key":
            return Value(self.count, "int", (*var.shape, KEY_WORDS), KEY_LIMIT, site, "i64")
        type_ = {"int": "i64", "bool": "bool"}.get(var.kind) or self.realization.type_of(site)
        return Value(self.count, var.kind, var.shape, var.limit, site, type_)

    def function_number(self, function: Function) -> int:
        if id(function) not in self.function_numbers:
            self.function_numbers[id(function)] = len(self.flat.functions)
            self.flat.functions.append(FunctionInfo(function.name, function.source))
        return self.function_numbers[id(function)]

    def call(
        self, function: Function, parent: int | None, label: str, fold: int | None = None, iteration: int | None = None
    ) -> int:
        number = len(self.flat.calls)
        self.flat.calls.append(Call(number, parent, self.function_number(function), label, fold, iteration))
        return number

    def body(self, function: Function, arguments: list[Value], call: int, path: str, scope: Scope) -> list[Value]:
        """Expands one call of `function`; returns its results."""
        values: dict[int, Value] = {v.id: a for v, a in zip(function.parameters, arguments, strict=True)}
        labels: dict[str, int] = {}

        def label(name: str) -> str:
            labels[name] = labels.get(name, 0) + 1
            return name if labels[name] == 1 else f"{name}#{labels[name]}"

        for e in function.equations:
            inputs = [values[v.id] for v in e.inputs]
            if e.op == "call":
                callee: Function = e["function"]
                name = label(callee.name)
                results = self.body(callee, inputs, self.call(callee, call, name), f"{path}/{name}", scope)
            elif e.op == "fold":
                results = self.fold(e, inputs, call, label(e["function"].name), path, scope)
            else:
                results = [self.primitive(e, inputs, call, f"{path}/{label(e.op)}", scope)]
            for var, value in zip(e.outputs, results, strict=True):
                values[var.id] = value
        return [values[v.id] for v in function.results]

    def primitive(self, e: Equation, inputs: list[Value], call: int, site: str, scope: Scope) -> Value:
        if e.op in MARKS:
            if e.op == "seen":
                self.flat.seen[inputs[0].id] = e["axis"], inputs[1], e["count"]
            return self.mark(e, inputs, call, site, scope)
        output = self.value(e.outputs[0], site)
        if e.op in ROUTINES:
            return self.routine(e, inputs, output, call, scope)
        if output.kind == "real" and output.shape == () and any(v.scalar for v in inputs):
            hosts = [self.in_f64(v) for v in inputs]
            if all(v is not None for v in hosts):
                inputs = [v for v in hosts if v is not None]
                output.type, output.scalar = "f64", True
        if e.op in OVER_NOTHING and 0 in e.inputs[0].shape and 0 not in output.shape:
            self.count += 1
            nothing = Value(self.count, "real", (), None, f"{site}/const", output.type)
            self.append("const", [], nothing, {"value": OVER_NOTHING[e.op]}, call, scope, e.source)
            return self.append("broadcast", [nothing], output, {}, call, scope, e.source)
        if e.op == "concat":
            inputs = [v for v in inputs if 0 not in v.shape]
        return self.append(e.op, inputs, output, dict(e.attributes), call, scope, e.source)

    def routine(self, e: Equation, inputs: list[Value], output: Value, call: int, scope: Scope) -> Value:
        """A routine's equation: reals that it gives or is given one of are f64, arrays lie row by row in memory."""
        if output.kind == "real":
            output.type = "f64"
        slots = [s for s in ROUTINES[e.op] if s.mode in ("in", "value")]
        given = [self.argument(v, s, call, scope, e.source) for v, s in zip(inputs, slots, strict=True)]
        return self.append(e.op, given, output, {}, call, scope, e.source)

    def argument(self, value: Value, slot: Slot, call: int, scope: Scope, source: str) -> Value:
        """A value as a routine takes it."""
        if slot.mode == "value":
            return self.in_f64(value) or value
        root = value
        while root.equation is not None and root.equation.op == "reshape":
            root = root.equation.inputs[0]
        if root.equation is None or root.equation.op not in UNSTORED:
            return value
        return self.copy(value, f"{value.site}/copy", value.type, call, scope, source)

    def mark(self, e: Equation, inputs: list[Value], call: int, site: str, scope: Scope) -> Value:
        """The operand itself; of a site with another type, or a state of one, the operand in that type."""
        value = inputs[0]
        type_ = value.type
        if e.op == "site" and not value.scalar:
            type_ = self.realization.type_of(site)
        elif e.op == "update":
            type_ = inputs[1].type
        if type_ != value.type:
            value = self.copy(value, site, type_, call, scope, e.source)
        if e.op == "update":
            self.flat.updates.append((value, inputs[1], e.source))
        return value

    def in_f64(self, value: Value) -> Value | None:
        """A scalar, or a number computed from constants alone, in f64; None for any other value."""
        e = value.equation
        if value.scalar or value.kind != "real":
            return value if value.kind != "real" or value.scalar else None
        if e is None or value.shape != () or (e.op != "const" and not e.inputs):
            return None
        inputs = [self.in_f64(v) for v in e.inputs]
        if any(v is None for v in inputs):
            return None
        self.count += 1
        output = Value(self.count, "real", (), None, value.site, "f64")
        found = [v for v in inputs if v is not None]
        return self.append(e.op, found, output, e.attributes, e.call, e.scope, e.source)

    def append(
        self,
        op: str,
        inputs: list[Value],
        output: Value,
        attributes: Mapping[str, Any],
        call: int,
        scope: Any,
        source: str,
    ) -> Value:
        output.equation = FlatEquation(op, tuple(inputs), output, attributes, call, scope, source)
        self.flat.equations.append(output.equation)
        return output

    def fold(self, e: Equation, inputs: list[Value], call: int, label: str, path: str, scope: Scope) -> list[Value]:
        function: Function = e["function"]
        length, carried, stacked = e["length"], e["carried"], e["stacked"]
        fold = len(self.flat.folds)
        self.flat.folds.append(FoldInfo(fold, call, self.function_number(function), label, length, e["descending"]))
        carry, stacks, shared = inputs[:carried], inputs[carried : carried + stacked], inputs[carried + stacked :]
        memory = [self.contiguous(s, call, scope, e.source) for s in stacks]
        outputs = [self.value(var, f"{path}/{label}/stack.{i}") for i, var in enumerate(e.outputs[carried:])]
        typed = length == 0
        collected: dict[int, list[Value]] = {}
        order = range(length - 1, -1, -1) if e["descending"] else range(length)
        for l in order:
            name = f"{label}.{l}"
            layers = [self.layer(s, root, first + l) for s, (root, first) in zip(stacks, memory, strict=True)]
            number = self.call(function, call, name, fold, l)
            inside = (*scope, (fold, l))
            results = self.body(function, [*carry, *layers, *shared], number, f"{path}/{name}", inside)
            carry = results[:carried]
            if not typed:
                typed = True
                for stack, value in zip(outputs, results[carried:], strict=True):
                    if not self.realization.names(stack.site):
                        stack.type = value.type
            pairs = zip(results[carried:], outputs, strict=True)
            collected[l] = [self.part(v, stack, number, inside, e.source) for v, stack in pairs]
        for i, stack in enumerate(outputs):
            parts = [collected[l][i] for l in range(length)]
            self.append("stack", parts, stack, {}, call, scope, e.source)
        return [*carry, *outputs]

    def copy(self, value: Value, site: str, type_: str, call: int, scope: Scope, source: str) -> Value:
        """The value's elements, row by row, in memory of their own."""
        self.count += 1
        copy = Value(self.count, value.kind, value.shape, value.limit, site, type_)
        return self.append("pack", [value], copy, {}, call, scope, source)

    def contiguous(self, stack: Value, call: int, scope: Scope, source: str) -> tuple[Value, int]:
        """A value whose memory holds the stack's layers one after the other, and the place of the first among them.

        That is the stack itself, what it is a reshape or a leading slice of, or a copy.
        """
        root, offset = stack, 0
        while root.equation is not None and _keeps_rows(root.equation):
            e = root.equation
            root = e.inputs[0]
            offset += e.attributes.get("start", 0) * math.prod(root.shape[1:])
        size = math.prod(stack.shape[1:])
        alike = (root.type, root.limit) == (stack.type, stack.limit) and size > 0 and offset % size == 0
        if not alike or (root.equation is not None and root.equation.op in UNSTORED):
            root, offset = self.copy(stack, f"{stack.site}/copy", stack.type, call, scope, source), 0
        self.flat.stored.add(root.id)
        return root, offset // size if size else 0

    def part(self, value: Value, stack: Value, call: int, scope: Scope, source: str) -> Value:
        """What an iteration collects: a value that this iteration computes for this stack alone, or else a copy."""
        e = value.equation
        own = e is not None and e.op not in (*UNSTORED, "stack") and e.scope[: len(scope)] == scope
        if not own or value.id in self.taken or value.type != stack.type:
            value = self.copy(value, f"{value.site}/copy", stack.type, call, scope, source)
        self.taken.add(value.id)
        return value

    def layer(self, stack: Value, root: Value, place: int) -> Value:
        self.count += 1
        layer = Value(self.count, stack.kind, stack.shape[1:], stack.limit, f"{root.site}.{place}", stack.type)
        layer.window = (root, place)
        return layer


def _keeps_rows(e: FlatEquation) -> bool:
    """Whether the equation gives a run of its operand's elements in their order."""
    return e.op == "reshape" or (e.op == "slice" and e.attributes["axis"] == 0)


def flat_graph(graph: Graph, realization: Realization) -> Flat:
    """Expands a graph and gives each site its type.

    Raises SiteUnknown (E3002) for a rule that matches no site, EntryBad (E1203) for an update that no result needs, and
    for a second update of one parameter or input.
    """
    flattener = _Flattener(realization)
    flat = flattener.flat
    names = [f"parameters/{n}" for n, _ in graph.parameters] + [f"inputs/{n}" for n, _ in graph.inputs]
    arguments = [flattener.value(v, n) for v, n in zip(graph.entry.parameters, names, strict=True)]
    count = len(graph.parameters)
    flat.parameters = [(n, v) for (n, _), v in zip(graph.parameters, arguments[:count], strict=True)]
    flat.inputs = [(n, v) for (n, _), v in zip(graph.inputs, arguments[count:], strict=True)]
    for (_, given), value in zip(graph.inputs, arguments[count:], strict=True):
        if given.scalar:
            value.type, value.scalar = "f64", True
    root = flattener.call(graph.entry, None, graph.entry.name)
    results = flattener.body(graph.entry, arguments, root, graph.entry.name, ())
    renewed = _renewed(flat.updates, arguments)
    for name, value in zip(graph.results, results, strict=True):
        if value.id in renewed:
            flat.renewed.append((name, renewed.pop(value.id)))
        if value.equation is None or value.equation.op in UNSTORED or value.id in flattener.taken:
            value = flattener.copy(value, f"{graph.entry.name}/{name}", value.type, root, (), graph.entry.source)
        flattener.taken.add(value.id)
        flat.results.append((name, value))
    realization.check_used()
    flat.stored |= flattener.taken
    flat.equations = _live(flat)
    return flat


def _renewed(updates: list[tuple[Value, Value, str]], arguments: list[Value]) -> dict[int, Value]:
    """By the number of a new value: the parameter or input that it updates. EntryBad where one has two new values."""
    known = {v.id for v in arguments}
    found: dict[int, Value] = {}
    for value, old, source in updates:
        if old.id not in known:
            continue
        if any(state is old for state in found.values()):
            raise EntryBad(f"a second new value of {old.site} is computed here", source)
        found[value.id] = old
    return found


def _live(flat: Flat) -> list[FlatEquation]:
    """The equations that a result depends on, without those that give no elements. EntryBad for a lost update."""
    needed = {v.id for _, v in flat.results}
    live = []
    for e in reversed(flat.equations):
        if e.output.id not in needed or 0 in e.output.shape:
            continue
        live.append(e)
        for value in e.inputs:
            needed.add(value.id)
            while value.window is not None:
                value = value.window[0]
                needed.add(value.id)
    for value, _, source in flat.updates:
        if value.id not in needed:
            raise EntryBad("a new value of some state is computed here and not returned: return it", source)
    return live[::-1]
