"""Weights and inputs from files: names resolved, every tensor accounted for, what a file can do wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline import GPT2, LLAMA, config_file

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.draw import drawn_weight
from presk_db.errors import (
    CheckpointUnreadable,
    GgufMalformed,
    InputBad,
    InputOutOfRange,
    PreskError,
    SafetensorsMalformed,
    TensorMissing,
    TensorShapeBad,
    TensorTypeBad,
    TensorUnexpected,
)
from presk_db.kernels.launches import WeightPart
from presk_db.recording.events import Recording
from presk_db.specs.record import recorded, traced
from presk_db.specs.spec import spec_from

Tensors = dict[str, np.ndarray[Any, Any]]


def made(config: dict[str, Any], folder: Path, **flags: Any) -> Recording:
    return recorded(spec_from(config_file(folder, config), flags))


def outputs(recording: Recording) -> list[str]:
    return [t.digest for t in recording.tensors if t.role == "output"]


def drawn(config: dict[str, Any], folder: Path, seed: int = 1) -> Tensors:
    """The seeded weights as a checkpoint's tensors."""
    parts: tuple[WeightPart, ...] = made(config, folder).order.weights
    return {p.tensor: drawn_weight(seed, p.tensor, p.shape, p.low, p.high) for p in parts}


@pytest.fixture
def tensors(tmp_path: Path) -> Tensors:
    return drawn(GPT2, tmp_path)


def from_file(tmp_path: Path, tensors: Tensors, config: dict[str, Any] = GPT2) -> Recording:
    write_safetensors(tmp_path / "w.safetensors", tensors)
    return made(config, tmp_path, weights=str(tmp_path / "w.safetensors"))


def test_a_file_and_the_seed_give_the_same(tmp_path: Path, tensors: Tensors) -> None:
    expected = outputs(made(GPT2, tmp_path))
    assert outputs(from_file(tmp_path, tensors)) == expected
    assert outputs(made(GPT2, tmp_path, weights="seed:2")) != expected
    wide = {name: a.astype(np.float64) for name, a in tensors.items()}
    assert outputs(from_file(tmp_path, wide)) == expected


def test_a_folders_own_weights_are_the_default(tmp_path: Path, tensors: Tensors) -> None:
    config_file(tmp_path, GPT2)
    write_safetensors(tmp_path / "model.safetensors", tensors)
    own = recorded(spec_from(str(tmp_path), {}))
    assert own.weights.kind == "file"
    assert outputs(own) == outputs(made(GPT2, tmp_path))
    seeded = recorded(spec_from(str(tmp_path), {"weights": "seed:1"}))
    assert (seeded.weights.kind, outputs(seeded)) == ("seed", outputs(own))


def test_a_model_without_its_head_drops_the_prefix(tmp_path: Path) -> None:
    config = {**GPT2, "tie_word_embeddings": True}
    tensors = drawn(config, tmp_path)
    bare = {name.removeprefix("transformer."): a for name, a in tensors.items()}
    recording = from_file(tmp_path, bare, config)
    assert outputs(recording) == outputs(made(config, tmp_path))
    assert "wte.weight" in {p.tensor for p in recording.order.weights}, "the program reads the user's own file"


def test_a_prefix_is_dropped_from_all_or_none(tmp_path: Path, tensors: Tensors) -> None:
    tensors["wte.weight"] = tensors.pop("transformer.wte.weight")
    with pytest.raises(TensorMissing, match=r"E1104 tensor transformer.wte.weight"):
        from_file(tmp_path, tensors)


@pytest.mark.parametrize("config", [GPT2, LLAMA])
def test_a_tied_head_may_be_there_twice_if_it_is_equal(tmp_path: Path, config: dict[str, Any]) -> None:
    config = {**config, "tie_word_embeddings": True}
    tensors = drawn(config, tmp_path)
    embedding = next(n for n in tensors if n.endswith(("wte.weight", "embed_tokens.weight")))
    tensors["lm_head.weight"] = tensors[embedding]
    assert outputs(from_file(tmp_path, tensors, config)) == outputs(made(config, tmp_path))
    tensors["lm_head.weight"] = tensors[embedding] + 1
    with pytest.raises(TensorUnexpected, match=r"E1105 tensor lm_head.weight: differs"):
        from_file(tmp_path, tensors, config)


def test_masks_and_frequencies_are_ignored(tmp_path: Path, tensors: Tensors) -> None:
    tensors["transformer.h.0.attn.bias"] = np.ones((1, 1, 6, 6), np.bool_)
    tensors["transformer.h.0.attn.masked_bias"] = np.float32(-1e4).reshape(())
    assert outputs(from_file(tmp_path, tensors)) == outputs(made(GPT2, tmp_path))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda t: t.pop("lm_head.weight"), TensorMissing, "E1104 tensor lm_head.weight"),
        (lambda t: t.update(extra=np.zeros(1)), TensorUnexpected, "E1105 tensor extra"),
        (lambda t: t.update({"lm_head.weight": np.zeros((8, 11))}), TensorShapeBad, "E1106 tensor lm_head.weight"),
        (lambda t: t.update({"lm_head.weight": np.zeros((11, 8), np.int32)}), TensorTypeBad, "E1107 tensor lm_head"),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path, tensors: Tensors, change: Any, error: type[PreskError], said: str
) -> None:
    change(tensors)
    with pytest.raises(error, match=said):
        from_file(tmp_path, tensors)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("w.safetensors", b"", SafetensorsMalformed),
        ("w.safetensors", (10**9).to_bytes(8, "little") + b"{}", SafetensorsMalformed),
        ("w.gguf", b"GGUF", GgufMalformed),
        ("w.safetensors", None, CheckpointUnreadable),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, error: type[PreskError]) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=name):
        made(GPT2, tmp_path, weights=str(tmp_path / name))


def with_inputs(tmp_path: Path, **arrays: np.ndarray[Any, Any]) -> Recording:
    write_safetensors(tmp_path / "i.safetensors", arrays)
    return made(GPT2, tmp_path, inputs=str(tmp_path / "i.safetensors"), dims={"T": 3})


def test_inputs_from_a_file(tmp_path: Path) -> None:
    recording = with_inputs(tmp_path, tokens=np.array([[0, 10, 5]], np.int64))
    (tokens,) = (t for t in recording.tensors if t.role == "input")
    assert tokens.data is not None
    assert tokens.data.tolist() == [[0, 10, 5]]
    assert '"inputs":{"sha256":' in recording.spec


@pytest.mark.parametrize(
    ("arrays", "error", "said"),
    [
        ({}, InputBad, "tensor tokens: the file lacks"),
        ({"tokens": np.zeros((1, 3), np.int64), "x": np.zeros(1)}, InputBad, "tensor x: the entry has no such"),
        ({"tokens": np.zeros((1, 4), np.int64)}, InputBad, r"has shape \[1, 4\], the entry needs \[1, 3\]"),
        ({"tokens": np.zeros((1, 3))}, InputBad, "must be integers"),
        ({"tokens": np.array([[0, 11, 0]])}, InputOutOfRange, r"E1204 .*element \[0, 1\] is 11"),
        ({"tokens": np.array([[0, 0, -1]])}, InputOutOfRange, r"element \[0, 2\] is -1"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path: Path, arrays: Tensors, error: type[PreskError], said: str) -> None:
    with pytest.raises(error, match=said):
        with_inputs(tmp_path, **arrays)


def test_a_graph_alone(tmp_path: Path) -> None:
    assert "function forward(" in traced(spec_from(config_file(tmp_path, GPT2), {"dims": {"T": 2}})).text()
