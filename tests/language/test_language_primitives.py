"""Every primitive's shape rule: what it gives, and the error code with the user's line where operands do not fit."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk_db.errors import EntryBad, KindBad, PreskError, ShapeBad
from presk_db.language import elementwise
from presk_db.language import primitives as p
from presk_db.language.graph import Graph, Input
from presk_db.language.tracing import Tensor, graph_from_entry

INPUTS = {
    "x": Input("real", (2, 3)),
    "y": Input("real", (3, 4)),
    "s": Input("real", ()),
    "v": Input("real", (4,)),
    "e": Input("real", (2, 0)),
    "i": Input("int", (2, 3), 5),
    "j": Input("int", (2, 3)),
}


def traced(fn: Callable[..., Any], inputs: dict[str, Input] | None = None) -> Graph:
    """The graph of fn(tensors), the tensors being attributes by their names."""

    def entry(parameters: None, **tensors: Tensor) -> Any:
        return fn(type("Tensors", (), tensors))

    return graph_from_entry(entry, None, INPUTS if inputs is None else inputs)


def result(fn: Callable[..., Any], inputs: dict[str, Input] | None = None) -> Any:
    """The variable that the graph of fn returns."""
    return traced(fn, inputs).entry.results[0]


GOOD: list[tuple[Callable[..., Any], str]] = [
    (lambda t: t.x + 1, "real[2,3]"),
    (lambda t: 2 - t.i, "int[2,3]"),
    (lambda t: t.x[0] + t.x, "real[2,3]"),
    (lambda t: t.x @ t.y, "real[2,4]"),
    (lambda t: p.matmul(p.reshape(t.x, 1, 2, 3), p.broadcast_to(t.y, (5, 3, 4))), "real[5,2,4]"),
    (lambda t: p.compare("eq", t.i, t.j), "bool[2,3]"),
    (lambda t: (t.x < 0) & ~(t.x > t.s), "bool[2,3]"),
    (lambda t: p.select(t.x < 0, t.s, 1.0), "real[2,3]"),
    (lambda t: p.real(t.x < 0), "real[2,3]"),
    (lambda t: p.reshape(t.x, 3, -1), "real[3,2]"),
    (lambda t: p.reshape(t.e, 0, 5), "real[0,5]"),
    (lambda t: p.transpose(t.x), "real[3,2]"),
    (lambda t: t.x[..., 1:], "real[2,2]"),
    (lambda t: t.x[-1], "real[3]"),
    (lambda t: t.x[1:1], "real[0,3]"),
    (lambda t: t.i[:, 0], "int[2]<5"),
    (lambda t: p.concat([t.x, t.x], 0), "real[4,3]"),
    (lambda t: p.concat([t.i, p.iota((2, 3), 1)], 1), "int[2,6]<5"),
    (lambda t: p.concat([t.i, t.j], -1), "int[2,6]"),
    (lambda t: p.gather(p.concat([t.y, t.y], 0), t.i), "real[2,3,4]"),
    (lambda t: p.gather(t.y, p.argmax(t.x, 1)), "real[2,4]"),
    (lambda t: p.gather(t.v, p.argmax(t.x, 0)), "real[3]"),
    (lambda t: p.sum(t.x), "real[2]"),
    (lambda t: p.sum(t.x, 0, True), "real[1,3]"),
    (lambda t: p.sum(t.e), "real[2]"),
    (lambda t: p.amax(t.x, -2), "real[3]"),
    (lambda t: p.mean(t.x, keep=True), "real[2,1]"),
    (lambda t: p.argmax(t.x, 0), "int[3]<2"),
    (lambda t: p.positions(4), "int[4]<4"),
    (lambda t: elementwise.maximum(1, 2), "real[]"),
    *[(lambda t, op=op: p.unary(op, t.x), "real[2,3]") for op in p.UNARY],
    *[(lambda t, op=op: p.binary(op, t.x, t.s), "real[2,3]") for op in p.BINARY],
    *[(lambda t, op=op: p.compare(op, t.x, 0), "bool[2,3]") for op in p.COMPARE],
]

BAD: list[tuple[Callable[..., Any], type[PreskError]]] = [
    (lambda t: t.x + t.y, ShapeBad),
    (lambda t: elementwise.maximum(t.x, t.v), ShapeBad),
    (lambda t: t.x < t.y, ShapeBad),
    (lambda t: (t.x < 0) & (t.y < 0), ShapeBad),
    (lambda t: p.select(t.x < 0, t.y, t.y), ShapeBad),
    (lambda t: p.broadcast_to(t.x, (2, 4)), ShapeBad),
    (lambda t: p.broadcast_to(t.x, (3,)), ShapeBad),
    (lambda t: p.reshape(t.x, 4, 2), ShapeBad),
    (lambda t: p.reshape(t.x, -1, -1), ShapeBad),
    (lambda t: p.reshape(t.e, 0, -1), ShapeBad),
    (lambda t: p.reshape(t.x, -2, -3), ShapeBad),
    (lambda t: p.transpose(t.x, 0, 0), ShapeBad),
    (lambda t: p.transpose(t.x, 0), ShapeBad),
    (lambda t: p.transpose(t.v), ShapeBad),
    (lambda t: p.slice_axis(t.x, 1, 2, 4), ShapeBad),
    (lambda t: p.slice_axis(t.x, 2, 0, 1), ShapeBad),
    (lambda t: t.x[2], ShapeBad),
    (lambda t: t.x[0, 0, 0], ShapeBad),
    (lambda t: t.x[::2], ShapeBad),
    (lambda t: t.x[t.i], ShapeBad),
    (lambda t: t.x[None], ShapeBad),
    (lambda t: t.x[True], ShapeBad),
    (lambda t: p.concat([], 0), ShapeBad),
    (lambda t: p.concat([t.x, t.y], 0), ShapeBad),
    (lambda t: p.concat([t.x, t.v], 0), ShapeBad),
    (lambda t: p.concat([t.x], 2), ShapeBad),
    (lambda t: p.gather(t.v, t.i), ShapeBad),
    (lambda t: p.gather(t.y, t.j), ShapeBad),
    (lambda t: p.gather(t.s, t.i), ShapeBad),
    (lambda t: p.gather(t.y, t.i + 1), ShapeBad),
    (lambda t: p.iota((2,), 1), ShapeBad),
    (lambda t: p.iota((-2,), 0), ShapeBad),
    (lambda t: p.sum(t.s), ShapeBad),
    (lambda t: p.sum(t.x, 2), ShapeBad),
    (lambda t: p.mean(t.e), ShapeBad),
    (lambda t: p.argmax(t.e), ShapeBad),
    (lambda t: t.x @ t.x, ShapeBad),
    (lambda t: t.x @ t.v, ShapeBad),
    (lambda t: p.matmul(p.broadcast_to(t.x, (2, 2, 3)), p.broadcast_to(t.y, (3, 3, 4))), ShapeBad),
    (lambda t: t.x + t.i, KindBad),
    (lambda t: t.i / 2, KindBad),
    (lambda t: t.i * 0.5, KindBad),
    (lambda t: t.x + "1", KindBad),
    (lambda t: t.x + True, KindBad),
    (lambda t: -t.i, KindBad),
    (lambda t: elementwise.exp(1.0), KindBad),
    (lambda t: t.x < t.i, KindBad),
    (lambda t: (t.x < 0) < (t.x < 1), KindBad),
    (lambda t: t.x & t.x, KindBad),
    (lambda t: ~t.i, KindBad),
    (lambda t: p.select(t.x, t.x, t.x), KindBad),
    (lambda t: p.select(t.x == t.x, t.x, t.x), KindBad),
    (lambda t: p.select(t.x < 0, t.x, t.i), KindBad),
    (lambda t: p.real(t.x), KindBad),
    (lambda t: p.concat([t.x, t.i], 0), KindBad),
    (lambda t: p.gather(t.y, t.x), KindBad),
    (lambda t: t.i @ t.y, KindBad),
    (lambda t: t.x @ t.i, KindBad),
    (lambda t: p.sum(t.i), KindBad),
    (lambda t: p.amax(t.x < 0), KindBad),
    (lambda t: p.argmax(t.i), KindBad),
    (lambda t: 1 if t.x else 2, EntryBad),
    (lambda t: list(t.x), EntryBad),
    (lambda t: t.missing, EntryBad),
    (lambda t: t.x + [][0], EntryBad),
]


@pytest.mark.parametrize(("fn", "type_"), GOOD)
def test_results(fn: Callable[..., Any], type_: str) -> None:
    assert result(fn).type_text == type_


@pytest.mark.parametrize(("fn", "error"), BAD)
def test_errors_name_the_users_line(fn: Callable[..., Any], error: type[PreskError]) -> None:
    with pytest.raises(error) as caught:
        traced(fn)
    assert caught.value.place == f"test_language_primitives.py:{fn.__code__.co_firstlineno}"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [1.0, {}, None, {"a": 1}])
def test_an_entry_returns_tensors(value: Any) -> None:
    with pytest.raises(EntryBad, match="must return tensors") as caught:
        traced(lambda t: value)
    assert caught.value.place == f"test_language_primitives.py:{inspect.getsourcelines(traced)[1] + 3}"


SHAPES = st.lists(st.sampled_from((0, 1, 1, 2, 3)), max_size=4).map(tuple)


@given(SHAPES, SHAPES)
def test_broadcasting_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    inputs = {"a": Input("real", a), "b": Input("real", b)}
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeBad):
            traced(lambda t: t.a + t.b, inputs)
        return
    assert result(lambda t: t.a + t.b, inputs).shape == wanted


@given(SHAPES, SHAPES)
def test_products_have_numpys_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    inputs = {"a": Input("real", a), "b": Input("real", b)}
    try:
        assert len(a) >= 2 and len(b) >= 2
        wanted = (np.zeros(a) @ np.zeros(b)).shape
    except (ValueError, AssertionError):
        with pytest.raises(ShapeBad):
            traced(lambda t: t.a @ t.b, inputs)
        return
    assert result(lambda t: t.a @ t.b, inputs).shape == wanted
