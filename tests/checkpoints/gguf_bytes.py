"""GGUF files as bytes, built field by field so that any field can be wrong."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 16,
    "llama.embedding_length": 8,
    "llama.feed_forward_length": 12,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.dimension_count": 4,
    "llama.vocab_size": 10,
}
LLAMA_SHAPES = {
    "token_embd.weight": (10, 8),
    "blk.0.attn_norm.weight": (8,),
    "blk.0.attn_q.weight": (8, 8),
    "blk.0.attn_k.weight": (4, 8),
    "blk.0.attn_v.weight": (4, 8),
    "blk.0.attn_output.weight": (8, 8),
    "blk.0.ffn_norm.weight": (8,),
    "blk.0.ffn_gate.weight": (12, 8),
    "blk.0.ffn_up.weight": (12, 8),
    "blk.0.ffn_down.weight": (8, 12),
    "output_norm.weight": (8,),
}
GPT2 = {
    "general.architecture": "gpt2",
    "gpt2.block_count": 1,
    "gpt2.context_length": 16,
    "gpt2.embedding_length": 8,
    "gpt2.feed_forward_length": 32,
    "gpt2.attention.head_count": 2,
    "gpt2.attention.layer_norm_epsilon": 1e-5,
}


@dataclass(frozen=True)
class Raw:
    """A tensor to place in a file: dimensions in the file's order, the type's number, the bytes, perhaps an offset."""

    name: str
    dimensions: tuple[int, ...]
    kind: int
    data: bytes
    offset: int | None = None


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(v: object) -> bytes:
    """A metadata value with its type: u32 for int, f32 for float, string, bool, array of strings or i32."""
    match v:
        case bool():
            return struct.pack("<IB", 7, v)
        case int():
            return struct.pack("<II", 4, v)
        case float():
            return struct.pack("<If", 6, v)
        case str():
            return struct.pack("<I", 8) + string(v)
        case bytes():
            return v
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(string(s) for s in v)
        case list():
            return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)
    raise TypeError(type(v))


def gguf_bytes(
    pairs: Mapping[str, object] | Sequence[tuple[str, object]] = (),
    tensors: Sequence[Raw] = (),
    *,
    version: int = 3,
    tensor_count: int | None = None,
    pair_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    items = list(pairs.items()) if isinstance(pairs, Mapping) else list(pairs)
    head = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(items) if pair_count is None else pair_count,
    )
    head += b"".join(string(key) + value(v) for key, v in items)
    data = b""
    for tensor in tensors:
        data += b"\0" * (-len(data) % alignment)
        offset = len(data) if tensor.offset is None else tensor.offset
        head += string(tensor.name) + struct.pack("<I", len(tensor.dimensions))
        head += struct.pack(f"<{len(tensor.dimensions)}Q", *tensor.dimensions) + struct.pack("<IQ", tensor.kind, offset)
        data += tensor.data
    return head + b"\0" * (-len(head) % alignment) + data


def raw_f32(name: str, array: np.ndarray) -> Raw:
    return Raw(name, tuple(reversed(array.shape)), 0, array.astype("<f4").tobytes())


def llama_arrays(seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape).astype("<f4") for name, shape in LLAMA_SHAPES.items()}
