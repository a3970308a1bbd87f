"""repeated: a recording's entry run for several steps natively, from what the database holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.sources import recorded_source
from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.types import DTYPES
from presk_db.native.numbers import STORAGE
from presk_db.native.steps import steps_of
from presk_db.specs.weights import loaded_weights, resolved_parts, seeded_reader
from presk_db.store.engine import Engine
from presk_db.store.read import read_launch_order
from presk_db.store.recordings import StoredRecording
from presk_db.store.tensors import read_tensors

Array = np.ndarray[Any, np.dtype[Any]]
Progress = Callable[[str], None]


def repeated(
    engine: Engine,
    recording: StoredRecording,
    steps: int,
    weights: str | None = None,
    executor: Literal["numpy", "compiled"] = "numpy",
    progress: Progress = lambda stage: None,
) -> list[dict[str, Array]]:
    """The outputs by name after the last step, and those of shape () of the steps before it.

    Raises E1203 where the entry updates nothing, E7004 where the weights are missing or changed.
    """
    order = read_launch_order(engine, recording.id)
    inputs = {
        t.buffer: t.data.astype(STORAGE[t.type], copy=False)
        for t in read_tensors(engine, recording.id, "input")
        if t.data is not None
    }
    found = []
    for number, outputs in enumerate(
        steps_of(order, inputs, _weights(engine, recording, order, weights), steps, executor), 1
    ):
        progress(f"native step {number} of {steps}")
        kept = {order.buffers[n].name: a for n, a in outputs.items() if a.shape == () or number == steps}
        found.append(kept)
    return found


def write_outputs(engine: Engine, recording: StoredRecording, outputs: dict[str, Array], path: Path) -> None:
    """The outputs of a step as the program writes them."""
    types = {b.name: b.type for b in read_launch_order(engine, recording.id).buffers if b.role == "output"}
    tensors = [
        (name, DTYPES[types[name]], a.shape, [np.ascontiguousarray(a).reshape(-1)]) for name, a in outputs.items()
    ]
    write_safetensors(path, tensors, canonical_nans=True)


def _weights(engine: Engine, recording: StoredRecording, order: LaunchOrder, given: str | None) -> dict[int, Array]:
    if not order.weights:
        return {}
    if recording.weights_seed is not None:
        return loaded_weights(order, seeded_reader(recording.weights_seed), lambda stage, done, total: None)
    _, source = recorded_source(engine, recording, given)
    order = replace(order, weights=resolved_parts(order.weights, source))
    return loaded_weights(order, lambda part: source.read(part.tensor), lambda stage, done, total: None)
