"""A graph's text is read back to a graph of the same text, and any other text is refused with its line."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db import language as L
from presk_db.errors import GraphTextBad
from presk_db.language.graph import Graph, Input, Parameter, SourceTensor, equations
from presk_db.language.parser import graph_from_text
from presk_db.language.tracing import emit, graph_from_entry
from presk_db.models.families import model_from_config, model_from_python

FIXTURES = Path(__file__).parents[2] / "fixtures"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 24,
    "vocab_size": 11,
    "rms_norm_eps": 1e-5,
}


def course_gpt(t: int, **fields: Any) -> Graph:
    config = json.loads((FIXTURES / "course_gpt/config.json").read_text()) | fields
    return model_from_config(config).graph("forward", {"B": 2, "T": t})


def training(recompute: bool) -> Graph:
    config = json.loads((FIXTURES / "course_gpt/config.json").read_text())
    return model_from_config(config).graph("train_step", {"M": 2, "B": 1, "T": 3}, recompute)


def llama(**fields: Any) -> Graph:
    return model_from_config({**LLAMA, **fields}).graph("forward", {"B": 1, "T": 5})


def user() -> Graph:
    model = model_from_python(FIXTURES / "user/mlp.py", "forward")
    return model.graph("forward", model.dimensions({}))


def every_kind() -> Graph:
    """Every kind of attribute and name: folds down with collected values, odd names, infinities, shapes of no rank."""

    def layer(x: Any, p: Any, shift: Any) -> Any:
        y = x * p["w"] + shift
        return y, L.amax(y)

    def entry(p: Any, x: Any, flag: Any, i: Any) -> Any:
        y, tops = L.fold(layer, x, p["layers"], p["a b"], reverse=True, collect=True)
        z = L.select(flag, y, L.const(-math.inf)) + L.const(-0.0) * 1e-300 + 1e20
        note = emit("reshape", [z], "real", z.shape, note='two words "quoted"')
        return {"y": note, "tops#": tops, "best": L.argmax(L.transpose(z * L.real(i + (-3)), 1, 0))}

    parameters = {
        "layers": {"w": Parameter((2, 3), (SourceTensor("h.{}.w", (3,)), SourceTensor("h.1.w", (3,))), -1, 1)},
        "a b": Parameter((), (SourceTensor('odd "name" {}0', ()),), 0.0, 0.1),
    }
    inputs = {"x": Input("real", (4, 3)), "flag": Input("bool", (4, 3)), "i": Input("int", (4, 3), 9)}
    return graph_from_entry(entry, parameters, inputs)


GRAPHS = {
    "course": lambda: course_gpt(8),
    "tied": lambda: course_gpt(3, tie_word_embeddings=True),
    "one layer": lambda: course_gpt(3, n_layer=1),
    "no layers": lambda: course_gpt(3, n_layer=0),
    "eleven layers": lambda: course_gpt(2, n_layer=11),
    "llama": llama,
    "tied llama": lambda: llama(tie_word_embeddings=True),
    "qwen3": lambda: llama(model_type="qwen3", head_dim=8),
    "training": lambda: training(False),
    "training again": lambda: training(True),
    "user": user,
    "every kind": every_kind,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_text_reads_back(name: str) -> None:
    graph = GRAPHS[name]()
    again = graph_from_text(graph.text())
    assert again.text() == graph.text()
    assert (again.parameters, again.inputs, again.results) == (graph.parameters, graph.inputs, graph.results)
    for a, b in zip(equations(again), equations(graph), strict=True):
        assert (a.op, a.source, [v.type_text for v in a.outputs]) == (b.op, b.source, [v.type_text for v in b.outputs])
        for (k, x), (l, y) in zip(a.attributes, b.attributes, strict=True):
            assert k == l and type(x) is type(y)
            assert k == "function" or x == y
            if isinstance(x, float):
                assert np.signbit(x) == np.signbit(y)


def test_layers_are_one_line() -> None:
    lines = course_gpt(2, n_layer=11).text().splitlines()
    assert sum(line.startswith("parameter") for line in lines) == 17
    assert any(line.endswith('from "transformer.h.{}.ln_1.bias"[384] for 0..10') for line in lines)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("result best", "resolt best", "resolt is neither"),
        ("input x: real[4,3]", "input x: rael[4,3]", "'rael[4,3]' is no type"),
        ("input x: real[4,3]", "input x: real[4,3] ", "'real[4,3] ' is no type"),
        ("in [0.0,0.1)", "in (0.0,0.1)", "a parameter is a name, a type and a range"),
        ("in [0.0,0.1)", "in [0.0,0.10)", "the line is not as presk writes it"),
        ("function layer(", "function  layer(", "this is not the head"),
        (" = mul v0 ", " = mul v99 ", "v99 is not defined above"),
        ("stacked=1", "stacked=2", "the stacked values do not have 2 layers"),
        ("length=2", "length=3", "the stacked values do not have 3 layers"),
        ("function=layer", "function=other", "function other does not stand above"),
        ("axis=1", "axis=(1", "the line does not parse"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, message: str) -> None:
    text = every_kind().text()
    line = text[: text.index(old)].count("\n") + 1
    with pytest.raises(GraphTextBad) as caught:
        graph_from_text(text.replace(old, new, 1))
    assert str(caught.value).startswith(f"E1206 graph line {line}: {message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("input x: real[4,3]", "input x: real[4,4]", "the entry does not take the parameters and inputs"),
        ("result best\n", "", "the entry does not give the results"),
        ("  return v18, v6, v25\n", "", "function entry ends without its results"),
    ],
)
def test_a_text_whose_parts_do_not_fit_is_refused(old: str, new: str, message: str) -> None:
    text = every_kind().text()
    assert old in text
    with pytest.raises(GraphTextBad, match=message):
        graph_from_text(text.replace(old, new, 1))


@settings(max_examples=300)
@given(st.data())
def test_any_other_text_is_refused(data: st.DataObject) -> None:
    text = every_kind().text()
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 4))
    other = text[:at] + data.draw(st.text('v0123 =.,[]()<#-\n"abe{}', max_size=3)) + text[at + length :]
    try:
        assert graph_from_text(other).text() == other
    except GraphTextBad as e:
        assert str(e).startswith("E1206 graph line ")
