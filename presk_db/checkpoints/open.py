"""open_model and open_weights: from the path that a user gives to a config and a TensorSource."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.hf_config import config_from_gguf
from presk_db.checkpoints.hf_source import hf_source_from_gguf
from presk_db.checkpoints.json_text import json_object
from presk_db.checkpoints.mapped import MappedFile, PathLike
from presk_db.checkpoints.safetensors import SafetensorsFile, ShardedSafetensors
from presk_db.checkpoints.source import TensorSource
from presk_db.errors import CheckpointUnreadable, SpecUnreadable

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG_LIMIT = 10_000_000  # bytes


@dataclass(frozen=True)
class ModelFiles:
    """A model on disk: its Hugging Face config, its weights if there are any, and the files that hold them."""

    config: dict[str, Any]
    tensors: TensorSource | None
    files: tuple[Path, ...]


def open_model(path: PathLike) -> ModelFiles:
    """The model at `path`: a folder with config.json and perhaps safetensors, a config alone, or a GGUF file.

    Errors: SpecUnreadable (E1001) for the config; those of the weights' readers.
    """
    shown = os.fspath(path)
    if os.path.isdir(shown):
        config_path = os.path.join(shown, CONFIG)
        config = config_from_json(config_path)
        weights = _weights_in(shown)
        if weights is None:
            return ModelFiles(config, None, (Path(config_path),))
        source = open_weights(weights)
        return ModelFiles(config, source, (Path(config_path), *_files(source, weights)))
    if is_gguf(shown):
        file = GgufFile(shown)
        return ModelFiles(config_from_gguf(file), hf_source_from_gguf(file), (Path(shown),))
    if shown.endswith(".safetensors") or shown.endswith(INDEX):
        raise SpecUnreadable(f"holds weights but no config: give the folder, or its {CONFIG}", shown)
    return ModelFiles(config_from_json(shown), None, (Path(shown),))


def open_weights(path: PathLike) -> TensorSource:
    """The weights at `path`: a .safetensors file, an index, a folder with either, or a GGUF file (as Hugging Face's).

    Errors: CheckpointUnreadable (E1101), and those of the readers.
    """
    shown = os.fspath(path)
    if os.path.isdir(shown):
        weights = _weights_in(shown)
        if weights is None:
            raise CheckpointUnreadable(f"the folder holds neither {WEIGHTS} nor {INDEX}", shown)
        return open_weights(weights)
    if is_gguf(shown):
        return hf_source_from_gguf(shown)
    if shown.endswith(".json"):
        return ShardedSafetensors(shown)
    return SafetensorsFile(shown)


def config_from_json(path: PathLike) -> dict[str, Any]:
    """The object in a config.json, strictly: duplicate keys, NaN and infinities are refused.

    Errors: SpecUnreadable (E1001), with the line or byte.
    """
    shown = os.fspath(path)
    try:
        file = MappedFile(shown)
    except CheckpointUnreadable as error:
        raise SpecUnreadable(error.message, error.place) from error
    if file.size > CONFIG_LIMIT:
        raise SpecUnreadable(f"has {file.size} bytes; a config of more than {CONFIG_LIMIT} is not read", shown)
    return json_object(file.content(), shown, SpecUnreadable)


def _weights_in(folder: str) -> str | None:
    """The folder's weights: model.safetensors before an index, as transformers has it."""
    for name in (WEIGHTS, INDEX):
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            return path
    return None


def _files(source: TensorSource, weights: str) -> tuple[Path, ...]:
    if isinstance(source, ShardedSafetensors):
        return (Path(weights), *(Path(shard.file.shown) for shard in source.shards.values()))
    return (Path(weights),)


def is_gguf(shown: str) -> bool:
    """By the name, or by the first bytes of a regular file."""
    if shown.endswith(".gguf"):
        return True
    return os.path.isfile(shown) and MappedFile(shown).data[:4].tobytes() == b"GGUF"
