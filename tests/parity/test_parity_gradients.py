"""Losses, gradients and optimizer steps of the native run in f64 against PyTorch's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from parity_models import Silent, random_tokens, randomized
from test_parity_transformers import GPT2, LLAMA, _frequencies, _norm, model_of
from transformers.models.llama import modeling_llama

from presk_db.kernels.launches import LaunchOrder
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.models.families import model_from_config
from presk_db.native.run import run
from presk_db.native.steps import steps_of

pytestmark = pytest.mark.parity

Array = np.ndarray[Any, np.dtype[Any]]

CASES: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu"},
    "gpt2-relu": GPT2 | {"activation_function": "relu"},
    "gpt2-small": GPT2
    | {"n_layer": 3, "n_embd": 48, "vocab_size": 65, "n_positions": 32, "tie_word_embeddings": False},
    "llama": LLAMA,
    "llama-tied-biases": LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
}


def torch_model(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """The transformers model in f64 throughout, with random parameters."""
    module = model_of(config).double()
    if config["model_type"] == "llama":
        monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", _norm)
        frequency = torch.from_numpy(_frequencies(config))

        def tables(x: torch.Tensor, position_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
            angles = position_ids[..., None].double() * frequency
            both = torch.cat((angles, angles), -1)
            return both.cos(), both.sin()

        monkeypatch.setattr(module.model.rotary_emb, "forward", tables)
    randomized(module, 1)
    return module


def native(order: LaunchOrder, inputs: Mapping[str, Array], weights: Mapping[int, Array]) -> dict[str, Array]:
    """The outputs of the native run by name."""
    given = {b.id: np.asarray(inputs[b.name]) for b in order.buffers if b.role == "input"}
    return {order.buffers[n].name: a for n, a in run(order, given, weights, Silent()).items()}


def stacked(order: LaunchOrder, tensors: Mapping[str, Array]) -> dict[int, Array]:
    """The weight buffers of the checkpoint's tensors."""
    weights = {b.id: np.zeros(b.elements) for b in order.buffers if b.role == "weight"}
    for part in order.weights:
        flat = (tensors[part.tensor].T if part.transposed else tensors[part.tensor]).reshape(-1)
        weights[part.buffer][part.offset : part.offset + flat.size] = flat
    return {n: a.reshape(order.buffers[n].shape) for n, a in weights.items()}


def batch(config: Mapping[str, Any], seed: int) -> tuple[Array, Array]:
    """Tokens and targets (2, 9); some targets are ignored."""
    vocabulary = config["vocab_size"]
    tokens, targets = (random_tokens(2, 9, vocabulary, seed + i) for i in (0, 100))
    targets[0, 3:5] = vocabulary
    return tokens, targets


def torch_loss(module: torch.nn.Module, tokens: Array, targets: Array, vocabulary: int) -> torch.Tensor:
    """The mean cross-entropy over the targets that are not ignored."""
    logits = module(torch.from_numpy(tokens)).logits
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocabulary), torch.from_numpy(targets).reshape(-1), ignore_index=vocabulary
    )


def check_trees(order: LaunchOrder, prefix: str, found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """Every parameter's value, relative to the tensor's largest element."""
    for number, array in stacked(order, wanted).items():
        name = order.buffers[number].name
        error = np.abs(found[f"{prefix}.{name}"] - array).max() / np.abs(array).max()
        assert error < 1e-10, (name, error)


def parameters_of(module: torch.nn.Module) -> dict[str, Array]:
    """The parameters by their names in the checkpoint."""
    return {n: p.detach().numpy().copy() for n, p in module.state_dict().items()}


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient(name: str, remat: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CASES[name]
    module = torch_model(config, monkeypatch)
    tokens, targets = batch(config, 5)
    loss = torch_loss(module, tokens, targets, config["vocab_size"])
    loss.backward()
    model = model_from_config(config)
    graph = model.graph("loss_grad", model.dimensions({"B": 2, "T": 9}), remat)
    order = launch_order(graph, Realization("f64"))
    found = native(order, {"tokens": tokens, "targets": targets}, stacked(order, parameters_of(module)))
    assert abs(float(found["loss"]) - loss.item()) < 1e-12 * abs(loss.item())
    grads = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    check_trees(order, "grad", found, grads)


@pytest.mark.parametrize("name", ["gpt2-untied", "llama-tied-biases"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_five_steps(name: str, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five steps with clipping, two micro-batches each, that feed the outputs back."""
    config = CASES[name]
    module = torch_model(config, monkeypatch)
    model = model_from_config(config)
    entry = {"adamw": "train_step", "sgd": "train_step_sgd"}[optimizer]
    order = launch_order(model.graph(entry, model.dimensions({"M": 2, "B": 1, "T": 9})), Realization("f64"))
    weights = stacked(order, parameters_of(module))
    names = {b.id: b.name for b in order.buffers if b.role == "weight"}
    state = {f"{m}.{name}": np.zeros(weights[n].shape) for m in ("m", "v") for n, name in names.items()}
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    steps = kinds[optimizer](module.parameters(), lr=1e-3)
    for step in range(1, 6):
        tokens, targets = batch(config, step)
        steps.zero_grad()
        loss = torch_loss(module, tokens, targets, config["vocab_size"])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for group in steps.param_groups:
            group["lr"] = 1e-3 / step
        steps.step()
        given = {
            "tokens": tokens[:, None],
            "targets": targets[:, None],
            "lr": 1e-3 / step,
            "step": float(step),
            **state,
        }
        found = native(order, given, weights)
        assert abs(float(found["loss"]) - loss.item()) < 1e-12
        assert abs(float(found["norm"]) - float(norm)) < 1e-10 * float(norm)
        weights = {n: found[f"p.{name}"] for n, name in names.items()}
        if optimizer == "adamw":
            state = {k: found[k] for k in state}
    check_trees(order, "p", found, parameters_of(module))


@pytest.mark.parametrize("name", ["gpt2-small", "llama"])
def test_the_loss_of_a_hundred_steps(name: str) -> None:
    """In f32 on one batch: the curve is PyTorch's within 1e-3, and falls."""
    config = CASES[name]
    module = model_of(config)
    randomized(module, 1)
    model = model_from_config(config)
    order = launch_order(model.graph("train_step", model.dimensions({"B": 2, "T": 9})), Realization("f32"))
    weights = {n: a.astype(np.float32) for n, a in stacked(order, parameters_of(module)).items()}
    tokens, targets = batch(config, 1)
    given = {"tokens": tokens, "targets": targets, "lr": np.float64(1e-3), "step": np.float64(1.0)}
    inputs = {
        b.id: np.asarray(given.get(b.name, np.zeros(b.shape, np.float32))) for b in order.buffers if b.role == "input"
    }
    (loss,) = (b.id for b in order.buffers if b.name == "loss")
    found = [float(outputs[loss]) for outputs in steps_of(order, inputs, weights, 100, "compiled")]
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    wanted = []
    for _ in range(100):
        optimizer.zero_grad()
        value = torch_loss(module, tokens, targets, config["vocab_size"])
        value.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        wanted.append(value.item())
    assert np.abs(np.array(found) - np.array(wanted)).max() < 1e-3 * max(wanted)
    assert wanted[-1] < 0.8 * wanted[0]
