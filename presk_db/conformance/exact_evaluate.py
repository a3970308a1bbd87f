"""exact_values: a graph evaluated over the real numbers, each result a tensor of proven enclosures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from presk_db.conformance import balls
from presk_db.conformance.balls import Undecided, Values
from presk_db.errors import ExactUndecided
from presk_db.language.graph import Equation, Function, Graph, Var
from presk_db.language.primitives import BINARY, COMPARE, LAYOUT, UNARY
from presk_db.language.sampling import ROUTINES

Progress = Callable[[int, int], None]

TAIL = ("add", "sub", "neg", "mul", "div", *LAYOUT)
"""Equations through which the terms of a result's last sum are followed."""

KEPT_ELEMENTS = 4_000_000
"""The most elements whose balls are kept for conditions: about 90 bytes each."""


@dataclass
class Frame:
    """One use of a function whose values are kept: those on the way from its last sums to its results."""

    function: Function
    values: dict[int, Values] = field(default_factory=dict)
    calls: dict[int, "Frame"] = field(default_factory=dict)
    """By the equation's place in the function."""


@dataclass(frozen=True)
class ExactValues:
    """The results by name, and the entry's frame."""

    results: Mapping[str, Values]
    frame: Frame


def exact_values(
    graph: Graph, arguments: Sequence[Values], precision: int, progress: Progress = lambda done, total: None
) -> ExactValues:
    """The results at a working precision in bits. `arguments` are the parameters, then the inputs, in the graph's order.

    Raises ExactUndecided (E7005) where a comparison, or the edge of a function's domain, is not decided at it.
    """
    evaluation = _Evaluation(progress, equation_count(graph.entry))
    frame = Frame(graph.entry)
    with balls.working_precision(precision):
        results = evaluation.body(graph.entry, list(arguments), frame if tail_size(graph) <= KEPT_ELEMENTS else None)
    return ExactValues(dict(zip(graph.results, results, strict=True)), frame)


def equation_count(f: Function, op: str | None = None) -> int:
    """The primitives that a use of the function evaluates; with `op`, those of that name."""
    counts: dict[int, int] = {}

    def count(f: Function) -> int:
        if id(f) not in counts:
            counts[id(f)] = sum(
                count(e["function"]) * (e["length"] if e.op == "fold" else 1)
                if e.op in ("call", "fold")
                else int(op in (None, e.op))
                for e in f.equations
            )
        return counts[id(f)]

    return count(f)


def tail(f: Function) -> tuple[frozenset[int], frozenset[int]]:
    """The values of `f` that conditions read, and the places of the calls that their results come from."""
    makers = {v.id: (i, e) for i, e in enumerate(f.equations) for v in e.outputs}
    kept: set[int] = set()
    calls: set[int] = set()
    open_ = [v.id for v in f.results]
    while open_:
        number = open_.pop()
        if number in kept:
            continue
        kept.add(number)
        if number not in makers:
            continue
        place, e = makers[number]
        if e.op == "call":
            calls.add(place)
        elif e.op in TAIL:
            open_.extend(v.id for v in e.inputs)
        elif e.op in ("matmul", "reduce_sum"):
            kept.update(v.id for v in e.inputs)
    return frozenset(kept), frozenset(calls)


def tail_size(graph: Graph) -> int:
    """The elements of all values that would be kept for conditions."""

    def size(f: Function) -> int:
        kept, calls = tail(f)
        own = {v.id: int(np.prod(v.shape)) for v in (*f.parameters, *(o for e in f.equations for o in e.outputs))}
        return sum(own[n] for n in kept) + sum(size(f.equations[i]["function"]) for i in calls)

    return size(graph.entry)


class _Evaluation:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.path: list[str] = []

    def body(self, f: Function, arguments: list[Values], frame: Frame | None) -> list[Values]:
        """The results of one use of `f`; a value is dropped after its last use, unless the frame keeps it."""
        kept, followed = tail(f) if frame is not None else (frozenset[int](), frozenset[int]())
        last = {v.id: i for i, e in enumerate(f.equations) for v in e.inputs}
        last |= {v.id: len(f.equations) for v in f.results}
        values = {v.id: a for v, a in zip(f.parameters, arguments, strict=True)}
        arguments.clear()
        self.path.append(f.name)
        for place, e in enumerate(f.equations):
            inputs = [values[v.id] for v in e.inputs]
            for v in e.inputs:
                if last[v.id] == place and v.id not in kept:
                    values.pop(v.id, None)
            inner = Frame(e["function"]) if frame is not None and place in followed else None
            if frame is not None and inner is not None:
                frame.calls[place] = inner
            for var, value in zip(e.outputs, self._equation(e, inputs, inner), strict=True):
                assert value.shape == var.shape, f"{e.op} gave {value.shape} for {var.type_text}"
                if var.id in last or var.id in kept:
                    values[var.id] = value
        self.path.pop()
        if frame is not None:
            frame.values = {n: values[n] for n in kept if n in values}
        return [values[v.id] for v in f.results]

    def _equation(self, e: Equation, inputs: list[Values], inner: Frame | None) -> list[Values]:
        match e.op:
            case "call":
                return self.body(e["function"], inputs, inner)
            case "fold":
                return self._fold(e, inputs)
        if e.op in ROUTINES:
            raise ExactUndecided(f"{e.op} is a draw: the reals do not decide it", e.source)
        try:
            value = np.asarray(primitive(e, inputs))
        except Undecided:
            place = f"{'/'.join(self.path)}/{e.op} ({e.source})"
            raise ExactUndecided(
                "two values are too close to tell which is larger, or one is too close to 0", place
            ) from None
        self.done += 1
        self.progress(self.done, self.total)
        return [value]

    def _fold(self, e: Equation, inputs: list[Values]) -> list[Values]:
        carried, stacked = e["carried"], e["stacked"]
        carry, stacks, shared = inputs[:carried], inputs[carried : carried + stacked], inputs[carried + stacked :]
        inputs.clear()
        order = range(e["length"])
        collected: dict[int, list[Values]] = {}
        for l in reversed(order) if e["descending"] else order:
            arguments = [*carry, *(s[l] for s in stacks), *shared]
            carry.clear()
            self.path.append(str(l))
            results = self.body(e["function"], arguments, None)
            self.path.pop()
            carry, collected[l] = results[:carried], results[carried:]
        made = [_stack([collected[l][i] for l in order], var) for i, var in enumerate(e.outputs[carried:])]
        return [*carry, *made]


