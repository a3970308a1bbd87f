"""The header of a GGUF file: metadata and tensor places, every length checked against the file before it is used.

Little-endian, versions 2 and 3: "GGUF"; u32 version; u64 tensors, u64 pairs; the pairs (string key, u32 type, value);
the tensors (string name, u32 rank, u64 dimensions, u32 type, u64 offset); padding to the alignment; the data.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from dataclasses import dataclass

import numpy as np

from presk_db.checkpoints.ggml_types import GGML_TYPES, GgmlType
from presk_db.checkpoints.mapped import MappedFile
from presk_db.checkpoints.source import Array, TensorInfo
from presk_db.errors import GgufMalformed

MetadataValue = int | float | bool | str | Array | list["MetadataValue"]

NESTING_LIMIT = 4  # arrays in arrays
SIZE_LIMIT = 2**63 - 1
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "<u1", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_LEAST_PAIR = 8 + 1 + 4 + 1  # bytes: a key of one letter and a value of one byte
_LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8  # bytes: a name of one letter and one dimension


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: its info, its storage type, and its bytes as [begin, end) of the file."""

    info: TensorInfo
    kind: GgmlType
    begin: int
    end: int


@dataclass(frozen=True)
class GgufHeader:
    """What the header says: the version, the metadata in the file's order, the tensors by name."""

    version: int
    metadata: dict[str, MetadataValue]
    tensors: dict[str, GgufTensor]


class _Cursor:
    """A place in the file that moves forward and never beyond the end."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.at = 0

    def fail(self, message: str, at: int | None = None) -> GgufMalformed:
        return GgufMalformed(message, f"{self.file.shown} byte {self.at if at is None else at}")

    def need(self, count: int, what: str) -> None:
        """Errors if fewer than `count` bytes are left."""
        if count > self.file.size - self.at:
            raise self.fail(f"{what} needs {count} bytes; {self.file.size - self.at} are left")

    def bytes(self, count: int, what: str) -> bytes:
        self.need(count, what)
        start = self.at
        self.at += count
        return self.file.data[start : self.at].tobytes()

    def unsigned(self, width: int, what: str) -> int:
        return int.from_bytes(self.bytes(width, what), "little")

    def numbers(self, dtype: str, count: int, what: str) -> Array:
        kind = np.dtype(dtype)
        self.need(count * kind.itemsize, what)
        start = self.at
        self.at += count * kind.itemsize
        return self.file.values(start, count, kind)

    def string(self, what: str) -> str:
        start = self.at
        data = self.bytes(self.unsigned(8, f"the length of {what}"), what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8", start + 8 + error.start) from error


def gguf_header(file: MappedFile) -> GgufHeader:
    """The file's header, in full. Errors: GgufMalformed (E1103), with the byte or the tensor."""
    cursor = _Cursor(file)
    if cursor.bytes(4, "the magic") != b"GGUF":
        raise cursor.fail("the file does not begin with GGUF", 0)
    version = cursor.unsigned(4, "the version")
    if version & 0xFFFF == 0 and version:
        raise cursor.fail("the file is big-endian; presk reads little-endian GGUF", 4)
    if version not in (2, 3):
        raise cursor.fail(f"GGUF version {version}; presk reads 2 and 3", 4)
    tensor_count = cursor.unsigned(8, "the number of tensors")
    pair_count = cursor.unsigned(8, "the number of metadata pairs")
    left = file.size - cursor.at
    if tensor_count * _LEAST_TENSOR + pair_count * _LEAST_PAIR > left:
        raise cursor.fail(f"{tensor_count} tensors and {pair_count} metadata pairs do not fit {left} bytes", 8)
    metadata: dict[str, MetadataValue] = {}
    for _ in range(pair_count):
        start = cursor.at
        key = cursor.string("a metadata key")
        if not key or key in metadata:
            raise cursor.fail(f"the metadata key {key} is there twice" if key else "a metadata key is empty", start)
        metadata[key] = _value(cursor, cursor.unsigned(4, f"the type of {key}"), key, 0)
    alignment = _alignment(metadata, file.shown)
    tensors: dict[str, GgufTensor] = {}
    for _ in range(tensor_count):
        start = cursor.at
        tensor = _tensor(cursor, alignment)
        if tensor.info.name in tensors:
            raise cursor.fail(f"the tensor {tensor.info.name} is there twice", start)
        tensors[tensor.info.name] = tensor
    data_start = cursor.at + -cursor.at % alignment
    return GgufHeader(version, metadata, _placed(tensors, data_start, file))


