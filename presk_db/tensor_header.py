"""tensor_header: the first bytes of a safetensors file, which depend on nothing but the tensors' names, types and shapes.

They are those that `presk_writer.c` writes: the header's length in 8 bytes, then compact JSON, padded with spaces to 8.
"""

import json
from collections.abc import Sequence
from math import prod

SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""The bytes of an element, by the type's name in a header."""

TensorHead = tuple[str, str, tuple[int, ...]]
"""A tensor's name, type and shape."""


def tensor_header(tensors: Sequence[TensorHead]) -> bytes:
    """The length and the header of a file with these tensors, which stand in the order of their names.

    Raises UnicodeEncodeError for a name that is not Unicode.
    """
    entries: dict[str, object] = {}
    at = 0
    for name, dtype, shape in tensors:
        end = at + SIZES[dtype] * prod(int(n) for n in shape)
        entries[name] = {"dtype": dtype, "shape": [int(n) for n in shape], "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
