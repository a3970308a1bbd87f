"""Derivative rules and module functions against finite differences in f64; folds; conventions; errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradient_cases import check_gradient, gradient_entry, values_of

from presk_db import language as L
from presk_db.errors import EntryBad
from presk_db.language import elementwise
from presk_db.language import primitives as p
from presk_db.language.derivative_rules import RULES
from presk_db.language.gradients import grad, value_and_grad
from presk_db.language.graph import Graph, Input, Parameter, equations
from presk_db.language.sampling import ROUTINES
from presk_db.language.tracing import Record, Tensor, fold, function, graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization

V = (5,)
M = (3, 4)
Case = tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int, ...], dict[str, Any]]

CASES: dict[str, Case] = {
    **{op: (lambda q, op=op: p.unary(op, q[0]), [V], V, {}) for op in p.UNARY},
    "sqrt": (lambda q: elementwise.sqrt(q[0]), [V], V, {"low": 0.5}),
    "log": (lambda q: elementwise.log(q[0]), [V], V, {"low": 0.5}),
    "log1p": (lambda q: elementwise.log1p(q[0]), [V], V, {"low": -0.5}),
    "add": (lambda q: q[0] + q[1], [M, (4,)], M, {}),
    "sub": (lambda q: q[0] - q[1], [M, (3, 1)], M, {}),
    "mul": (lambda q: q[0] * q[1] * q[0], [M, (1, 4)], M, {}),
    "div": (lambda q: q[0] / q[1], [M, M], M, {"low": 0.5}),
    "maximum": (lambda q: elementwise.maximum(q[0], q[1]), [M, M], M, {}),
    "minimum": (lambda q: elementwise.minimum(q[0], 0.1), [M], M, {}),
    "select": (lambda q: p.select(q[0] < q[1], q[0] * q[0], q[1] * 3.0), [M, M], M, {}),
    "reshape": (lambda q: p.reshape(q[0], 2, 6) * q[1], [M, (2, 6)], (2, 6), {}),
    "transpose": (lambda q: p.transpose(q[0], 2, 0, 1) * q[1], [(2, 3, 4), (4, 2, 3)], (4, 2, 3), {}),
    "slice": (lambda q: q[0][1:, :2] * q[0][:2, 2:] + q[0][1:, :2], [M], (2, 2), {}),
    "broadcast": (lambda q: p.broadcast_to(q[0], (2, 3, 5, 4)) * q[1], [(3, 1, 4), (2, 3, 5, 4)], (2, 3, 5, 4), {}),
    "reduce_sum": (lambda q: p.sum(q[0] * q[0], 0), [M], (4,), {}),
    "reduce_max": (lambda q: p.amax(q[0], 1), [M], (3,), {}),
    "argmax": (lambda q: q[0] * p.real(p.argmax(q[0], 1))[0], [M], M, {}),
    "gather": (lambda q, i: p.gather(q[0], i) * q[1], [M, (4,)], (6, 4), {"i": (3, (6,))}),
    "scatter_add": (lambda q, i: p.scatter_add(i, q[0] * q[0], 4), [(2, 3, 2)], (4, 2), {"i": (3, (2, 3))}),
    "concat": (lambda q: p.concat([q[0], q[1], q[0] * q[1]], 1), [M, M], (3, 12), {}),
    "matmul": (lambda q: q[0] @ q[1], [(2, 3, 4), (2, 4, 2)], (2, 3, 2), {}),
    "site": (lambda q: p.site(q[0]) * q[0], [V], V, {}),
    "update": (lambda q: p.update(q[0] * 2.0, q[0]), [V], V, {}),
    "stop": (lambda q: q[0] * p.real(p.stop(q[0]) > 0.0), [V], V, {}),
}
OTHERS: dict[str, Case] = {
    "a matrix for all rows": (lambda q: q[0] @ q[1], [(2, 3, 4), (4, 2)], (2, 3, 2), {}),
    "a left matrix for all": (lambda q: q[0] @ q[1], [(3, 4), (2, 4, 2)], (2, 3, 2), {}),
    "grouped": (lambda q: q[0] @ q[1], [(2, 3, 2, 4), (2, 1, 4, 2)], (2, 3, 2, 2), {}),
    "outer groups": (lambda q: q[0] @ q[1], [(3, 2, 2, 4), (1, 2, 4, 2)], (3, 2, 2, 2), {}),
    "linear": (lambda q: L.linear(*q), [M, (4, 2), (2,)], (3, 2), {}),
    "a vector": (lambda q: L.linear(*q), [(4,), (4, 2), (2,)], (2,), {}),
    "layer_norm": (lambda q: L.layer_norm(*q, 1e-5), [M, (4,), (4,)], M, {}),
    "rms_norm": (lambda q: L.rms_norm(*q, 1e-5), [M, (4,)], M, {}),
    "softmax": (lambda q: L.softmax(q[0]), [M], M, {}),
    "gelu_tanh": (lambda q: L.gelu_tanh(q[0]), [V], V, {}),
    "token_losses": (lambda q, i: L.token_losses(q[0], i), [(4, 5)], (4,), {"i": (6, (4,))}),
    "rotary": (
        lambda q: L.rotary(q[0], elementwise.cos(q[1]), elementwise.sin(q[1])),
        [(2, 3, 4), (3, 2)],
        (2, 3, 4),
        {},
    ),
    "attention": (
        lambda q: L.attention(*q),
        [(1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2)],
        (1, 3, 8),
        {},
    ),
}


def test_every_primitive_has_a_rule() -> None:
    assert {*RULES, "concat"} == {*p.PRIMITIVES, *ROUTINES}
    without = {*p.COMPARE, *p.LOGIC, "real", "const", "iota", "take_rows", "put_rows", "seen"}
    assert set(CASES) == set(p.PRIMITIVES) - without


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_against_differences(name: str) -> None:
    fn, shapes, result, more = (CASES | OTHERS)[name]
    check_gradient(fn, shapes, result, **more)


def layer(x: Tensor, w: Record, shared: Tensor) -> Tensor:
    """A layer that uses its carry twice and what all layers share."""
    return L.tanh(x @ w["a"] + w["b"] * shared) * 0.5 + x


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_a_fold(reverse: bool, recompute: bool) -> None:
    def fn(q: list[Tensor]) -> Tensor:
        return fold(layer, q[0], {"a": q[1], "b": q[2]}, q[3], reverse=reverse)

    check_gradient(fn, [(2, 3), (3, 3, 3), (3, 3), (3,)], (2, 3), recompute=recompute)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_fold_that_collects_and_carries_integers(recompute: bool) -> None:
    def step(carry: tuple[Tensor, Tensor], w: Tensor) -> Any:
        x, n = carry
        y = L.sin(x * w) * p.real(n)
        return (y, n), (y * w, w * 2.0)

    def fn(q: list[Tensor], i: Tensor) -> Tensor:
        (x, _), (ys, zs) = fold(step, (q[0], i), q[1], collect=True)
        return x + L.sum(ys * zs, 0)

    check_gradient(fn, [(3,), (4, 3)], (3,), recompute=recompute, i=(5, (3,)))


def test_recomputing_gives_the_same_bits() -> None:
    def fn(q: list[Tensor]) -> Tensor:
        return fold(layer, q[0], {"a": q[1], "b": q[2]}, q[3])

    shapes = [(2, 3), (3, 3, 3), (3, 3), (3,)]
    kept, again = (check_gradient(fn, shapes, (2, 3), recompute=r) for r in (False, True))
    assert all(np.array_equal(kept[n], again[n]) for n in kept)


def test_a_second_derivative() -> None:
    def cube(q: list[Tensor]) -> Tensor:
        return L.sum(q[0] * q[0] * q[0] * q[1])

    check_gradient(lambda q: grad(cube)(q)[0], [(3,), (3,)], (3,))


def graph_of(fn: Callable[..., Any], shape: tuple[int, ...] = V, **inputs: Input) -> Graph:
    """The graph of an entry with the one parameter `x`."""
    return graph_from_entry(fn, Record(x=Parameter(shape, (), 0.0, 1.0)), inputs)


def gradient_at(fn: Callable[[Tensor], Tensor], x: list[float]) -> list[float]:
    """The gradient of sum(fn(x))."""
    graph = graph_of(lambda q: grad(lambda r: L.sum(fn(r.x)))(q), (len(x),))
    (found,) = values_of(graph, {"x": np.array(x)})({}).values()
    return [float(v) for v in found]


def test_where_there_is_no_derivative() -> None:
    assert gradient_at(L.absolute, [-1.0, 0.0, 2.0]) == [-1.0, 0.0, 1.0]
    assert gradient_at(lambda x: L.maximum(x, 0.0), [-1.0, 0.0, 2.0]) == [0.0, 0.0, 1.0]
    assert gradient_at(lambda x: L.maximum(0.0, x), [-1.0, 0.0, 2.0]) == [0.0, 1.0, 1.0]
    assert gradient_at(lambda x: L.amax(x, keep=True), [3.0, 1.0, 3.0]) == [1.0, 0.0, 0.0]
    assert gradient_at(lambda x: x * L.stop(x), [3.0, 1.0]) == [3.0, 1.0]


def test_a_gradient_keeps_names_and_structure() -> None:
    @function
    def block(x: Tensor, w: Tensor) -> Tensor:
        return L.linear(L.softmax(x), w)

    def entry(q: Record, y: Tensor) -> Any:
        return grad(lambda q, y: L.sum(L.sum(fold(block, y, q.x))))(q, y)

    graph = graph_of(entry, (3, 4, 4), y=Input("real", (2, 4)))
    names = [f.name for f in graph.functions()]
    assert {"block", "block_grad", "linear_grad", "softmax_grad"} <= set(names)
    folds = [e for e in equations(graph) if e.op == "fold"]
    assert [(e["function"].name, e["descending"]) for e in folds] == [("block", False), ("block_grad", True)]


def test_dead_code_goes() -> None:
    def loss(q: Record) -> Tensor:
        return L.sum(L.exp(q.x) * 2.0) + 0.0 * L.sum(L.stop(L.tanh(q.x)))

    graph = graph_of(lambda q: grad(loss)(q))
    labels = [s.label for s in launch_order(graph, Realization("f64")).launches]
    assert len(labels) == 1 and "tanh" not in " ".join(
        k.text for k in launch_order(graph, Realization("f64")).kernels()
    )


def test_errors() -> None:
    def bad(fn: Callable[..., Any], message: str) -> None:
        with pytest.raises(EntryBad, match=message) as e:
            launch_order(graph_of(fn), Realization("f64"))
        assert e.value.code == "E1203" and "test_gradients.py" in e.value.place

    bad(lambda q: value_and_grad(lambda q: q.x * 2.0)(q)[0], "one real number")
    bad(lambda q: grad(lambda q: L.argmax(q.x))(q), "one real number")
    bad(lambda q: value_and_grad(lambda q, x: L.sum(x))({}, q.x)[0], "has no parameters")
    bad(lambda q: value_and_grad(lambda q: L.sum(L.stop(q.x)))(q)[0], "does not depend on its parameters")
    bad(lambda q: (L.update(q.x * 2.0, q.x), q.x)[1], "not returned")


def test_an_update_inside_what_is_differentiated() -> None:
    """Its value is returned, and the gradient does it once: it is no second update."""

    def entry(q: Record) -> dict[str, Tensor]:
        def loss(q: Record) -> tuple[Tensor, Tensor]:
            new = L.update(q.x * 2.0, q.x)
            return L.sum(new * new), new

        (value, new), grads = value_and_grad(loss, aux=True)(q)
        return {"loss": value, "new": new, "grad": grads}

    order = launch_order(graph_of(entry), Realization("f64"))
    assert [(order.buffers[u.output].name, order.buffers[u.state].name) for u in order.updates] == [("new", "x")]


def test_a_parameter_that_does_not_matter_has_the_gradient_0() -> None:
    entry = gradient_entry(lambda q: q[0] * 2.0)
    parameters = [Parameter(V, (), 0.0, 1.0), Parameter(M, (), 0.0, 1.0)]
    graph = graph_from_entry(entry, parameters, {"c": Input("real", V)})
    found = values_of(graph, {"0": np.ones(V), "1": np.ones(M), "c": np.ones(V)})({})
    assert found["grad.1"].shape == M and not found["grad.1"].any()