def _value(cursor: _Cursor, kind: int, key: str, depth: int) -> MetadataValue:
    """One metadata value; arrays of numbers as NumPy arrays, arrays of strings or arrays as lists."""
    if kind == _STRING:
        return cursor.string(f"the value of {key}")
    if kind == _ARRAY:
        return _array(cursor, key, depth)
    if kind not in _NUMBERS:
        raise cursor.fail(f"the value of {key} has the unknown type {kind}", cursor.at - 4)
    number = cursor.numbers(_NUMBERS[kind], 1, f"the value of {key}")
    value: int | float | bool = (_truths(cursor, number, key) if kind == _BOOL else number).item()
    return value


def _array(cursor: _Cursor, key: str, depth: int) -> MetadataValue:
    start = cursor.at
    kind = cursor.unsigned(4, f"the element type of {key}")
    count = cursor.unsigned(8, f"the length of {key}")
    if depth >= NESTING_LIMIT:
        raise cursor.fail(f"{key} nests arrays more than {NESTING_LIMIT} deep", start)
    if kind in _NUMBERS:
        numbers = cursor.numbers(_NUMBERS[kind], count, f"the array {key}")
        return _truths(cursor, numbers, key) if kind == _BOOL else numbers
    if kind not in (_STRING, _ARRAY):
        raise cursor.fail(f"the array {key} has the unknown element type {kind}", start)
    cursor.need(count * (8 if kind == _STRING else 12), f"the array {key}")
    return [_value(cursor, kind, key, depth + 1) for _ in range(count)]


def _truths(cursor: _Cursor, numbers: Array, key: str) -> Array:
    if numbers.size and int(numbers.max()) > 1:
        raise cursor.fail(f"a truth value of {key} is neither 0 nor 1", cursor.at - numbers.size)
    return numbers.view(np.bool_)


def _alignment(metadata: dict[str, MetadataValue], shown: str) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 2**32 or alignment & (alignment - 1):
        raise GgufMalformed("is not a power of two", f"{shown} key general.alignment")
    return alignment


def _tensor(cursor: _Cursor, alignment: int) -> GgufTensor:
    """One tensor's entry, checked by itself; begin and end count from the start of the data until `_placed`."""
    start = cursor.at
    name = cursor.string("a tensor's name")
    if not name:
        raise cursor.fail("a tensor's name is empty", start)
    place = f"{cursor.file.shown} tensor {name}"
    rank = cursor.unsigned(4, f"the rank of {name}")
    if not 1 <= rank <= 4:
        raise GgufMalformed(f"has {rank} dimensions; 1 to 4 are possible", place)
    dimensions = [int(n) for n in cursor.numbers("<u8", rank, f"the dimensions of {name}")]
    number = cursor.unsigned(4, f"the type of {name}")
    offset = cursor.unsigned(8, f"the offset of {name}")
    if number not in GGML_TYPES:
        raise GgufMalformed(f"has the unknown type {number}", place)
    kind = GGML_TYPES[number]
    elements = 1
    for extent in dimensions:
        elements *= extent
        if extent == 0 or elements > SIZE_LIMIT // 8:
            raise GgufMalformed("has a dimension of 0, or too many elements", place)
    if dimensions[0] % kind.elements:
        raise GgufMalformed(f"its rows of {dimensions[0]} are not whole {kind.name} blocks of {kind.elements}", place)
    if offset % alignment:
        raise GgufMalformed(f"its offset {offset} is not a multiple of {alignment}", place)
    # The file names the contiguous dimension first; NumPy's row-major shapes name it last.
    info = TensorInfo(name, kind.name, tuple(reversed(dimensions)))
    return GgufTensor(info, kind, offset, offset + elements // kind.elements * kind.bytes)


def _placed(tensors: dict[str, GgufTensor], data_start: int, file: MappedFile) -> dict[str, GgufTensor]:
    """The tensors with file offsets, checked to lie inside the file and not to overlap."""
    at = 0
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.info.name)):
        place = f"{file.shown} tensor {tensor.info.name}"
        if tensor.begin < at:
            raise GgufMalformed("overlaps the tensor before it", place)
        if tensor.end > file.size - data_start:
            last = data_start + tensor.end
            raise GgufMalformed(f"ends at byte {last}; the file has {file.size}, so it is cut short", place)
        at = tensor.end
    return {
        name: GgufTensor(tensor.info, tensor.kind, data_start + tensor.begin, data_start + tensor.end)
        for name, tensor in tensors.items()
    }
