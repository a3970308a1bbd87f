"""next_token_graph: from the graph of a step of generation, that of a step that also draws the token that follows."""

from presk_db.errors import EntryBad
from presk_db.language.graph import Function, Graph, Input
from presk_db.language.parameters import int_input, key_input, scalar_input
from presk_db.language.primitives import slice_axis
from presk_db.language.sampling import sample
from presk_db.language.tracing import Tensor, Trace, emit_many, inside

_DRAWS = "key", "temperature", "top_k", "top_p", "min_p"
"""The inputs that such a step has besides a step's."""


def next_token_graph(step: Graph, logits: str = "logits", name: str = "next_token") -> Graph:
    """A step whose results begin with `token` (B): for each sequence the token drawn from its last row of logits.

    Sequence b takes the uniform number b of `key`; `temperature`, `top_k`, `top_p` and `min_p` are inputs, so that one
    program is greedy or not. Raises EntryBad (E1203) where the step has no such result (B, C, V), or a name is taken.
    """
    shapes = dict(zip(step.results, (v.shape for v in step.entry.results), strict=True))
    given = dict(step.inputs)
    taken = [n for n in (*_DRAWS, "token") if n in given or n in shapes]
    if len(shapes.get(logits, ())) != 3 or taken:
        what = f"its {taken[0]} is another one" if taken else f"it has no result {logits} of shape (B, C, V)"
        raise EntryBad(f"no token can be drawn from this entry: {what}", step.entry.source)
    count, vocabulary = shapes[logits][1:]
    one, off = scalar_input(1.0), scalar_input(0.0)
    draws: tuple[Input, ...] = (key_input(), one, int_input(limit=vocabulary + 1), one, off)
    trace = Trace(None)
    trace.source = step.entry.source
    with inside(trace):
        own = [Tensor(trace.new_var(v.kind, v.shape, v.limit), trace) for v in step.entry.parameters]
        key, temperature, top_k, top_p, min_p = (Tensor(trace.new_var(i.kind, i.shape, i.limit), trace) for i in draws)
        types = [(v.kind, v.shape, v.limit) for v in step.entry.results]
        results = emit_many("call", own, types, {"function": step.entry})
        rows = results[step.results.index(logits)]
        last = slice_axis(rows, 1, count - 1, count)[:, 0]
        token = sample(key, last, temperature, top_k, top_p, min_p)
    variables = (*own, key, temperature, top_k, top_p, min_p)
    entry = Function(
        name,
        step.entry.source,
        tuple(t.var for t in variables),
        tuple(trace.equations),
        (token.var, *(t.var for t in results)),
    )
    inputs = (*step.inputs, *zip(_DRAWS, draws, strict=True))
    return Graph(entry, step.parameters, inputs, ("token", *step.results))
