"""grad and value_and_grad: reverse mode, from functions of the graph to functions of the graph.

`derivative(f)` makes two functions of a function f. The forward one is f, with further results: the values that the
backward one needs (residuals). The backward one, `f_grad`, takes those parameters of f that it needs, the residuals and
the cotangents of f's results, and gives the cotangents of f's parameters. A call becomes a call of each. A fold becomes
a fold that collects residuals, and a fold in the other direction that collects the gradients of the stacked parameters.

What is cheap (arithmetic on elements, other indices, constants) is computed again in the backward function; a residual
is a result of a product, a reduction, a function such as exp, a division, a root, or a call. The cotangents of a value
that is used several times are added from its last use to its first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from presk_db.errors import EntryBad
from presk_db.language.activity import active_values, fold_needs
from presk_db.language.derivative_rules import At, Behind, Cotangent, Piece, rules_of, zeros
from presk_db.language.graph import Equation, Function, Var
from presk_db.language.primitives import ELEMENTWISE, LAYOUT, MARKS, UNARY, concat
from presk_db.language.tracing import (
    Tensor,
    Trace,
    current_trace,
    emit,
    emit_many,
    flatten,
    inside,
    rebuilt,
    source_line,
    traced,
)

CHEAP = ({*ELEMENTWISE, *LAYOUT, *MARKS, "const", "iota"} - {*UNARY, "div"}) | {"neg", "abs"}
"""Equations that a backward function does again rather than keep their results."""

FAR = 16
"""So many operations on elements in a row are not done again."""


@dataclass(frozen=True, eq=False)
class Derivative:
    """Of a function f.

    `forward` gives f's results, then the values `kept`. `backward` takes f's parameters of the numbers `primals`, f's
    results of the numbers `results`, the values kept, and the cotangents; it gives the cotangents of f's parameters of
    the numbers `gives`.
    """

    forward: Function
    backward: Function
    primals: tuple[int, ...]
    results: tuple[int, ...]
    kept: tuple[Var, ...]
    gives: tuple[int, ...]


def value_and_grad(fn: Callable[..., Any], aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function of the same arguments that gives what `fn` gives, and its gradient: a tree like the first argument.

    `fn` gives a real tensor of shape (); with `aux`, a pair of that and a tree of further tensors. A parameter on which
    it does not depend has the gradient 0. Raises EntryBad (E1203) where there are no parameters, where it depends on
    none of them, or where it gives something else.
    """
    plain = getattr(fn, "__wrapped__", fn)

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        f, result = traced(plain, args, kwargs)
        inputs = [leaf for _, leaf in flatten((args, kwargs)) if isinstance(leaf, Tensor)]
        parameters = [leaf for _, leaf in flatten(args[:1])]
        loss = f.results[0]
        if (loss.kind, loss.shape) != ("real", ()) or (len(f.results) != 1 and not aux):
            given = ", ".join(v.type_text for v in f.results)
            raise EntryBad(f"{f.name} must give one real number to be differentiated, not {given}", source_line())
        if not parameters:
            raise EntryBad(f"{f.name} has no parameters by which to differentiate it", source_line())
        needs = tuple(i < len(parameters) and t.kind == "real" for i, t in enumerate(inputs))
        d = derivative(f, needs, tuple(i == 0 for i in range(len(f.results))))
        if not d.gives:
            raise EntryBad(f"{f.name} does not depend on its parameters", source_line())
        outputs = _called(d.forward, inputs)
        one = emit("const", [], "real", (), value=1.0)
        values = [*(inputs[i] for i in d.primals), *(outputs[i] for i in d.results), *outputs[len(f.results) :]]
        found = _called(d.backward, [*values, one])
        by_number = dict(zip(d.gives, found, strict=True))
        grads = [by_number[i] if i in by_number else zeros(t.shape) for i, t in enumerate(parameters)]
        return rebuilt(result, iter(outputs)), rebuilt(args[0], iter(grads))

    return call


