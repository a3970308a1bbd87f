"""The step that follows from a forward pass: its logits are the forward pass' rows, bit for bit; what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from decoding_cases import equal_bits, forward_logits, small, stepped_logits
from pipeline import GPT2, LLAMA

from presk_db import language as L
from presk_db.errors import DimensionBad, EntryBad
from presk_db.language.decoding import decode_graph
from presk_db.language.graph import Graph
from presk_db.language.parser import graph_from_text
from presk_db.language.tracing import graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import realization_of_type
from presk_db.models.families import model_from_config
from presk_db.models.model import Model

LENGTH, VOCABULARY = 37, 11
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": small(GPT2, n_positions=LENGTH),
    "llama": small(LLAMA, max_position_embeddings=LENGTH),
    "qwen3": small(LLAMA, max_position_embeddings=LENGTH, model_type="qwen3", head_dim=6),
    "tied": small(GPT2, n_positions=LENGTH, tie_word_embeddings=True, n_layer=1),
    "no layers": small(GPT2, n_positions=LENGTH, n_layer=0),
}
CHUNKS = {"ones": [1] * LENGTH, "all": [LENGTH], "mixed": [5, 1, 1, 16, 1, 5, 5, 1, 1, 1]}


def model(config: str) -> Model:
    return model_from_config(CONFIGS[config])


def forward(config: str, batch: int = 1) -> Graph:
    found = model(config)
    return found.graph("forward", found.dimensions({"B": batch}))


@pytest.mark.parametrize("type_", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("config", CONFIGS)
def test_steps_give_the_rows_of_the_forward_pass(config: str, type_: str) -> None:
    """Caches begin as NaN: what no step has put there is never read."""
    prompts = 20 if config in ("gpt2", "llama") else 2
    graph = forward(config, batch=prompts)
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (prompts, LENGTH))
    wanted = forward_logits(graph, type_, tokens)
    assert len(np.unique(wanted)) > 100
    for chunks in CHUNKS.values():
        assert equal_bits(stepped_logits(graph, type_, tokens, chunks), wanted)


def test_the_step_of_an_entry_with_an_additive_mask_and_tokens_as_scores() -> None:
    """A user's own attention: the mask is added, and one head weighs the tokens themselves."""

    def entry(p: Any, tokens: L.Tensor) -> dict[str, L.Tensor]:
        x = L.gather(p["table"], tokens)
        shape = (LENGTH, LENGTH)
        mask = L.select(L.iota(shape, 1) > L.iota(shape, 0), L.const(-math.inf), 0.0)
        scores = L.matmul(x * 3.0, L.transpose(x)) + mask
        return {"logits": L.matmul(L.softmax(scores), x) + x[..., 1:2]}

    parameters = {"table": L.parameter("table", VOCABULARY, 4, scale=0.5)}
    graph = graph_from_entry(entry, parameters, {"tokens": L.int_input(2, LENGTH, limit=VOCABULARY)})
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (2, LENGTH))
    for chunks in CHUNKS.values():
        assert equal_bits(stepped_logits(graph, "f32", tokens, chunks), forward_logits(graph, "f32", tokens))


def test_the_text_of_a_step_is_read_back() -> None:
    text = decode_graph(forward("llama"), 3).text()
    assert graph_from_text(text).text() == text
    assert "input pos: int[]<35" in text and " state" in text


def test_a_step_keeps_the_functions_and_folds_and_one_cache_for_all_layers() -> None:
    order = launch_order(decode_graph(forward("llama"), 1), realization_of_type("f32"))
    assert [f.name for f in order.functions][:2] == ["decode", "block"]
    assert [(f.label, f.length) for f in order.folds] == [("block", 2)]
    states = {b.name: b.shape for b in order.buffers if b.given}
    assert states == {"keys": (2, 1, 1, 1, 4, LENGTH), "values": (2, 1, 1, 1, LENGTH, 4)}


def test_loops_end_where_the_positions_do() -> None:
    order = launch_order(decode_graph(forward("gpt2"), 2), realization_of_type("f32"))
    text = "".join(k.text for k in order.kernels())
    assert "par i2 < v0+2" in text or "par i3 < v0+2" in text
    assert f"< {LENGTH}\n" not in text


REFUSED = {
    "reads later positions": (lambda x: L.matmul(L.softmax(L.matmul(x, L.transpose(x))), x), "no causal mask excludes"),
    "sums over positions": (lambda x: L.sum(x, 1), "mixes positions"),
    "looks one ahead": (
        lambda x: L.softmax(
            L.select(
                L.iota((LENGTH, LENGTH), 1) <= L.iota((LENGTH, LENGTH), 0) + 1,
                L.matmul(x, L.transpose(x)),
                L.const(-math.inf),
            )
        ),
        "no causal mask excludes",
    ),
    "gives the last position": (lambda x: x[:, -1], "mixes positions"),
    "gives its scores": (lambda x: L.matmul(x, L.transpose(x)), "gives all positions back"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_step_is_refused(name: str) -> None:
    body, why = REFUSED[name]
    graph = graph_from_entry(
        lambda p, tokens: {"logits": body(L.gather(p["table"], tokens))},
        {"table": L.parameter("table", VOCABULARY, 4)},
        {"tokens": L.int_input(1, LENGTH, limit=VOCABULARY)},
    )
    with pytest.raises(EntryBad, match=why):
        decode_graph(graph, 1)


def test_dimensions() -> None:
    found = model("gpt2")
    assert found.dimensions({}, "decode")["C"] == 1
    for dims in ({"C": 0}, {"C": LENGTH + 1}):
        with pytest.raises(DimensionBad):
            found.dimensions(dims, "decode")
    with pytest.raises(DimensionBad):
        found.dimensions({"C": 1}, "forward")
    with pytest.raises(EntryBad, match="from 1 to 4 tokens"):
        found.graph("decode", found.dimensions({"C": 5, "T": 4}, "decode"))


def test_states_are_written_in_place_once_and_given_back() -> None:
    def put(p: Any, x: L.Tensor, at: L.Tensor, s: L.Tensor) -> dict[str, L.Tensor]:
        new = L.put_rows(s, x, at)
        return {"y": new * 2.0, "s": L.put_rows(new, x, at)}

    def layered(p: Any, x: L.Tensor, at: L.Tensor, s: L.Tensor) -> dict[str, L.Tensor]:
        def layer(carry: L.Tensor, rows: L.Tensor, at: L.Tensor) -> tuple[L.Tensor, L.Tensor]:
            return carry, L.put_rows(rows, carry, at)

        before = L.sum(L.reshape(s, -1))
        x, new = L.fold(layer, x[0, :1], s, at, collect=True)
        return {"y": x + before, "s": new}

    def elsewhere(p: Any, x: L.Tensor, at: L.Tensor, s: L.Tensor) -> dict[str, L.Tensor]:
        return {"y": L.put_rows(L.concat([x, x, x], 0) * 2.0, x, at), "s": L.put_rows(s, x, at)}

    cases = [
        ("read elsewhere", put),
        ("not given back", lambda p, x, at, s: {"y": x}),
        ("read elsewhere", lambda p, x, at, s: {"y": L.sum(s, 1), "s": L.put_rows(s, x, at)}),
        ("only after put_rows", layered),
        ("writes into a state", elsewhere),
    ]
    inputs = {"x": L.real_input(2, 3), "at": L.int_input(limit=3), "s": L.state_input(6, 3)}
    for why, entry in cases:
        with pytest.raises(EntryBad, match=why):
            launch_order(graph_from_entry(entry, {}, inputs), realization_of_type("f32"))
