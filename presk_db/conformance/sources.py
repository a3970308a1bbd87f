"""recorded_source, recorded_weights: the checkpoint that a recording was made from."""

import hashlib
from pathlib import Path

import numpy as np

from presk_db.checkpoints.convert import write_exactly
from presk_db.checkpoints.open import open_weights
from presk_db.checkpoints.source import TensorSource
from presk_db.errors import PreskError, WeightsNotFound
from presk_db.specs.weights import loaded_weights
from presk_db.store.engine import Engine
from presk_db.store.read import read_launch_order
from presk_db.store.recordings import StoredRecording, weights_path
from presk_db.store.tensors import read_tensors


def recorded_source(engine: Engine, recording: StoredRecording, given: str | None) -> tuple[str, TensorSource]:
    """The path and the tensors of the recorded weights, at `given` or where they were.

    They are the recorded file, or another one that gives the recorded bits. Raises WeightsNotFound (E7004) where they are
    missing or changed.
    """
    path = given or weights_path(engine, recording.id)
    if path is None:
        raise WeightsNotFound("no weights file came with the recording: give --weights", recording.name)
    if not Path(path).exists():
        raise WeightsNotFound("the weights are not where they were: give --weights", str(path))
    source = open_weights(path)
    if source.digest() != recording.weights_digest:
        changed = changed_weights(engine, recording, source)
        if changed is not None:
            raise WeightsNotFound(
                f"these are not the weights that were recorded: their SHA-256 differs, and {changed}", str(path)
            )
    return path, source


def recorded_weights(engine: Engine, recording: StoredRecording, given: str | None, work: Path) -> Path | None:
    """The weights file for the program, None where it draws them: the user's own where it is one safetensors file, else
    converted into the folder `work`. Raises WeightsNotFound (E7004) where it is missing or changed.
    """
    if recording.weights_kind != "file":
        return None
    path, source = recorded_source(engine, recording, given)
    if path.endswith(".safetensors"):
        return Path(path)
    target = work / "weights.safetensors"
    write_exactly(target, source)
    return target


def changed_weights(engine: Engine, recording: StoredRecording, source: TensorSource) -> str | None:
    """What is wrong with the first weight whose bits are not the recorded ones; None where all are."""
    recorded = {t.buffer: t for t in read_tensors(engine, recording.id, "weight")}
    try:
        weights = loaded_weights(
            read_launch_order(engine, recording.id),
            lambda part: source.read(part.tensor),
            lambda stage, done, total: None,
        )
    except PreskError as e:
        return f"{e.place}: {e.message}"
    except ValueError:
        return "a tensor has another shape"
    for number, array in sorted(weights.items()):
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        if hashlib.sha256(little.reshape(-1).view(np.uint8).data).hexdigest() != recorded[number].digest:
            return f"{recorded[number].name} has other bits"
    return None