def grad(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same arguments that gives the gradient of `fn`: a tree like the first argument."""
    both = value_and_grad(fn)
    return wraps(fn)(lambda *args, **kwargs: both(*args, **kwargs)[1])


def derivative(f: Function, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Derivative:
    """The derivative by the parameters that `needs` marks, from cotangents of the results that `given` marks."""
    cache = current_trace().root.derivatives
    key = (f, needs, given)
    if key not in cache:
        cache[key] = _Reverse(f, needs, given).derivative()
    found: Derivative = cache[key]
    return found


def _called(f: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    return emit_many("call", inputs, [(v.kind, v.shape, v.limit) for v in f.results], {"function": f})


class _Reverse:
    """One function, walked from its last equation to its first."""

    def __init__(self, f: Function, needs: tuple[bool, ...], given: tuple[bool, ...]) -> None:
        self.f, self.needs, self.given = f, needs, given
        self.active = active_values(f, needs)
        self.trace = Trace(current_trace().root)
        self.made = {v: e for e in f.equations for v in e.outputs}
        self.costs: dict[Var, int] = {}
        self.taken: dict[Var, Tensor] = {}
        self.cotangents: dict[Var, list[Tensor | Piece]] = {}
        self.replaced: dict[Equation, Equation] = {}

    def derivative(self) -> Derivative:
        """Walks back and builds both functions."""
        f = self.f
        with inside(self.trace):
            ends = []
            for v, has in zip(f.results, self.given, strict=True):
                if has:
                    ends.append(self._new(v))
                    self.hand(v, ends[-1])
            for e in reversed(f.equations):
                self.trace.source = e.source
                gs = [self.total(v) for v in e.outputs]
                if any(g is not None for g in gs):
                    self._equation(e, gs)
            totals = [self.total(v) if n else None for v, n in zip(f.parameters, self.needs, strict=True)]
        equations = tuple(self.replaced.get(e, e) for e in f.equations)
        made = [v for e in equations for v in e.outputs if v in self.taken]
        again = tuple(f.results.index(v) for v in made if v in f.results)
        kept = tuple(v for v in made if v not in f.results)
        primals = tuple(i for i, v in enumerate(f.parameters) if v in self.taken)
        changed = bool(kept or self.replaced)
        forward = Function(f.name, f.source, f.parameters, equations, (*f.results, *kept)) if changed else f
        gives = tuple(i for i, t in enumerate(totals) if t is not None)
        results = tuple(t.var for t in totals if t is not None)
        values = [*(f.parameters[i] for i in primals), *(f.results[i] for i in again), *kept]
        takes = [*(self.taken[v] for v in values), *ends]
        body = live_equations(self.trace.equations, results)
        backward = Function(f"{f.name}_grad", f.source, tuple(t.var for t in takes), body, results)
        return Derivative(forward, backward, primals, again, kept, gives)

    def _new(self, like: Var) -> Tensor:
        return Tensor(self.trace.new_var(like.kind, like.shape, like.limit), self.trace)

    def take(self, v: Var) -> Tensor:
        """A value of the forward function, as a parameter of the backward one."""
        if v not in self.taken:
            self.taken[v] = self._new(v)
        return self.taken[v]

    def cost(self, v: Var) -> int:
        """How many operations on elements compute a value from what is kept; FAR where it is itself kept."""
        if v not in self.costs:
            e = self.made.get(v)
            if e is None or e.op not in CHEAP:
                self.costs[v] = 0 if e is None else FAR
            else:
                own = int(e.op in ELEMENTWISE)
                self.costs[v] = min(FAR, own + sum(self.cost(i) % FAR for i in e.inputs))
        return self.costs[v]

    def primal(self, v: Var) -> Tensor:
        """A value of the forward function in the backward one: computed again where that is cheap, else taken.

        It is computed anew for each equation, so that each kernel computes what it needs.
        """
        e = self.made.get(v)
        if e is None or self.cost(v) >= FAR:
            return self.take(v)
        if e.op == "update":  # the forward function's update is the one
            return self.primal(e.inputs[0])
        return emit(e.op, [self.primal(i) for i in e.inputs], v.kind, v.shape, v.limit, **dict(e.attributes))

    def argument(self, v: Var) -> Tensor:
        """A value that goes to another function's gradient: it is stored anyway, so only other indices are done again."""
        return self.primal(v) if self.cost(v) == 0 else self.take(v)

    # --- cotangents ----------------------------------------------------------------------------------------------

    def hand(self, v: Var, cotangent: Cotangent) -> None:
        """Adds to what `v` is handed, if the gradient depends on it."""
        if v not in self.active:
            return
        if isinstance(cotangent, Behind):
            v, cotangent = self.made[v].inputs[0], cotangent.tensor
        self.cotangents.setdefault(v, []).append(cotangent)

    def total(self, v: Var) -> Tensor | None:
        """The sum of what `v` was handed, in that order; None for nothing."""
        parts = self.cotangents.pop(v, [])
        pieces = [p for p in parts if isinstance(p, Piece)]
        tensors = [p for p in parts if isinstance(p, Tensor)]
        while pieces:
            axis, end, chosen = pieces[0].axis, 0, []
            for p in sorted((p for p in pieces if p.axis == axis), key=lambda p: p.start):
                if p.start >= end:
                    chosen.append(p)
                    end = p.start + p.tensor.shape[axis]
            tensors.append(_joined(chosen, axis, v.shape))
            pieces = [p for p in pieces if p not in chosen]
        whole = tensors[0] if tensors else None
        for t in tensors[1:]:
            assert whole is not None
            whole = whole + t
        return whole

    # --- equations -----------------------------------------------------------------------------------------------

    def _equation(self, e: Equation, gs: list[Tensor | None]) -> None:
        if e.op == "call":
            self._call(e, gs)
        elif e.op == "fold":
            self._fold(e, gs)
        else:
            assert gs[0] is not None
            at = At(e, gs[0], self.primal, self.made.get)
            for v, rule in zip(e.inputs, rules_of(e), strict=True):
                if rule is not None and v in self.active:
                    self.hand(v, rule(at))

    def _call(self, e: Equation, gs: list[Tensor | None]) -> None:
        needs = tuple(v in self.active for v in e.inputs)
        d = derivative(e["function"], needs, tuple(g is not None for g in gs))
        if not d.gives:
            return
        kept = self._replace(e, d.forward, [(k.kind, k.shape, k.limit) for k in d.kept])
        values = [self.argument(e.inputs[i]) for i in d.primals] + [self.take(e.outputs[i]) for i in d.results]
        found = _called(d.backward, [*values, *kept, *(g for g in gs if g is not None)])
        for i, g in zip(d.gives, found, strict=True):
            self.hand(e.inputs[i], g)

    def _replace(self, e: Equation, function: Function, types: Sequence[Any]) -> list[Tensor]:
        """Lets a call or fold use `function`, with further outputs; these, as parameters of the backward function."""
        more = tuple(self.trace.new_var(*t) for t in types)
        if function is not e["function"]:
            attributes = tuple((k, function if k == "function" else v) for k, v in e.attributes)
            self.replaced[e] = Equation(e.op, e.inputs, (*e.outputs, *more), attributes, e.source)
        return [self.take(v) for v in more]

    def _fold(self, e: Equation, gs: list[Tensor | None]) -> None:
        """The fold back: carries cotangents and sums for what is shared, collects gradients of what is stacked."""
        f, n, carried, stacked = e["function"], e["length"], e["carried"], e["stacked"]
        needs = fold_needs(e, frozenset(self.active))
        given = [g is not None for g in gs]
        while True:
            d = derivative(f, needs, tuple(given))
            more = [i for i in d.gives if i < carried and not given[i]]
            if not more:
                break
            for i in more:
                given[i] = True
        if not d.gives:
            return
        back = _FoldBack(d, f, carried, stacked, given, current_trace().root.recompute)
        inner = [(v.kind, (n, *v.shape), v.limit) for v in back.collected]
        stacks = self._replace(e, back.forward, inner)
        iteration = back.iteration()
        ends = [g if g is not None else zeros(v.shape) for g, v, has in zip(gs, e.outputs, given, strict=True) if has]
        count = sum(given[:carried])
        carry = [*ends[:count], *(zeros(e.inputs[i].shape) for i in back.shared_gives)]
        layers = [self.argument(e.inputs[i]) for i in back.layer_primals]
        shared = [self.argument(e.inputs[i]) for i in back.shared_primals]
        per_layer = [*layers, *stacks, *ends[count:]]
        types = [(t.kind, t.shape, t.var.limit) for t in carry]
        types += [("real", e.inputs[i].shape, None) for i in back.layer_gives]
        attributes = {"function": iteration, "length": n, "carried": len(carry), "stacked": len(per_layer)}
        attributes["descending"] = not e["descending"]
        found = emit_many("fold", [*carry, *per_layer, *shared], types, attributes)
        targets = [i for i in range(carried) if given[i]] + back.shared_gives + back.layer_gives
        for i, g in zip(targets, found, strict=True):
            self.hand(e.inputs[i], g)


class _FoldBack:
    """The two functions of a fold's gradient: an iteration that collects, and an iteration back.

    Kept for each layer are the carried values that came in and the residuals; to recompute, the carried values alone.
    """

    def __init__(
        self, d: Derivative, f: Function, carried: int, stacked: int, given: list[bool], recompute: bool
    ) -> None:
        self.d, self.f, self.carried, self.given, self.recompute = d, f, carried, given, recompute
        taken = range(len(f.parameters)) if recompute else d.primals
        source = f if recompute else d.forward
        self.carry_primals = [i for i in taken if i < carried]
        self.layer_primals = [i for i in taken if carried <= i < carried + stacked]
        self.shared_primals = [i for i in taken if i >= carried + stacked]
        self.layer_gives = [i for i in d.gives if carried <= i < carried + stacked]
        self.shared_gives = [i for i in d.gives if i >= carried + stacked]
        carries = tuple(f.parameters[i] for i in self.carry_primals)
        self.values = (*(f.results[i] for i in d.results), *d.kept)
        self.collected = carries if recompute else (*self.values, *carries)
        results = (*f.results, *self.collected)
        self.forward = Function(f.name, f.source, f.parameters, source.equations, results)

    def iteration(self) -> Function:
        """Takes cotangents and sums (carried), parameters, residuals, carried values and cotangents (stacked), shared."""
        d, f = self.d, self.f
        trace = Trace(current_trace().root)
        trace.source = f.source

        def new(v: Var) -> Tensor:
            return Tensor(trace.new_var(v.kind, v.shape, v.limit), trace)

        with inside(trace):
            ends = [new(v) for v, given in zip(f.results, self.given, strict=True) if given]
            count = sum(self.given[: self.carried])
            sums = [new(f.parameters[i]) for i in self.shared_gives]
            primals = {
                i: new(f.parameters[i]) for i in (*self.layer_primals, *self.carry_primals, *self.shared_primals)
            }
            kept = [] if self.recompute else [new(v) for v in self.values]
            takes = [*ends[:count], *sums, *(primals[i] for i in self.layer_primals), *kept]
            takes += [*(primals[i] for i in self.carry_primals), *ends[count:]]
            takes += [primals[i] for i in self.shared_primals]
            if self.recompute:
                again = _called(d.forward, [primals[i] for i in range(len(f.parameters))])
                kept = [*(again[i] for i in d.results), *again[len(f.results) :]]
            arguments = [*(primals[i] for i in d.primals), *kept, *ends]
            found = dict(zip(d.gives, self._backward(arguments, trace), strict=True))
            wanted = [i for i in range(self.carried) if self.given[i]]
            results = [found[i] if i in found else zeros(f.parameters[i].shape) for i in wanted]
            results += [s + found[i] for s, i in zip(sums, self.shared_gives, strict=True)]
            results += [found[i] for i in self.layer_gives]
        variables = tuple(t.var for t in results)
        return Function(f"{f.name}_grad", f.source, tuple(t.var for t in takes), tuple(trace.equations), variables)

    def _backward(self, arguments: list[Tensor], trace: Trace) -> list[Tensor]:
        """The backward function's equations right here; a call of it behind the call that recomputes."""
        if self.recompute:
            return _called(self.d.backward, arguments)
        names = dict(zip(self.d.backward.parameters, (t.var for t in arguments), strict=True))
        for e in self.d.backward.equations:
            inputs = tuple(names.get(v, v) for v in e.inputs)
            trace.equations.append(Equation(e.op, inputs, e.outputs, e.attributes, e.source))
        return [Tensor(names.get(v, v), trace) for v in self.d.backward.results]


def _joined(pieces: list[Piece], axis: int, shape: tuple[int, ...]) -> Tensor:
    """Pieces in order along an axis, with zeros between."""
    parts: list[Tensor] = []
    end = 0

    def gap(to: int) -> None:
        if to > end:
            parts.append(zeros((*shape[:axis], to - end, *shape[axis + 1 :])))

    for p in pieces:
        gap(p.start)
        parts.append(p.tensor)
        end = p.start + p.tensor.shape[axis]
    gap(shape[axis])
    return concat(parts, axis)


def live_equations(equations: Sequence[Equation], results: Sequence[Var]) -> tuple[Equation, ...]:
    """The equations that the results depend on, in order."""
    needed, live = set(results), []
    for e in reversed(equations):
        if needed.intersection(e.outputs):
            live.append(e)
            needed.update(e.inputs)
    return tuple(live[::-1])
