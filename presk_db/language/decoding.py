"""decode_graph: from the graph of a forward pass over T tokens, that of one step: C tokens at a position, with caches.

A value of the forward pass whose element t along some axis depends on tokens up to t alone is, in the step, the rows
pos to pos + C - 1 of it. Where one is an operand whose positions do not meet the result's rows one to one (keys and
values of attention), all its rows so far are needed: the step puts its own into a cache, a state of the caller's, and
reads that. Positions of the forward pass become positions behind `pos`. So the step does the same operations for each
row, in the same functions and folds, and its results are rows of the forward pass, bit for bit: what a later position
could add is, by the mask that the graph has, an exact zero. A graph without such a mask is refused.
"""

from collections.abc import Sequence

from presk_db.errors import EntryBad
from presk_db.language.causality import Rows
from presk_db.language.graph import Function, Graph, Input
from presk_db.language.steps import Origin, Sizes, Step
from presk_db.language.tracing import Trace


def decode_graph(graph: Graph, count: int, tokens: str = "tokens", name: str = "decode") -> Graph:
    """The step of `count` tokens of a forward pass whose input `tokens` has its positions along the last axis.

    Its inputs are those of the forward pass, `tokens` with `count` positions; `pos`, the position of the first of them;
    and the caches, which it gives back. Raises EntryBad (E1203) where a position would need later ones.
    """
    given = dict(graph.inputs)
    if tokens not in given or not given[tokens].shape or given[tokens].kind != "int":
        raise EntryBad(f"a step is made of an entry with an input {tokens} of integers", graph.entry.source)
    axis = len(given[tokens].shape) - 1
    sizes = Sizes(count, given[tokens].shape[axis])
    if not 1 <= count <= sizes.length:
        raise EntryBad(f"a step has from 1 to {sizes.length} tokens, not {count}", graph.entry.source)
    names = [n for n, _ in graph.parameters] + [n for n, _ in graph.inputs]
    trace = Trace(None)
    states = tuple(Rows(axis) if n == tokens else None for n in names)
    made = Step(graph.entry, states, sizes, trace, top=True).stepped()
    parameters = {n: (p, ("full", i)) for i, (n, p) in enumerate(graph.parameters)}
    inputs: dict[str, tuple[Input, Origin]] = {n: (i, ("full", names.index(n))) for n, i in given.items()}
    inputs[tokens] = _resized(given[tokens], axis, count), ("row", names.index(tokens))
    inputs["pos"] = Input("int", (), sizes.length - count + 1), ("pos",)
    labels = _labels([n for n, _ in made.caches], {*inputs, *graph.results})
    for number, (label, (_, shape)) in enumerate(zip(labels, made.caches, strict=True)):
        inputs[label] = Input("real", shape, state=True), ("cache", number)
    used = dict(zip(made.origins, made.function.parameters, strict=True))
    variables = [used.get(o) or trace.new_var("real", p.shape) for p, o in parameters.values()]
    variables += [used.get(o) or trace.new_var(i.kind, i.shape, i.limit) for i, o in inputs.values()]
    entry = Function(name, graph.entry.source, tuple(variables), made.function.equations, made.function.results)
    return Graph(
        entry,
        tuple((n, p) for n, (p, _) in parameters.items()),
        tuple((n, i) for n, (i, _) in inputs.items()),
        (*graph.results, *labels),
    )


def _resized(i: Input, axis: int, count: int) -> Input:
    return Input(i.kind, (*i.shape[:axis], count, *i.shape[axis + 1 :]), i.limit, low=i.low, high=i.high)


def _labels(names: Sequence[str], taken: set[str]) -> list[str]:
    """Distinct names: `keys`, `values`, then with numbers."""
    labels: list[str] = []
    for name in names:
        number, label = 1, name
        while label in taken:
            number += 1
            label = f"{name}{number}"
        taken.add(label)
        labels.append(label)
    return labels
