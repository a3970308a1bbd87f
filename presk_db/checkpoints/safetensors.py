"""SafetensorsFile and ShardedSafetensors: TensorSources over .safetensors files, every byte of the header checked.

The format: 8 bytes, the header's length n, little-endian; n bytes of JSON, an object from names to
`{"dtype", "shape", "data_offsets"}` and perhaps `__metadata__`; then the tensors' bytes, back to back, little-endian,
row-major. https://huggingface.co/docs/safetensors
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from presk_db.checkpoints.json_text import json_object
from presk_db.checkpoints.mapped import MappedFile, PathLike, digest_of_files
from presk_db.checkpoints.source import Array, TensorInfo
from presk_db.errors import SafetensorsMalformed, TensorMissing, TensorTypeBad

HEADER_LIMIT = 100_000_000  # bytes; the limit of the reference implementation
RANK_LIMIT = 32  # NumPy 2 takes 64 axes
SIZE_LIMIT = 2**63 - 1

# Bits of one element, of every type that the format names.
ELEMENT_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip

# How the types that presk reads lie in the file; BF16 as the upper half of a float32's bits.
STORAGE = {
    "BOOL": "<u1", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


@dataclass(frozen=True)
class _Entry:
    """One tensor of the header; `begin` and `end` are bytes from the start of the file."""

    info: TensorInfo
    begin: int
    end: int


class SafetensorsFile:
    """A TensorSource over one .safetensors file."""

    def __init__(self, path: PathLike) -> None:
        """Maps the file and checks its header.

        Errors: CheckpointUnreadable (E1101), SafetensorsMalformed (E1102).
        """
        self.file = MappedFile(path)
        self._entries = {entry.info.name: entry for entry in _entries(self.file)}
        self._digest: str | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def info(self, name: str) -> TensorInfo:
        """The tensor's type and shape. Errors: TensorMissing (E1104)."""
        return self._entry(name).info

    def read(self, name: str) -> Array:
        """The tensor's exact values. Errors: TensorMissing (E1104), TensorTypeBad (E1107)."""
        entry = self._entry(name)
        info = entry.info
        place = f"{self.file.shown} tensor {name}"
        if info.dtype not in STORAGE:
            raise TensorTypeBad(f"has type {info.dtype}; presk reads {', '.join(STORAGE)}", place)
        stored = self.file.values(entry.begin, info.elements, np.dtype(STORAGE[info.dtype]))
        return exact_values(stored.reshape(info.shape), info.dtype, place)

    def digest(self) -> str:
        """The SHA-256 of the file."""
        if self._digest is None:
            self._digest = self.file.digest()
        return self._digest

    def describe(self) -> str:
        """The path, the format and the number of tensors."""
        return f"{self.file.shown} (safetensors, {len(self._entries)} tensors)"

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise TensorMissing(f"there is no tensor {name}", self.file.shown)
        return self._entries[name]


class ShardedSafetensors:
    """A TensorSource over the shards that a `model.safetensors.index.json` names."""

    def __init__(self, index_path: PathLike) -> None:
        """Reads the index and every shard's header; both must name the same tensors in the same places.

        Errors: CheckpointUnreadable (E1101), SafetensorsMalformed (E1102).
        """
        self.index = MappedFile(index_path)
        shown = self.index.shown
        if self.index.size > HEADER_LIMIT:
            raise SafetensorsMalformed(f"has {self.index.size} bytes; at most {HEADER_LIMIT} are read", shown)
        weight_map = _weight_map(json_object(self.index.content(), shown, SafetensorsMalformed), shown)
        folder = os.path.dirname(shown)
        self.shards = {file: SafetensorsFile(os.path.join(folder, file)) for file in sorted(set(weight_map.values()))}
        for name, file in sorted(weight_map.items()):
            if name not in self.shards[file]:
                raise SafetensorsMalformed(f"weight_map has {name} in {file}, which does not hold it", shown)
        for file, shard in self.shards.items():
            for name in shard.names():
                if weight_map.get(name) != file:
                    raise SafetensorsMalformed(
                        f"holds {name}, which weight_map of {shown} does not place here", shard.file.shown
                    )
        self._weight_map = weight_map
        self._digest: str | None = None

    def names(self) -> list[str]:
        """All names of all shards, sorted."""
        return sorted(self._weight_map)

    def info(self, name: str) -> TensorInfo:
        """The tensor's type and shape. Errors: TensorMissing (E1104)."""
        return self._shard(name).info(name)

    def read(self, name: str) -> Array:
        """The tensor's exact values. Errors: TensorMissing (E1104), TensorTypeBad (E1107)."""
        return self._shard(name).read(name)

    def digest(self) -> str:
        """The SHA-256 over the shards' digests and names; the index, which only repeats them, is left out."""
        if self._digest is None:
            self._digest = digest_of_files([(file, shard.file) for file, shard in self.shards.items()])
        return self._digest

    def describe(self) -> str:
        """The index's path, the format, the numbers of tensors and shards."""
        return f"{self.index.shown} (safetensors, {len(self._weight_map)} tensors in {len(self.shards)} files)"

    def _shard(self, name: str) -> SafetensorsFile:
        if name not in self._weight_map:
            raise TensorMissing(f"there is no tensor {name}", self.index.shown)
        return self.shards[self._weight_map[name]]


