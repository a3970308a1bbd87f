"""untied_graph: a parameter that rows are gathered from and that is read otherwise, too, becomes two of the same tensors."""

from collections.abc import Mapping
from dataclasses import replace

from presk_db.language.graph import Function, Graph, Parameter, Var


def untied_graph(graph: Graph) -> Graph:
    """The graph whose entry reads what it gathers from for nothing else: a tied head is a parameter `NAME.head`.

    So each can lie in memory as it is read: the table as rows, the head packed for its product. No value changes.
    """
    f = graph.entry
    tables = {e.inputs[0].id for e in f.equations if e.op == "gather"}
    others = {v.id for e in f.equations for v in e.inputs[e.op == "gather" :]} | {v.id for v in f.results}
    free = 1 + max((v.id for v in [*f.parameters, *(o for e in f.equations for o in e.outputs)]), default=0)
    heads: dict[int, Var] = {}
    added: list[tuple[str, Parameter]] = []
    for (name, parameter), v in zip(graph.parameters, f.parameters, strict=False):
        if v.id in tables & others:
            heads[v.id] = replace(v, id=free + len(heads))
            added.append((f"{name}.head", parameter))
    if not heads:
        return graph
    count = len(graph.parameters)
    return replace(
        graph,
        entry=_read_apart(f, heads, count),
        parameters=(*graph.parameters, *added),
    )


def _read_apart(f: Function, heads: Mapping[int, Var], count: int) -> Function:
    """The entry with the heads behind its `count` parameters, read by all but gathers."""

    def other(v: Var) -> Var:
        return heads.get(v.id, v)

    equations = []
    for e in f.equations:
        table = e.inputs[: e.op == "gather"]
        equations.append(replace(e, inputs=(*table, *map(other, e.inputs[len(table) :]))))
    parameters = (*f.parameters[:count], *heads.values(), *f.parameters[count:])
    return replace(f, parameters=parameters, equations=tuple(equations), results=tuple(map(other, f.results)))
