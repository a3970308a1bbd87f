"""recorded_source, recorded_weights: the checkpoint that a recording was made from."""

from pathlib import Path

from presk_db.checkpoints.convert import write_exactly
from presk_db.checkpoints.open import open_weights
from presk_db.checkpoints.source import TensorSource
from presk_db.errors import WeightsNotFound
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording, weights_path


def recorded_source(engine: Engine, recording: StoredRecording, given: str | None) -> tuple[str, TensorSource]:
    """The path and the tensors of the recorded weights file, at `given` or where it was.

    Raises WeightsNotFound (E7004) where it is missing or changed.
    """
    path = given or weights_path(engine, recording.id)
    if path is None or not Path(path).exists():
        raise WeightsNotFound("the weights are not where they were: give --weights", str(path))
    source = open_weights(path)
    if source.digest() != recording.weights_digest:
        raise WeightsNotFound("these are not the weights that were recorded: their SHA-256 differs", str(path))
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
