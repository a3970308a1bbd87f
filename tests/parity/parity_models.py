"""Tiny models with random weights, in transformers and in presk: the same tensors under the same names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.models.families import model_from_config
from presk_db.native.run import run

Array = np.ndarray[Any, np.dtype[Any]]


class Silent:
    """A recorder that forgets."""

    def event(self, event: object) -> None:
        """Nothing."""


def native_logits(config: Mapping[str, Any], tensors: Mapping[str, Array], tokens: Array, type_: str) -> Array:
    """The logits of presk's native run: `tensors` by their names in the checkpoint, `tokens` (B, T)."""
    model = model_from_config(config)
    dims = model.dimensions({"B": tokens.shape[0], "T": tokens.shape[1]})
    order = launch_order(model.graph("forward", dims), Realization(type_))
    dtype = {"f32": np.float32, "f64": np.float64}[type_]
    weights = {b.id: np.zeros(b.elements, dtype) for b in order.buffers if b.role == "weight"}
    for part in order.weights:
        tensor = tensors[part.tensor]
        assert tensor.shape == part.shape, part.tensor
        flat = (tensor.T if part.transposed else tensor).reshape(-1)
        weights[part.buffer][part.offset : part.offset + flat.size] = flat
    shaped = {n: a.reshape(order.buffers[n].shape) for n, a in weights.items()}
    inputs = {b.id: tokens for b in order.buffers if b.role == "input"}
    outputs = run(order, inputs, shaped, Silent())
    return next(a for n, a in outputs.items() if order.buffers[n].name == "logits")


def randomized(module: torch.nn.Module, seed: int) -> dict[str, Array]:
    """Gives every parameter random numbers, norms and biases too, and returns them by name."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            center = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(center + 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def random_tokens(batch: int, length: int, vocabulary: int, seed: int) -> Array:
    """Tokens (B, T)."""
    return np.random.default_rng(seed).integers(0, vocabulary, (batch, length)).astype(np.int64)
