"""Weight buffers from a checkpoint or a seed: names resolved, shapes checked, exact reals rounded once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from presk_db.checkpoints.source import TensorSource
from presk_db.draw import drawn_weight
from presk_db.errors import TensorMissing, TensorShapeBad, TensorTypeBad, TensorUnexpected
from presk_db.kernels.launches import LaunchOrder, WeightPart
from presk_db.native.numbers import STORAGE, Array, bf16_from_f32

Progress = Callable[[str, int, int], None]

IGNORED = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Ends of names of tensors that some checkpoints hold and no forward pass reads: masks and frequencies."""

EMBEDDINGS = ("wte.weight", "embed_tokens.weight")
HEAD = "lm_head.weight"


def resolved_parts(parts: Sequence[WeightPart], source: TensorSource) -> tuple[WeightPart, ...]:
    """The parts under the names that the checkpoint uses; every tensor of it accounted for.

    A checkpoint of a model without its head drops the prefix `transformer.` or `model.`. One of a model with a tied head
    may hold it again as `lm_head.weight`, equal to the embedding. Raises E1104 for a missing tensor, E1105 for an extra
    one, E1106 for a misshapen one, E1107 for one that is not real.
    """
    names = set(source.names())
    dropped = [p for p in ("transformer.", "model.") if not any(name.startswith(p) for name in names)]
    found: list[WeightPart] = []
    for part in parts:
        prefix = next((p for p in dropped if part.tensor.startswith(p)), "")
        name = part.tensor.removeprefix(prefix)
        if name not in names:
            raise TensorMissing("the checkpoint lacks this tensor", f"tensor {part.tensor}")
        info = source.info(name)
        if info.shape != part.shape:
            raise TensorShapeBad(f"has shape {list(info.shape)}, the model needs {list(part.shape)}", f"tensor {name}")
        if info.dtype.startswith(("I", "U", "BOOL")):
            raise TensorTypeBad(f"has type {info.dtype}; a weight is real", f"tensor {name}")
        found.append(replace(part, tensor=name))
    embedding = next((p.tensor for p in found if p.tensor.endswith(EMBEDDINGS)), None)
    for name in sorted(names - {part.tensor for part in found}):
        if name == HEAD and embedding is not None and source.info(name).shape == source.info(embedding).shape:
            if not np.array_equal(source.read(name), source.read(embedding), equal_nan=True):
                raise TensorUnexpected(f"differs from {embedding}, with which the config ties it", f"tensor {name}")
        elif not name.endswith(IGNORED):
            raise TensorUnexpected("the model does not know this tensor", f"tensor {name}")
    return tuple(found)


def rounded_to(values: Array, type_: str) -> Array:
    """Exact reals (float32 or float64) rounded once to a storage type; bf16 through f32, as uint16."""
    with np.errstate(all="ignore"):
        if type_ == "bf16":
            return bf16_from_f32(values.astype(np.float32, copy=False))
        return values.astype(STORAGE[type_], copy=False)


def loaded_weights(
    order: LaunchOrder,
    read: Callable[[WeightPart], Array],
    progress: Progress,
    parts: Sequence[WeightPart] | None = None,
) -> dict[int, Array]:
    """Each weight buffer's contents by number: `read` gives a part's exact reals in the checkpoint's shape.

    `parts` are the order's parts under other names, where they have some.
    """
    weights: dict[int, Array] = {
        b.id: np.empty(b.elements, STORAGE[b.type]) for b in order.buffers if b.role == "weight"
    }
    for done, part in enumerate(order.weights if parts is None else parts):
        progress("weights", done, len(order.weights))
        buffer = order.buffers[part.buffer]
        values = read(part)
        if part.transposed:
            values = values.T
        size = int(np.prod(part.shape, dtype=np.int64))
        weights[part.buffer][part.offset : part.offset + size] = rounded_to(values, buffer.type).reshape(-1)
    progress("weights", len(order.weights), len(order.weights))
    return {number: array.reshape(order.buffers[number].shape) for number, array in weights.items()}


def seeded_reader(seed: int) -> Callable[[WeightPart], Array]:
    """Reads parts from a seed instead of a file."""

    def read(part: WeightPart) -> Array:
        array: np.ndarray[Any, np.dtype[Any]] = drawn_weight(seed, part.tensor, part.shape, part.low, part.high)
        return array

    return read
