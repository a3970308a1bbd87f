"""Keys in the language: what is drawn has the stated shapes, and a key that the program does not hold is refused."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from presk_db import language as L
from presk_db.errors import InputBad, KeyForeign, KindBad, ShapeBad
from presk_db.keys import Key
from presk_db.language.graph import Input
from presk_db.language.parser import graph_from_text
from presk_db.language.primitives import concat
from presk_db.language.tracing import Tensor, graph_from_entry

GIVEN: dict[str, Input] = {
    "key": L.key_input(),
    "n": L.int_input(limit=9),
    "x": L.real_input(2, 3, 7),
    "t": L.scalar_input(0.5),
    "seen": L.int_input(2, 3, 4, limit=7),
}


def traced(entry: Callable[..., Any]) -> Any:
    """The graph of an entry of these inputs, which must come back from its text."""
    graph = graph_from_entry(lambda p, **given: entry(**given), None, GIVEN)
    assert graph_from_text(graph.text()).text() == graph.text()
    return graph


def types(entry: Callable[..., Any]) -> list[str]:
    """What the entry gives."""
    return [v.type_text for v in traced(entry).entry.results]


def test_shapes() -> None:
    def entry(key: Tensor, n: Tensor, x: Tensor, t: Tensor, seen: Tensor) -> dict[str, Tensor]:
        keys = L.split(key, 4)
        return {
            "keys": keys,
            "one": keys[1],
            "chosen": L.gather(keys, L.positions(2)),
            "child": L.child(key, n),
            "seed": L.key_from_seed(n),
            "u": L.uniform(keys[0], (2, 5)),
            "number": L.uniform(key, ()),
            "token": L.sample(key, x, t, n, t, 0.1),
            "single": L.sample(key, x[0, 0]),
            "penalized": L.penalized(x, seen, 1.5),
            "next": L.update(L.child(key, 0), key),
        }

    assert types(entry) == [
        *("key[4]", "key[]", "key[2]", "key[]", "key[]", "real[2,5]", "real[]", "int[2,3]<7", "int[]<7"),
        *("real[2,3,7]", "key[]"),
    ]


FOREIGN: dict[str, Callable[..., Any]] = {
    "a key of Python": lambda key, x, **_: Key.from_seed(1),
    "a number": lambda key, x, **_: 7,
    "nothing": lambda key, x, **_: None,
    "a generator": lambda key, x, **_: random.Random(1),
    "numbers of numpy": lambda key, x, **_: np.arange(8),
    "reals": lambda key, x, **_: x,
    "an integer input": lambda key, n, **_: n,
    "a truth value": lambda key, x, **_: x[0, 0, 0] < 1.0,
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("draw", ["sample", "uniform", "child", "split"])
def test_a_key_that_the_program_does_not_hold(what: str, draw: str) -> None:
    draws: dict[str, Callable[[Any, Any], Any]] = {
        "sample": lambda key, x: L.sample(key, x),
        "uniform": lambda key, x: L.uniform(key, (2,)),
        "child": lambda key, x: L.child(key, 1),
        "split": lambda key, x: L.split(key, 2),
    }
    with pytest.raises(KeyForeign, match=rf"E8006 test_language_sampling.py:\d+: {draw} takes") as found:
        traced(lambda **given: draws[draw](FOREIGN[what](**given), given["x"]))
    assert "\n" not in str(found.value)


def test_a_key_of_another_function_and_a_constant_seed() -> None:
    def outer(key: Tensor, x: Tensor, **_: Tensor) -> Tensor:
        return L.function(lambda x: L.sample(key, x))(x)

    with pytest.raises(KeyForeign, match="make it an argument"):
        traced(outer)
    with pytest.raises(KeyForeign, match="a seed is an integer that the program is given"):
        traced(lambda **_: L.key_from_seed(3))  # type: ignore[arg-type]  # what is refused


BAD: dict[str, tuple[type[Exception], Callable[..., Any]]] = {
    "arithmetic": (KindBad, lambda key, **_: key + key),
    "a broadcast": (KindBad, lambda key, **_: L.broadcast_to(key, (3,))),
    "a transpose": (KindBad, lambda key, **_: L.transpose(L.reshape(L.split(key, 2), 1, 2))),
    "joined": (KindBad, lambda key, **_: concat([L.split(key, 2), L.split(key, 3)], 0)),
    "several keys": (ShapeBad, lambda key, x, **_: L.sample(L.split(key, 2), x)),
    "no parts": (ShapeBad, lambda key, **_: L.split(key, 0)),
    "a negative child": (ShapeBad, lambda key, **_: L.child(key, -1)),
    "a shape": (ShapeBad, lambda key, **_: L.uniform(key, (-1,))),
    "integer logits": (ShapeBad, lambda key, seen, **_: L.sample(key, seen)),
    "one logit alone": (ShapeBad, lambda key, t, **_: L.sample(key, t)),
    "no logits": (ShapeBad, lambda key, x, **_: L.sample(key, x[..., :0])),
    "temperatures": (ShapeBad, lambda key, x, **_: L.sample(key, x, x[0, 0])),
    "a negative temperature": (InputBad, lambda key, x, **_: L.sample(key, x, -1.0)),
    "no temperature": (InputBad, lambda key, x, **_: L.sample(key, x, float("nan"))),
    "top-p": (InputBad, lambda key, x, **_: L.sample(key, x, top_p=1.5)),
    "min-p": (InputBad, lambda key, x, **_: L.sample(key, x, min_p=-0.5)),
    "top-k": (ShapeBad, lambda key, x, **_: L.sample(key, x, top_k=-1)),
    "a penalty of 0": (InputBad, lambda x, seen, **_: L.penalized(x, seen, 0.0)),
    "seen of other rows": (ShapeBad, lambda x, seen, **_: L.penalized(x, seen[0], 1.5)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_operands(name: str) -> None:
    error, entry = BAD[name]
    with pytest.raises(error):
        traced(entry)


def test_a_draw_has_no_derivative_but_what_it_scales_has() -> None:
    """Dropout: the gradient is the mask."""

    def loss(p: Any, key: Tensor) -> Tensor:
        kept = L.real(L.uniform(key, p["w"].shape) >= 0.5)
        return L.sum(L.reshape(p["w"] * kept * 2.0, -1))

    parameters = {"w": L.parameter("w", 3, 4)}
    graph = graph_from_entry(lambda p, key: L.grad(loss)(p, key), parameters, {"key": L.key_input()})
    assert [v.type_text for v in graph.entry.results] == ["real[3,4]"]
    assert graph_from_text(graph.text()).text() == graph.text()
