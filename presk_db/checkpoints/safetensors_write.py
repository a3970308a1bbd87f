"""write_safetensors: a .safetensors file, streamed, whose bytes depend on nothing but the tensors."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from presk_db.checkpoints.mapped import PathLike, reason
from presk_db.checkpoints.safetensors import HEADER_LIMIT, STORAGE
from presk_db.checkpoints.source import Array, TensorInfo
from presk_db.errors import OutputUnwritable, TensorShapeBad, TensorTypeBad
from presk_db.tensor_header import tensor_header

Chunk = Array | bytes
Chunks = Iterable[Chunk] | Callable[[], Iterable[Chunk]]

# The one NaN of each floating type (bits.md, rule 8), as an unsigned integer of the type's width.
CANONICAL_NAN = {"F64": 0x7FF8000000000000, "F32": 0x7FC00000, "F16": 0x7E00, "BF16": 0x7FC0}
# The bits of infinity: magnitudes above it are NaNs.
_INFINITY = {"F64": 0x7FF0000000000000, "F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}

_TYPE_OF_ARRAY = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL", "int8": "I8", "int16": "I16",
    "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip


@dataclass(frozen=True)
class TensorToWrite:
    """A tensor's header entry, and its elements in order: pieces of any length, or a function that returns them.

    A piece is an array whose dtype has the storage type's width and kind (BF16 as uint16), or bytes, little-endian.
    """

    info: TensorInfo
    chunks: Chunks


def write_safetensors(
    path: PathLike,
    tensors: Mapping[str, Array] | Iterable[tuple[str, str, tuple[int, ...], Chunks]],
    *,
    canonical_nans: bool = False,
) -> None:
    """Writes the tensors to `path`, replacing a file there only once all is written.

    `tensors` is a dict of arrays, or tuples (name, type, shape, chunks); chunks are taken tensor by tensor in the
    order of the file, so that nothing but one chunk need be in memory. The header is compact JSON, sorted by name
    (as UTF-8 bytes), padded with spaces to a multiple of 8; tensors lie in that order; there is no metadata.

    Errors: OutputUnwritable (E1108), TensorTypeBad (E1107) and TensorShapeBad (E1106) for a type that presk does
    not write, or chunks that are not the tensor's. After any error the temporary file beside `path` is removed.
    """
    shown = os.fspath(path)
    plan = _sorted_plan(tensors, shown)
    header = _header(plan, shown)
    with replaced_file(shown) as file:
        file.write(header)
        for tensor in plan:
            place = f"{shown} tensor {tensor.info.name}"
            written = 0
            for stored in _stored_chunks(tensor, place):
                written += stored.size
                if written > tensor.info.elements:
                    break
                file.write((_with_canonical_nans(stored, tensor.info.dtype) if canonical_nans else stored).data)
            if written != tensor.info.elements:
                raise TensorShapeBad(f"{written} elements came for shape {list(tensor.info.shape)}", place)


@contextmanager
def replaced_file(shown: str) -> Iterator[BinaryIO]:
    """A new file beside `shown`, open for writing, which takes its place at the end, or is removed after an error.

    A symbolic link is followed. Errors: OutputUnwritable (E1108).
    """
    try:
        target = os.path.realpath(shown)
        if os.path.lexists(target) and not os.path.isfile(target):
            raise OutputUnwritable("exists and is not a regular file", shown)
        temporary, file = _new_file(target)
    except (OSError, ValueError) as error:
        raise OutputUnwritable(f"cannot be written: {reason(error)}", shown) from error
    try:
        with file:
            yield file
        os.replace(temporary, target)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError):
            raise OutputUnwritable(f"cannot be written: {reason(error)}", shown) from error
        raise


def _new_file(target: str) -> tuple[str, BinaryIO]:
    """A file that did not exist, beside `target`; with the permissions that the umask gives, unlike tempfile's."""
    for attempt in range(100):
        temporary = f"{target}.{os.getpid()}-{attempt}.part"
        try:
            return temporary, open(temporary, "xb")
        except FileExistsError:
            continue
    raise OSError("a hundred .part files of this process lie beside it")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # the first error is the one to tell


def _sorted_plan(
    tensors: Mapping[str, Array] | Iterable[tuple[str, str, tuple[int, ...], Chunks]], shown: str
) -> list[TensorToWrite]:
    """What to write, in the order of the names; each checked for a known type and a name of its own."""
    plan: list[TensorToWrite] = []
    if isinstance(tensors, Mapping):
        for name, array in tensors.items():
            if array.dtype.name not in _TYPE_OF_ARRAY:
                raise TensorTypeBad(f"an array of {array.dtype} cannot be written", f"{shown} tensor {name}")
            plan.append(TensorToWrite(TensorInfo(name, _TYPE_OF_ARRAY[array.dtype.name], array.shape), (array,)))
    else:
        plan.extend(TensorToWrite(TensorInfo(name, dtype, shape), chunks) for name, dtype, shape, chunks in tensors)
    plan.sort(key=lambda tensor: tensor.info.name)
    previous: str | None = None
    for tensor in plan:
        if tensor.info.dtype not in STORAGE:
            raise TensorTypeBad(f"type {tensor.info.dtype} is not written", f"{shown} tensor {tensor.info.name}")
        if tensor.info.name in (previous, "__metadata__"):
            raise OutputUnwritable("the name is given twice or reserved", f"{shown} tensor {tensor.info.name}")
        previous = tensor.info.name
    return plan


def _header(plan: list[TensorToWrite], shown: str) -> bytes:
    """The header's length and the header, of the tensors in the order of the plan."""
    try:
        header = tensor_header([(t.info.name, t.info.dtype, t.info.shape) for t in plan])
    except UnicodeEncodeError as error:
        raise OutputUnwritable("a tensor's name is not Unicode", shown) from error
    if len(header) > HEADER_LIMIT:
        raise OutputUnwritable(f"the header would have {len(header) - 8} bytes, more than readers take", shown)
    return header


def _stored_chunks(tensor: TensorToWrite, place: str) -> Iterator[Array]:
    """The chunks as one-dimensional, contiguous, little-endian arrays of the storage type."""
    storage = np.dtype(STORAGE[tensor.info.dtype])
    for chunk in tensor.chunks() if callable(tensor.chunks) else tensor.chunks:
        if isinstance(chunk, bytes):
            if len(chunk) % storage.itemsize:
                raise TensorShapeBad("a piece of its bytes ends inside an element", place)
            yield np.frombuffer(chunk, dtype=storage)
        else:
            kind = "u" if chunk.dtype.kind == "b" else chunk.dtype.kind
            if (kind, chunk.dtype.itemsize) != (storage.kind, storage.itemsize):
                raise TensorTypeBad(f"{chunk.dtype} elements came for type {tensor.info.dtype}", place)
            yield np.ascontiguousarray(chunk).reshape(-1).astype(storage, copy=False)


def _with_canonical_nans(stored: Array, dtype: str) -> Array:
    """The same elements, every NaN in its canonical form."""
    if dtype not in CANONICAL_NAN:
        return stored
    bits = stored.view(f"<u{stored.dtype.itemsize}")
    unsigned = bits.dtype.type
    magnitude_mask = unsigned((1 << (8 * stored.dtype.itemsize - 1)) - 1)
    is_nan = (bits & magnitude_mask) > unsigned(_INFINITY[dtype])
    return np.where(is_nan, unsigned(CANONICAL_NAN[dtype]), bits) if bool(is_nan.any()) else stored