def exact_values(stored: Array, dtype: str, place: str) -> Array:
    """The reals or integers that stored elements stand for: float32, float64 or int64, in the same shape.

    Errors: TensorTypeBad (E1107) for a U64 beyond the largest int64.
    """
    match dtype:
        case "F32":
            return stored.astype(np.float32, copy=False)
        case "F64":
            return stored.astype(np.float64, copy=False)
        case "F16":
            return stored.astype(np.float32)
        case "BF16":
            widened: Array = np.left_shift(stored, np.uint32(16), dtype=np.uint32).view(np.float32)
            return widened
        case "U64":
            if stored.size and int(stored.max()) > SIZE_LIMIT:
                raise TensorTypeBad("holds a U64 above 2^63 - 1", place)
            return stored.astype(np.int64)
        case "BOOL":
            truths: Array = stored != 0
            return truths.astype(np.int64)
        case _:
            return stored.astype(np.int64, copy=False)


def _weight_map(index: dict[str, Any], shown: str) -> dict[str, str]:
    """The index's map from tensor names to plain file names beside it."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise SafetensorsMalformed("has no weight_map, an object from tensor names to files", shown)
    for name, file in weight_map.items():
        if not isinstance(file, str) or not file.endswith(".safetensors") or file != os.path.basename(file):
            raise SafetensorsMalformed(f"weight_map puts {name} not in a .safetensors file beside the index", shown)
    return weight_map


def _entries(file: MappedFile) -> list[_Entry]:
    """The header's tensors in the order of their bytes, checked to fill the rest of the file exactly."""
    shown = file.shown
    if file.size < 8:
        raise SafetensorsMalformed(f"the file has {file.size} bytes; a header needs 8", f"{shown} byte {file.size}")
    length = int(file.data[:8].view("<u8")[0])
    if length > HEADER_LIMIT:
        raise SafetensorsMalformed(f"the header's length {length} is above {HEADER_LIMIT}", f"{shown} byte 0")
    if length > file.size - 8:
        raise SafetensorsMalformed(
            f"the header's length {length} leaves the file, which has {file.size} bytes", f"{shown} byte 0"
        )
    text = file.data[8 : 8 + length].tobytes()
    if text[:1] != b"{":
        raise SafetensorsMalformed("the header does not begin with {", f"{shown} byte 8")
    header = json_object(text, shown, SafetensorsMalformed, start=8)
    _check_metadata(header.pop("__metadata__", {}), shown)
    entries = [_entry(name, value, shown, 8 + length) for name, value in header.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end, entry.info.name))
    at = 8 + length
    for entry in entries:
        if entry.begin != at:
            fault = "overlaps the tensor before it" if entry.begin < at else "leaves a gap before it"
            raise SafetensorsMalformed(f"begins at byte {entry.begin}, which {fault}", _tensor(shown, entry.info.name))
        at = entry.end
    if at != file.size:
        fault = "are missing" if at > file.size else "follow the last tensor"
        raise SafetensorsMalformed(f"{abs(at - file.size)} bytes {fault}", f"{shown} byte {min(at, file.size)}")
    return entries


def _check_metadata(metadata: object, shown: str) -> None:
    """`__metadata__` maps strings to strings."""
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise SafetensorsMalformed("__metadata__ is not an object of strings", f"{shown} byte 8")


def _entry(name: str, value: object, shown: str, data_start: int) -> _Entry:
    """One tensor's entry, checked by itself: keys, type, shape, offsets, and bytes = elements * size."""
    place = _tensor(shown, name)
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorsMalformed("needs exactly dtype, shape and data_offsets", place)
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ELEMENT_BITS:
        raise SafetensorsMalformed(f"has the unknown type {str(dtype)[:40]}", place)
    if not isinstance(shape, list) or len(shape) > RANK_LIMIT or not all(_is_size(extent) for extent in shape):
        raise SafetensorsMalformed(f"its shape is not a list of at most {RANK_LIMIT} integers >= 0", place)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(offset) for offset in offsets):
        raise SafetensorsMalformed("its data_offsets are not two integers >= 0", place)
    bits = ELEMENT_BITS[dtype]
    extent_product = 1  # of the extents that are not 0: NumPy refuses a shape whose other axes overflow
    for extent in shape:
        extent_product *= max(extent, 1)
        if extent_product * 8 > SIZE_LIMIT:  # 8 bytes: the widest type that it is read as
            raise SafetensorsMalformed("its shape has too many elements", place)
    begin, end = offsets
    size_bits = 0 if 0 in shape else extent_product * bits
    if end < begin or (end - begin) * 8 != size_bits:
        raise SafetensorsMalformed(
            f"data_offsets [{begin}, {end}] are not the {(size_bits + 7) // 8} bytes of {dtype} {shape}", place
        )
    return _Entry(TensorInfo(name, dtype, tuple(shape)), data_start + begin, data_start + end)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= SIZE_LIMIT  # a bool is an int to isinstance


def _tensor(shown: str, name: str) -> str:
    return f"{shown} tensor {name}"