def _stack(layers: list[Values], var: Var) -> Values:
    if any(layer.dtype == object for layer in layers):
        layers = [balls.balls(layer) for layer in layers]
    return np.stack(layers) if layers else np.zeros(var.shape)


def primitive(e: Equation, inputs: Sequence[Values]) -> Values:
    """One primitive's value; Undecided where a ball is too wide."""
    out = e.outputs[0]
    if out.kind == "int" and e.op in ("add", "sub", "mul"):
        ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[e.op]
        return np.asarray(ufunc(*inputs))
    if e.op in UNARY:
        return balls.unary(e.op, inputs[0])
    if e.op in BINARY:
        return balls.binary(e.op, *inputs)
    if e.op in COMPARE:
        return balls.compared(e.op, *inputs)
    rule = _rules().get(e.op)
    assert rule is not None, f"the primitive {e.op} has no exact rule"
    return rule(e, *inputs)


@cache
def _rules() -> dict[str, Callable[..., Values]]:
    return {
        "and": lambda e, a, b: a & b,
        "or": lambda e, a, b: a | b,
        "not": lambda e, a: ~a,
        "select": lambda e, c, a, b: balls.selected(c, a, b),
        "real": lambda e, x: balls.reals(x),
        "reshape": lambda e, x: x.reshape(e.outputs[0].shape),
        "transpose": lambda e, x: x.transpose(e["axes"]),
        "slice": _slice,
        "broadcast": lambda e, x: np.broadcast_to(x, e.outputs[0].shape),
        "reduce_sum": lambda e, x: balls.summed(x, e["axis"]),
        "reduce_max": lambda e, x: balls.largest(x, e["axis"]),
        "argmax": lambda e, x: balls.first_largest(x, e["axis"]),
        "const": _const,
        "iota": _iota,
        "gather": lambda e, table, index: table[index],
        "scatter_add": _scattered,
        "take_rows": lambda e, x, start: x[_run(e, int(start), e.outputs[0].shape)],
        "put_rows": _put,
        "stop": lambda e, x: x,
        "site": lambda e, x: x,
        "update": lambda e, x, old: x,
        "seen": lambda e, x, start: x,
        "concat": _concat,
        "matmul": lambda e, a, b: balls.product(a, b),
    }


def _slice(e: Equation, x: Values) -> Values:
    start, axis = e["start"], e["axis"]
    part: Values = x[(slice(None),) * axis + (slice(start, start + e.outputs[0].shape[axis]),)]
    return part


def _run(e: Equation, start: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return (*(slice(None),) * e["axis"], slice(start, start + shape[e["axis"]]))


def _put(e: Equation, x: Values, rows: Values, start: Values) -> Values:
    if rows.dtype == object:
        x = balls.balls(x)
    result = x.copy()
    result[_run(e, int(start), e.inputs[1].shape)] = rows
    return result


def _const(e: Equation) -> Values:
    return np.asarray(e["value"], np.int64 if e.outputs[0].kind == "int" else np.float64)


def _iota(e: Equation) -> Values:
    shape, axis = e.outputs[0].shape, e["axis"]
    view = np.arange(shape[axis], dtype=np.int64).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(view, shape)


def _scattered(e: Equation, index: Values, updates: Values) -> Values:
    shape = e.outputs[0].shape
    rows = updates.reshape(index.size, *shape[1:])
    sums = [balls.summed(rows[index.reshape(-1) == row], 0) for row in range(shape[0])]
    return np.stack([balls.balls(s) for s in sums]) if sums else np.zeros(shape)


def _concat(e: Equation, *parts: Values) -> Values:
    if any(p.dtype == object for p in parts):
        parts = tuple(balls.balls(p) for p in parts)
    return np.concatenate(parts, e["axis"])
