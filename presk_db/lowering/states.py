"""States: memory that the caller keeps, written in place by `put_rows` and given back as the result of the same name."""

from math import prod

from presk_db.errors import EntryBad
from presk_db.language.graph import Graph
from presk_db.lowering.flat import Flat, FlatEquation, Value
from presk_db.lowering.views import root_of

Place = tuple[Value, int]
"""A state, and the number of its element at which a value begins."""


def place_of(value: Value, states: frozenset[int]) -> Place | None:
    """Where in a state the value lies: a state, a layer of one, what `put_rows` gives, or a stack of all such layers."""
    if value.id in states:
        return value, 0
    if value.window is not None:
        stack, l = value.window
        found = place_of(stack, states)
        return None if found is None else (found[0], found[1] + l * prod(value.shape))
    e = value.equation
    if e is not None and e.op == "put_rows":
        return place_of(e.inputs[0], states)
    if e is not None and e.op == "stack" and e.inputs:
        places = [place_of(v, states) for v in e.inputs]
        size, first = prod(value.shape[1:]), places[0]
        if first is not None and places == [(first[0], first[1] + l * size) for l in range(len(places))]:
            return first
    return None


def check_states(graph: Graph, flat: Flat) -> None:
    """Raises EntryBad (E1203) unless each state is only written by `put_rows`, once a version, and is given back."""
    named = {name: value for name, value in flat.inputs if dict(graph.inputs)[name].state}
    states = frozenset(v.id for v in named.values())
    results = dict(flat.results)
    for name, value in named.items():
        given = results.get(name)
        if given is None or place_of(given, states) != (value, 0):
            raise EntryBad(
                f"the state {name} is not given back: return what put_rows makes of it under its name",
                graph.entry.source,
            )
    users: dict[int, list[FlatEquation]] = {}
    for e in flat.equations:
        for v in e.inputs if e.op != "stack" else ():
            for seen in _behind(v):
                users.setdefault(seen.id, []).append(e)
    for e in flat.equations:
        if e.op != "put_rows":
            continue
        if place_of(e.inputs[0], states) is None:
            raise EntryBad("put_rows writes into a state, or a layer of one", e.source)
        if users[e.inputs[0].id] != [e]:
            raise EntryBad("what put_rows writes over is read elsewhere: read what it gives", e.source)
    for state in states:
        for e in users.get(state, ()):
            if e.op != "put_rows" or state not in {v.id for v in _behind(e.inputs[0])}:
                raise EntryBad("a state is read only after put_rows: read what it gives", e.source)


def _behind(value: Value) -> list[Value]:
    """The value's root, what that is a window on, and so on."""
    chain = [root_of(value)]
    while chain[-1].window is not None:
        chain.append(root_of(chain[-1].window[0]))
    return chain
