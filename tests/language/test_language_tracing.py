"""Tracing: functions once a shape, calls, folds, closures, the graph's text."""

from typing import Any

import pytest

from presk_db.errors import EntryBad, ShapeBad
from presk_db.language import primitives as p
from presk_db.language.graph import Graph, Input, Parameter, equations
from presk_db.language.nn import linear, softmax
from presk_db.language.tracing import Record, Tensor, fold, function, graph_from_entry

HERE = "test_language_tracing.py"
X = {"x": Input("real", (3,))}


def weight(*shape: int) -> Parameter:
    """A parameter without a source."""
    return Parameter(shape, (), 0.0, 1.0)


def ops(graph: Graph) -> list[str]:
    """The operations of all functions."""
    return [e.op for e in equations(graph)]


@function
def scaled(x: Tensor, factor: float, more: Tensor | None = None) -> Tensor:
    """x times a factor."""
    return x * factor if more is None else x * factor + more


def test_a_function_is_traced_once_for_equal_types_and_values() -> None:
    def entry(parameters: None, x: Tensor) -> Tensor:
        y = scaled(scaled(x, 2.0), 2.0)
        y = scaled(y, -0.0) + scaled(y, 0.0)
        return scaled(y, 2.0, more=x) + scaled(y[:1], 2.0)

    names = [f.name for f in graph_from_entry(entry, None, X).functions()]
    assert names == ["scaled", "scaled", "scaled", "scaled", "scaled", "entry"]


def test_text() -> None:
    def layer(carry: Tensor, w: Tensor) -> Any:
        y = carry @ w
        return y, p.sum(y)

    def entry(parameters: Record, x: Tensor) -> dict[str, Tensor]:
        y, sums = fold(layer, linear(p.reshape(x, 1, 3), parameters.w), parameters.h, reverse=True, collect=True)
        return {"y": y, "sums": sums, "i": p.argmax(y)}

    graph = graph_from_entry(entry, Record(w=weight(3, 2), h=weight(4, 2, 2)), X)
    first = entry.__code__.co_firstlineno
    l = layer.__code__.co_firstlineno
    n = linear.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]  # functools.wraps sets it
    assert graph.text() == (
        "parameter w: real[3,2] in [0.0,1.0)\n"
        "parameter h: real[4,2,2] in [0.0,1.0)\n"
        "input x: real[3]\n"
        "result y\n"
        "result sums\n"
        "result i\n"
        "\n"
        f"function linear(v0: real[1,3], v1: real[3,2])  # nn.py:{n}\n"
        f"  v2: real[1,2] = matmul v0 v1  # {HERE}:{first + 1}\n"
        "  return v2\n"
        "\n"
        f"function layer(v0: real[1,2], v1: real[2,2])  # {HERE}:{l}\n"
        f"  v2: real[1,2] = matmul v0 v1  # {HERE}:{l + 1}\n"
        f"  v3: real[1] = reduce_sum v2 axis=1  # {HERE}:{l + 2}\n"
        "  return v2, v3\n"
        "\n"
        f"function entry(v0: real[3,2], v1: real[4,2,2], v2: real[3])  # {HERE}:{first}\n"
        f"  v3: real[1,3] = reshape v2  # {HERE}:{first + 1}\n"
        f"  v4: real[1,2] = call v3 v0 function=linear  # {HERE}:{first + 1}\n"
        f"  v5: real[1,2], v6: real[4,1] = fold v4 v1 carried=1 descending=True function=layer length=4 stacked=1"
        f"  # {HERE}:{first + 1}\n"
        f"  v7: int[1]<2 = argmax v5 axis=1  # {HERE}:{first + 2}\n"
        "  return v5, v6, v7\n"
    )
    assert [n for n, _ in graph.parameters] == ["w", "h"] and graph.results == ("y", "sums", "i")


