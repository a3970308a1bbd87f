"""The flat graph: every call and fold expanded, each value a site with a type, the tree of calls kept beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from presk_db.kernels.launches import Call, FoldInfo, FunctionInfo
from presk_db.language.graph import Equation, Function, Graph, Kind, Var
from presk_db.lowering.realization import Realization


@dataclass(eq=False)
class Value:
    """A value of the flat graph. `window` says that it is layer `l` of a stacked value: (that value, l)."""

    id: int
    kind: Kind
    shape: tuple[int, ...]
    limit: int | None
    site: str
    type: str
    equation: "FlatEquation | None" = None
    window: "tuple[Value, int] | None" = None


@dataclass(eq=False)
class FlatEquation:
    """One primitive. `scope` is the path of fold iterations that it stands in, `call` its call's number."""

    op: str
    inputs: tuple[Value, ...]
    output: Value
    attributes: Mapping[str, Any]
    call: int
    scope: tuple[tuple[int, int], ...]
    source: str


@dataclass
class Flat:
    """The whole entry, flat: `results` are (name, value) pairs."""

    parameters: list[tuple[str, Value]] = field(default_factory=list)
    inputs: list[tuple[str, Value]] = field(default_factory=list)
    equations: list[FlatEquation] = field(default_factory=list)
    results: list[tuple[str, Value]] = field(default_factory=list)
    functions: list[FunctionInfo] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    folds: list[FoldInfo] = field(default_factory=list)


class _Flattener:
    def __init__(self, realization: Realization) -> None:
        self.realization = realization
        self.flat = Flat()
        self.count = 0
        self.function_numbers: dict[int, int] = {}

    def value(self, var: Var, site: str) -> Value:
        self.count += 1
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

    def body(
        self, function: Function, arguments: list[Value], call: int, path: str, scope: tuple[tuple[int, int], ...]
    ) -> list[Value]:
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

    def primitive(
        self, e: Equation, inputs: list[Value], call: int, site: str, scope: tuple[tuple[int, int], ...]
    ) -> Value:
        output = self.value(e.outputs[0], site)
        return self.append(e.op, inputs, output, dict(e.attributes), call, scope, e.source)

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

    def fold(
        self, e: Equation, inputs: list[Value], call: int, label: str, path: str, scope: tuple[tuple[int, int], ...]
    ) -> list[Value]:
        function: Function = e["function"]
        length, carried, stacked = e["length"], e["carried"], e["stacked"]
        fold = len(self.flat.folds)
        self.flat.folds.append(FoldInfo(fold, call, self.function_number(function), label, length, e["descending"]))
        carry, stacks, shared = inputs[:carried], inputs[carried : carried + stacked], inputs[carried + stacked :]
        collected: dict[int, list[Value]] = {}
        order = range(length - 1, -1, -1) if e["descending"] else range(length)
        for l in order:
            name = f"{label}.{l}"
            layers = [self.layer(s, l) for s in stacks]
            number = self.call(function, call, name, fold, l)
            results = self.body(function, [*carry, *layers, *shared], number, f"{path}/{name}", (*scope, (fold, l)))
            carry, collected[l] = results[:carried], results[carried:]
        outputs = carry
        for i, var in enumerate(e.outputs[carried:]):
            stack = self.value(var, f"{path}/{label}/stack.{i}")
            parts = [collected[l][i] for l in range(length)]
            outputs.append(self.append("stack", parts, stack, {}, call, scope, e.source))
        return outputs

    def layer(self, stack: Value, l: int) -> Value:
        self.count += 1
        layer = Value(self.count, stack.kind, stack.shape[1:], stack.limit, f"{stack.site}.{l}", stack.type)
        layer.window = (stack, l)
        return layer


def flat_graph(graph: Graph, realization: Realization) -> Flat:
    """Expands a graph and gives each site its type. Raises SiteUnknown (E3002) for a rule that matches no site."""
    flattener = _Flattener(realization)
    flat = flattener.flat
    names = [f"parameters/{n}" for n, _ in graph.parameters] + [f"inputs/{n}" for n, _ in graph.inputs]
    arguments = [flattener.value(v, n) for v, n in zip(graph.entry.parameters, names, strict=True)]
    count = len(graph.parameters)
    flat.parameters = [(n, v) for (n, _), v in zip(graph.parameters, arguments[:count], strict=True)]
    flat.inputs = [(n, v) for (n, _), v in zip(graph.inputs, arguments[count:], strict=True)]
    root = flattener.call(graph.entry, None, graph.entry.name)
    results = flattener.body(graph.entry, arguments, root, graph.entry.name, ())
    taken: set[int] = set()
    for name, value in zip(graph.results, results, strict=True):
        if (
            value.equation is None
            or value.equation.op in ("reshape", "transpose", "slice", "broadcast", "stack")
            or value.id in taken
        ):
            flattener.count += 1
            copy = Value(
                flattener.count, value.kind, value.shape, value.limit, f"{graph.entry.name}/{name}", value.type
            )
            value = flattener.append("pack", [value], copy, {}, root, (), graph.entry.source)
        taken.add(value.id)
        flat.results.append((name, value))
    realization.check_used()
    return flat
