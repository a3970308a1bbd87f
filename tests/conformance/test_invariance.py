"""Row i of a batch is the row alone, and a prefix is the shorter context: equal bits, on random inputs and weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.kernels.launches import LaunchOrder
from presk_db.language import nn
from presk_db.language.graph import Input
from presk_db.language.tracing import Tensor, graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.numbers import STORAGE
from presk_db.native.run import run
from presk_db.recording.events import EventList
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from

Array = np.ndarray[Any, np.dtype[Any]]

CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 36, "n_head": 3, "n_layer": 2,
        "n_positions": 16, "vocab_size": 65,
    },
    "llama": {
        "model_type": "llama", "hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 70, "vocab_size": 65, "max_position_embeddings": 32,
    },
}  # fmt: skip
TYPES = ("f64", "f32", "bf16")


def logits(folder: Path, family: str, type_: str, tokens: Array, seed: int) -> Array:
    """The model's logits for tokens (B, T), as stored: (B, T, V)."""
    config, inputs = folder / f"{family}.json", folder / "inputs.safetensors"
    config.write_text(json.dumps(CONFIGS[family]))
    write_safetensors(inputs, {"tokens": tokens})
    b, t = tokens.shape
    flags = {"dims": {"B": b, "T": t}, "type": type_, "weights": f"seed:{seed}", "inputs": str(inputs)}
    tensors = recorded(spec_from(str(config), flags)).tensors
    (data,) = [x.data for x in tensors if x.role == "output" and x.name == "logits"]
    assert data is not None
    return data


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("family", list(CONFIGS))
def test_rows_and_prefixes_of_models(tmp_path: Path, family: str, type_: str) -> None:
    draw = np.random.default_rng([len(family), len(type_)])
    seed, tokens = int(draw.integers(1000)), draw.integers(0, 65, (3, 11))
    whole = logits(tmp_path, family, type_, tokens, seed)
    for row in range(3):
        alone = logits(tmp_path, family, type_, tokens[row : row + 1], seed)
        assert alone.tobytes() == whole[row : row + 1].tobytes(), f"row {row}"
    for length in (1, 2, 7, 10):
        shorter = logits(tmp_path, family, type_, tokens[:, :length], seed)
        assert shorter.tobytes() == np.ascontiguousarray(whole[:, :length]).tobytes(), f"prefix {length}"


def test_a_difference_is_seen(tmp_path: Path) -> None:
    tokens = np.arange(6).reshape(1, 6)
    one, other = (logits(tmp_path, "gpt2", "f32", t, 1) for t in (tokens, (tokens + 1) % 65))
    assert one.tobytes() != other.tobytes()


def body(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Norms, a product, an activation, softmax: each row (…, K) on its own."""
    y = nn.linear(nn.layer_norm(x, b, b, 1e-5), w, b)
    return nn.softmax(nn.gelu_tanh(nn.rms_norm(y, b, 1e-6)) + x)


def rows_order(rows: int, width: int, type_: str) -> LaunchOrder:
    """The launch order of `body` on so many rows."""

    def entry(parameters: None, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return body(x, w, b)

    inputs = {"x": Input("real", (rows, width)), "w": Input("real", (width, width)), "b": Input("real", (width,))}
    return launch_order(graph_from_entry(entry, None, inputs), Realization(type_))


def result(order: LaunchOrder, inputs: dict[str, Array]) -> Array:
    """The one output of the native run."""
    given_ = {b.id: inputs[b.name] for b in order.buffers if b.role == "input"}
    (output,) = run(order, given_, {}, EventList([])).values()
    return output


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 9), width=st.integers(1, 71), type_=st.sampled_from(TYPES))
def test_rows_of_random_shapes(seed: int, rows: int, width: int, type_: str) -> None:
    draw = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        values = (draw.standard_normal(shape) * 2.0 ** draw.integers(-60, 60, shape)).astype(np.float32)
        values[draw.random(shape) < 0.05] = draw.choice([0.0, -0.0, 1e-45, np.inf, np.nan])
        return (values.view(np.uint32) >> 16).astype(np.uint16) if type_ == "bf16" else values.astype(STORAGE[type_])

    inputs = {"x": drawn(rows, width), "w": drawn(width, width), "b": drawn(width)}
    whole = result(rows_order(rows, width, type_), inputs)
    single = rows_order(1, width, type_)
    for row in range(rows):
        alone = result(single, {**inputs, "x": inputs["x"][row : row + 1]})
        assert alone.tobytes() == whole[row : row + 1].tobytes()
    count = int(draw.integers(1, rows + 1))
    fewer = result(rows_order(count, width, type_), {**inputs, "x": inputs["x"][:count]})
    assert fewer.tobytes() == whole[:count].tobytes()
