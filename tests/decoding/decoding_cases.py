"""What tests of the step share: a forward pass and its steps, run natively on the same numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from presk_db.kernels.launches import LaunchOrder
from presk_db.language.decoding import decode_graph
from presk_db.language.graph import Graph
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import realization_of_type
from presk_db.native.numbers import STORAGE
from presk_db.native.run import Array, run
from presk_db.specs.weights import loaded_weights, seeded_reader


class Silent:
    """A recorder that forgets."""

    def event(self, event: object) -> None:
        """Nothing."""


def drawn_weights(order: LaunchOrder, scale: float = 8.0) -> dict[int, Array]:
    """Weights from a seed, larger than a model's, so that attention is far from uniform."""
    weights = loaded_weights(order, seeded_reader(3), lambda *_: None)
    return {n: a if a.dtype == np.uint16 else a * np.asarray(scale, a.dtype) for n, a in weights.items()}


def forward_logits(graph: Graph, type_: str, tokens: Array) -> Array:
    """The forward pass' logits (B, T, V)."""
    order = launch_order(graph, realization_of_type(type_))
    inputs = {b.id: tokens for b in order.buffers if b.role == "input"}
    outputs = run(order, inputs, drawn_weights(order), Silent())
    return outputs[next(b.id for b in order.buffers if b.name == "logits")]


def stepped_logits(graph: Graph, type_: str, tokens: Array, chunks: Sequence[int], fill: float = np.nan) -> Array:
    """The logits (B, T, V) of steps of these sizes, one after the other; caches hold `fill` before."""
    orders = {c: launch_order(decode_graph(graph, c), realization_of_type(type_)) for c in sorted(set(chunks))}
    states: dict[str, Array] = {}
    rows, at = [], 0
    for c in chunks:
        order = orders[c]
        given: dict[str, Array] = {"tokens": tokens[:, at : at + c], "pos": np.array(at), **states}
        taken = [b for b in order.buffers if b.role == "input" or b.given]
        inputs = {b.id: given[b.name] if b.name in given else _filled(b, fill) for b in taken}
        outputs = run(order, inputs, drawn_weights(order), Silent())
        named = {b.name: outputs[b.id] for b in order.buffers if b.role == "output"}
        states = {b.name: named[b.name] for b in order.buffers if b.given}
        rows.append(named["logits"])
        at += c
    return np.concatenate(rows, axis=1)


def _filled(buffer: Any, fill: float) -> Array:
    if buffer.type == "bf16":
        return np.full(buffer.shape, 0x7FC0 if np.isnan(fill) else 0, np.uint16)
    return np.full(buffer.shape, fill, STORAGE[buffer.type])


def equal_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have the same bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def small(config: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A config with some fields changed."""
    return {**config, **changes}
