"""untied_graph: a tied head is a parameter of its own, of the same tensors; the values stay; what is not tied stays as it is."""

import numpy as np
import pytest

from presk_db import language as L
from presk_db.language.graph import Graph
from presk_db.language.parser import graph_from_text
from presk_db.language.tied import untied_graph
from presk_db.language.tracing import graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import realization_of_type
from presk_db.native.run import run
from presk_db.recording.events import EventList

TABLE = np.random.default_rng(3).standard_normal((7, 4)).astype(np.float32)


def traced(tied: bool) -> Graph:
    """A table's rows times the table, or the rows alone."""

    def entry(p: L.Record, tokens: L.Tensor) -> dict[str, L.Tensor]:
        x = L.gather(p.table, tokens)
        return {"logits": L.matmul(x, L.transpose(p.table)) if tied else x * 2.0}

    return graph_from_entry(
        entry, {"table": L.parameter("table", 7, 4, scale=0.5)}, {"tokens": L.int_input(5, limit=7)}
    )


def logits(graph: Graph) -> bytes:
    order = launch_order(graph, realization_of_type("f32"))
    tokens, weights = np.array([6, 0, 3, 3, 1]), {b.id: TABLE for b in order.buffers if b.role == "weight"}
    (number,) = (b.id for b in order.buffers if b.role == "input")
    (found,) = run(order, {number: tokens}, weights, EventList([])).values()
    return found.tobytes()


def test_a_tied_head_is_two_parameters_of_the_same_tensors_and_the_same_bits() -> None:
    graph = traced(True)
    apart = untied_graph(graph)
    assert [n for n, _ in apart.parameters] == ["table", "table.head"]
    assert apart.parameters[0][1] == apart.parameters[1][1] == graph.parameters[0][1]
    assert graph_from_text(apart.text()).text() == apart.text()
    gathers = [e.inputs[0] for e in apart.entry.equations if e.op == "gather"]
    assert gathers == [apart.entry.parameters[0]]
    assert all(gathers[0] not in e.inputs for e in apart.entry.equations if e.op != "gather")
    assert logits(apart) == logits(graph)


@pytest.mark.parametrize("graph", [traced(False), untied_graph(traced(True))])
def test_what_is_read_in_one_way_stays(graph: Graph) -> None:
    assert untied_graph(graph) is graph
