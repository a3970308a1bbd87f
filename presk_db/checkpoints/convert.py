"""convert: a GGUF file to a Hugging Face folder, config.json and model.safetensors, without changing one value."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.hf_config import config_from_gguf
from presk_db.checkpoints.hf_source import HfGguf
from presk_db.checkpoints.mapped import PathLike, reason
from presk_db.checkpoints.safetensors_write import Chunk, Chunks, replaced_file, write_safetensors
from presk_db.checkpoints.source import Array, TensorSource, is_float32
from presk_db.checkpoints.tokenizer import tokenizer_configs, tokenizer_from_gguf
from presk_db.errors import OutputUnwritable, TokenizerBad

Progress = Callable[[int, int, str], None]  # tensors done, tensors in all, the name at hand


@dataclass(frozen=True)
class ConvertedTensor:
    """One tensor of the result: its name, the GGUF storage type, the safetensors type, the shape."""

    name: str
    source_dtype: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Converted:
    """What `convert` wrote: the folder as given, the files' names in it, the config, and every tensor, by name."""

    folder: str
    files: tuple[str, ...]
    config: dict[str, Any]
    tensors: tuple[ConvertedTensor, ...]


def convert(gguf_path: PathLike, out_folder: PathLike, progress: Progress | None = None) -> Converted:
    """Writes config.json, model.safetensors and, where the metadata suffice, the tokenizer's files to `out_folder`.

    Each real tensor is stored in the smaller of F32 and F64 that holds every element exactly, integers as I64.
    `out_folder` must be new or empty; it is made beside and renamed, so that nothing half-written is left.
    `progress` is called once a tensor before it is written and once at the end.

    Errors: OutputUnwritable (E1108), and those of GgufFile, config_from_gguf, HfGguf and reading.
    """
    file = GgufFile(gguf_path)
    config = config_from_gguf(file)
    tokenizer = _tokenizer(file)
    source = HfGguf(file)
    shown = os.fspath(out_folder)
    texts = {"config.json": config}
    if tokenizer is not None:
        texts["tokenizer.json"] = tokenizer
        texts |= tokenizer_configs(file)
    with _new_folder(shown) as folder:
        for name, value in texts.items():
            with replaced_file(os.path.join(folder, name)) as out:
                out.write((json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8"))
        tensors = write_exactly(os.path.join(folder, "model.safetensors"), source, progress)
    return Converted(shown, tuple(sorted([*texts, "model.safetensors"])), config, tensors)


def _tokenizer(file: GgufFile) -> dict[str, Any] | None:
    """The tokenizer.json, or None where the metadata do not describe one that presk knows."""
    try:
        return tokenizer_from_gguf(file)
    except TokenizerBad:
        return None


def write_exactly(
    path: PathLike, source: TensorSource, progress: Progress | None = None
) -> tuple[ConvertedTensor, ...]:
    """Writes every tensor of `source` to a safetensors file, each in the smallest of F32, F64 and I64 that holds it.

    Errors: OutputUnwritable (E1108), and those of reading.
    """
    tensors = tuple(_converted(source, name) for name in source.names())
    write_safetensors(path, _to_write(source, tensors, progress))
    if progress is not None:
        progress(len(tensors), len(tensors), "")
    return tensors


def _converted(source: TensorSource, name: str) -> ConvertedTensor:
    """The tensor's entry; a float64 tensor is read through once to see whether float32 holds it."""
    info = source.info(name)
    values = source.read(name)
    if values.dtype == np.int64:
        dtype = "I64"
    elif values.dtype == np.float32 or is_float32(values):
        dtype = "F32"
    else:
        dtype = "F64"
    return ConvertedTensor(name, info.dtype, dtype, info.shape)


def _to_write(
    source: TensorSource, tensors: tuple[ConvertedTensor, ...], progress: Progress | None
) -> Iterator[tuple[str, str, tuple[int, ...], Chunks]]:
    for index, tensor in enumerate(tensors):
        yield tensor.name, tensor.dtype, tensor.shape, partial(_chunks, source, tensor, index, len(tensors), progress)


def _chunks(
    source: TensorSource, tensor: ConvertedTensor, index: int, count: int, progress: Progress | None
) -> Iterator[Chunk]:
    """The tensor's values, in one piece, in the type that was found to hold them."""
    if progress is not None:
        progress(index, count, tensor.name)
    values: Array = source.read(tensor.name)
    with np.errstate(invalid="ignore"):  # a NaN stays one
        yield values.astype(np.float32, copy=False) if tensor.dtype == "F32" else values


@contextmanager
def _new_folder(shown: str) -> Iterator[str]:
    """A folder beside `shown` that takes its place at the end, or is removed after an error. Errors: E1108."""
    try:
        target = os.path.realpath(shown)
        if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
            raise OutputUnwritable("exists and is not an empty folder", shown)
        temporary = f"{target}.{os.getpid()}.part"
        os.mkdir(temporary)
    except (OSError, ValueError) as error:
        raise OutputUnwritable(f"cannot be made: {reason(error)}", shown) from error
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputUnwritable(f"cannot be made: {reason(error)}", shown) from error
        if isinstance(error, OutputUnwritable):
            raise OutputUnwritable(error.message, shown) from error  # not the temporary folder's name
        raise