def test_closures_over_tensors_are_refused() -> None:
    def entry(parameters: None, x: Tensor) -> Tensor:
        @function
        def inner(y: Tensor) -> Tensor:
            return y + x

        return inner(x)

    with pytest.raises(EntryBad, match="uses only its arguments") as caught:
        graph_from_entry(entry, None, X)
    assert caught.value.place == f"{HERE}:{entry.__code__.co_firstlineno + 3}"


def test_a_tensor_that_leaves_its_function_is_refused() -> None:
    kept: list[Tensor] = []

    def layer(carry: Tensor, w: Tensor) -> Tensor:
        kept.append(carry)
        return carry + w

    def entry(parameters: Tensor, x: Tensor) -> Tensor:
        return fold(layer, x, parameters) + kept[0]

    with pytest.raises(EntryBad):
        graph_from_entry(entry, weight(2, 3), X)
    with pytest.raises(EntryBad, match="only while an entry is traced"):
        kept[0] + 1.0


def test_arguments_without_a_hash_are_refused() -> None:
    def entry(parameters: None, x: Tensor) -> Tensor:
        return scaled(x, {1, 2})  # type: ignore[arg-type]  # meant

    with pytest.raises(EntryBad, match="hashable"):
        graph_from_entry(entry, None, X)


def test_arguments_that_do_not_fit_the_entry_name_it() -> None:
    def entry(parameters: None, y: Tensor) -> Tensor:
        return y

    with pytest.raises(EntryBad, match="TypeError") as caught:
        graph_from_entry(entry, None, X)
    assert caught.value.place == f"{HERE}:{entry.__code__.co_firstlineno}"


def test_folds_of_trees() -> None:
    def layer(carry: Record, layer: Record, scale: Tensor) -> Any:
        return Record(a=carry.b, b=carry.a * scale + layer.w), {"seen": carry.a, "none": None}

    def entry(parameters: Record, x: Tensor) -> dict[str, Tensor]:
        carry, ys = fold(layer, Record(a=x, b=-x), parameters, x[0], collect=True)
        assert ys["none"] is None
        return {"a": carry.a, "seen": ys["seen"]}

    graph = graph_from_entry(entry, Record(w=weight(5, 3)), X)
    assert [v.type_text for v in graph.entry.results] == ["real[3]", "real[5,3]"]
    (e,) = [e for e in graph.entry.equations if e.op == "fold"]
    assert (e["carried"], e["stacked"], e["length"], e["descending"]) == (2, 1, 5, False)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda c, w: c[:1], "same shapes"),
        (lambda c, w: (c, w), "same shapes"),
        (lambda c, w: c < w, "same shapes"),
    ],
)
def test_a_carry_keeps_its_type(layer: Any, message: str) -> None:
    with pytest.raises(ShapeBad, match=message) as caught:
        graph_from_entry(lambda parameters, x: fold(layer, x, parameters), weight(2, 3), X)
    assert str(caught.value.place).startswith(HERE)


def test_a_carry_keeps_its_range() -> None:
    inputs = {"i": Input("int", (3,), 2), "table": Input("real", (2,))}

    def entry(parameters: Tensor, i: Tensor, table: Tensor) -> Tensor:
        return p.gather(table, fold(lambda carry, w: p.iota((3,), 0), i, parameters))

    with pytest.raises(ShapeBad, match="leave"):
        graph_from_entry(entry, weight(2, 3), inputs)


@pytest.mark.parametrize("stacked", [{}, {"a": weight(2, 3), "b": weight(3, 3)}, {"a": weight()}])
def test_stacked_values_have_one_length(stacked: Any) -> None:
    with pytest.raises(ShapeBad, match="one leading length"):
        graph_from_entry(lambda parameters, x: fold(lambda c, w: c, x, parameters), stacked, X)


def test_functions_of_the_language_are_calls() -> None:
    graph = graph_from_entry(lambda parameters, x: softmax(x), None, X)
    assert ops(graph).count("call") == 1 and [f.name for f in graph.functions()] == ["softmax", "<lambda>"]
