"""The GGUF reader: block formats against exact fractions and the reference package, and malformed files."""

import struct
import time
from fractions import Fraction
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_bytes import Raw, gguf_bytes, string, value
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db.checkpoints.ggml_types import GGML_TYPES, GgmlType, dequantized
from presk_db.checkpoints.gguf import GgufFile
from presk_db.errors import GgufMalformed, PreskError, TensorMissing, TensorTypeBad

BLOCK_TYPES = [kind for kind in GGML_TYPES.values() if kind.values]
# Where the binary16 scales lie in a block.
SCALES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip


def random_blocks(kind: GgmlType, count: int) -> np.ndarray:
    """Random bytes, with finite scales of every magnitude; the last blocks have the extreme ones."""
    random = np.random.default_rng(kind.bytes * 1000 + kind.elements)
    blocks = random.integers(0, 256, (count, kind.bytes), dtype=np.uint8)
    for at in SCALES[kind.name]:
        bits = random.integers(0, 65536, count, dtype=np.uint16)
        bits = np.where(bits & 0x7C00 == 0x7C00, bits & 0x83FF, bits).astype("<u2")  # no infinity, no NaN
        bits[-4:] = [0x7BFF, 0xFBFF, 0x0001, 0x8001]
        blocks[:, at : at + 2] = bits.view(np.uint8).reshape(count, 2)
    if len(SCALES[kind.name]) == 2:  # the widest spread between the two terms
        blocks[-1, list(range(SCALES[kind.name][0], SCALES[kind.name][0] + 2))] = [0xFF, 0x7B]
    blocks[-4:-2, [i for i in range(kind.bytes) if not any(s <= i < s + 2 for s in SCALES[kind.name])]] = 255
    return blocks


def half(block: bytes, at: int) -> Fraction:
    return Fraction(float(np.frombuffer(block[at : at + 2], "<f2")[0]))


def six_bit(packed: bytes, index: int) -> tuple[int, int]:
    """Scale and minimum of Q4_K and Q5_K, in the terms of ggml's get_scale_min_k4."""
    if index < 4:
        return packed[index] & 63, packed[index + 4] & 63
    return (
        (packed[index + 4] & 15) | ((packed[index - 4] >> 6) << 4),
        (packed[index + 4] >> 4) | ((packed[index] >> 6) << 4),
    )


def exact(name: str, block: bytes) -> list[Fraction]:
    """The block's reals by a scalar walk in exact arithmetic: an independent reading of the formats."""
    signed = [b - 256 if b > 127 else b for b in block]
    match name:
        case "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1":
            has_minimum, has_fifth = name.endswith("1"), name.startswith("Q5")
            at = 4 if has_minimum else 2
            fifth = int.from_bytes(block[at : at + 4], "little") if has_fifth else 0
            at += 4 if has_fifth else 0
            result = []
            for i in range(32):
                q = (block[at + i % 16] >> (4 if i >= 16 else 0)) & 15 | ((fifth >> i & 1) << 4)
                shift = 0 if has_minimum else (16 if has_fifth else 8)
                result.append(half(block, 0) * (q - shift) + (half(block, 2) if has_minimum else 0))
            return result
        case "Q8_0":
            return [half(block, 0) * q for q in signed[2:]]
        case "Q2_K":
            return [
                half(block, 80)
                * (block[i // 16] & 15)
                * (block[16 + i // 128 * 32 + i % 32] >> (i % 128 // 32 * 2) & 3)
                - half(block, 82) * (block[i // 16] >> 4)
                for i in range(256)
            ]
        case "Q3_K":
            result = []
            for i in range(256):
                j = i // 16
                scale = (block[96 + j % 8] >> (4 * (j // 8)) & 15) | ((block[104 + j % 4] >> (2 * (j // 4)) & 3) << 4)
                q = block[32 + i // 128 * 32 + i % 32] >> (i % 128 // 32 * 2) & 3
                q -= 0 if block[i % 32] >> (i // 32) & 1 else 4
                result.append(half(block, 108) * (scale - 32) * q)
            return result
        case "Q4_K" | "Q5_K":
            result = []
            for i in range(256):
                scale, minimum = six_bit(block[4:16], i // 32)
                start = 48 if name == "Q5_K" else 16
                q = block[start + i // 64 * 32 + i % 32] >> (4 * (i % 64 // 32)) & 15
                q |= (block[16 + i % 32] >> (i // 32) & 1) << 4 if name == "Q5_K" else 0
                result.append(half(block, 0) * scale * q - half(block, 2) * minimum)
            return result
        case "Q6_K":
            result = []
            for i in range(256):
                part, row = divmod(i, 128)
                low = block[part * 64 + row % 64] >> (4 * (row // 64)) & 15
                top = block[128 + part * 32 + row % 32] >> (2 * (row // 32)) & 3
                result.append(half(block, 208) * signed[192 + i // 16] * ((low | top << 4) - 32))
            return result
    raise AssertionError(name)


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_blocks_are_exact(kind: GgmlType) -> None:
    blocks = random_blocks(kind, 60)
    got = dequantized(blocks, kind)
    expected = [x for block in blocks for x in exact(kind.name, block.tobytes())]
    assert got.dtype == np.dtype(kind.real)
    assert [Fraction(float(x)) for x in got] == expected


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_blocks_agree_with_the_reference_to_float32(kind: GgmlType) -> None:
    blocks = random_blocks(kind, 600)
    got = dequantized(blocks, kind).reshape(600, -1)
    reference = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind.name])
    if kind.real == "f4":
        assert np.array_equal(got, reference)
    scale = np.abs(got).max(axis=1, keepdims=True)  # its float32 cancels: the error is relative to the block
    assert np.all(np.abs(got - reference) <= scale * 2.0**-21)


def test_infinite_scales_do_not_warn() -> None:
    block = np.zeros((1, 20), dtype=np.uint8)
    block[0, :4] = [0x00, 0x7C, 0x00, 0xFC]
    assert np.isnan(dequantized(block, GGML_TYPES[3])).all()


def test_sizes_of_types() -> None:
    for number, kind in GGML_TYPES.items():
        assert gguf.GGMLQuantizationType(number).name == kind.name
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (kind.elements, kind.bytes)


def test_reads_what_the_reference_writes(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_uint32("k.u32", 7)
    writer.add_int64("k.i64", -7)
    writer.add_float64("k.f64", 0.1)
    writer.add_float32("k.f32", 0.1)
    writer.add_bool("k.bool", True)
    writer.add_string("k.string", "é")
    writer.add_array("k.strings", ["a", ""])
    writer.add_array("k.numbers", [1, 2, 3])
    arrays = {
        "f32": random.standard_normal((2, 3, 4)).astype(np.float32),
        "f16": random.standard_normal((4, 5)).astype(np.float16),
        "f64": random.standard_normal(3),
        "i8": np.array([-128, 127], np.int8),
        "i64": np.array([-(2**63)], np.int64),
    }
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    matrix = random.standard_normal((6, 64)).astype(np.float32)
    packed = gguf.quantize(matrix, gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("q", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    bf16 = gguf.quantize(matrix, gguf.GGMLQuantizationType.BF16)
    writer.add_tensor("bf16", bf16, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "m.gguf")
    metadata = file.metadata
    assert [metadata[f"k.{k}"] for k in ("u32", "i64", "f64", "bool", "string")] == [7, -7, 0.1, True, "é"]
    assert metadata["k.f32"] == float(np.float32(0.1)) and metadata["k.strings"] == ["a", ""]
    assert np.array_equal(metadata["k.numbers"], [1, 2, 3])
    assert file.names() == sorted([*arrays, "q", "bf16"])
    for name, array in arrays.items():
        assert file.info(name).shape == array.shape and np.array_equal(file.read(name), array)
    assert file.info("q").shape == (6, 64) and file.info("q").dtype == "Q4_0"
    assert np.array_equal(file.read("q"), gguf.dequantize(packed, gguf.GGMLQuantizationType.Q4_0))
    assert np.array_equal(file.read("bf16"), gguf.dequantize(bf16, gguf.GGMLQuantizationType.BF16))
    assert len(file.digest()) == 64 and "GGUF version 3, 7 tensors" in file.describe()


def malformed(tmp_path: Path, content: bytes) -> GgufMalformed:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(GgufMalformed) as caught:
        GgufFile(path)
    assert time.monotonic() - start < 2
    assert str(caught.value).startswith(f"E1103 {path} ")
    return caught.value


T = Raw("a", (4,), 0, bytes(16))
BIG_ENDIAN = b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
NESTED = b"".join(struct.pack("<IQ", 9, 1) for _ in range(1000))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "magic"),
        (b"GGML" + bytes(40), "does not begin"),
        (BIG_ENDIAN, "big-endian"),
        (gguf_bytes(version=1), "version 1"),
        (gguf_bytes(version=4), "version 4"),
        (gguf_bytes(tensor_count=2**63), "do not fit"),
        (gguf_bytes(pair_count=2**64 - 1), "do not fit"),
        (gguf_bytes({"a": 1}, pair_count=2) + bytes(64), "empty"),
        (gguf_bytes([("a", 1), ("a", 2)]), "twice"),
        (gguf_bytes({"a": struct.pack("<I", 13) + bytes(8)}), "unknown type 13"),
        (gguf_bytes({"a": struct.pack("<IQ", 8, 2**62)}), "needs"),
        (gguf_bytes({"a": struct.pack("<I", 8) + string(b"\xff\xfe")}), "UTF-8"),
        (gguf_bytes({"a": struct.pack("<IB", 7, 2)}), "neither 0 nor 1"),
        (gguf_bytes({"a": struct.pack("<IIQB", 9, 7, 1, 9)}), "neither 0 nor 1"),
        (gguf_bytes({"a": struct.pack("<IIQ", 9, 4, 2**62)}), "needs"),
        (gguf_bytes({"a": struct.pack("<IIQ", 9, 8, 2**40)}), "needs"),
        (gguf_bytes({"a": struct.pack("<IIQ", 9, 99, 1) + bytes(99)}), "unknown element type 99"),
        (gguf_bytes({"a": struct.pack("<I", 9) + NESTED}), "more than 4 deep"),
        (gguf_bytes({"general.alignment": 0}), "power of two"),
        (gguf_bytes({"general.alignment": 24}), "power of two"),
        (gguf_bytes({"general.alignment": "32"}), "power of two"),
        (gguf_bytes({}, [T, T]), "twice"),
        (gguf_bytes({}, [Raw("", (4,), 0, bytes(16))]), "empty"),
        (gguf_bytes({}, [Raw("a", (), 0, bytes(16))]) + bytes(32), "0 dimensions"),
        (gguf_bytes({}, [Raw("a", (1,) * 5, 0, bytes(16))]), "5 dimensions"),
        (gguf_bytes({}, [Raw("a", (0,), 0, bytes(16))]), "dimension of 0"),
        (gguf_bytes({}, [Raw("a", (2**32, 2**32), 0, bytes(16))]), "too many"),
        (gguf_bytes({}, [Raw("a", (2**40,), 0, bytes(16))]), "cut short"),
        (gguf_bytes({}, [Raw("a", (4,), 4, bytes(16))]), "unknown type 4"),
        (gguf_bytes({}, [Raw("a", (33,), 2, bytes(36))]), "whole Q4_0 blocks"),
        (gguf_bytes({}, [Raw("a", (4,), 0, bytes(16), offset=8)]), "multiple of 32"),
        (gguf_bytes({}, [Raw("a", (4,), 0, bytes(16), offset=2**63)]), "cut short"),
        (gguf_bytes({}, [T, Raw("b", (4,), 0, bytes(16), offset=0)]), "overlaps"),
    ],
)
def test_malformed_files(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in str(malformed(tmp_path, content))


def small_file() -> bytes:
    pairs = {"s": "text", "n": 5, "f": 0.5, "b": True, "l": ["x", "yy"], "i": [1, 2]}
    return gguf_bytes(pairs, [T, Raw("q", (32, 2), 3, bytes(range(40)))])


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    content = small_file()
    for length in range(len(content)):
        malformed(tmp_path, content[:length])


@settings(max_examples=400)
@given(st.data())
def test_fuzzed_bytes_raise_only_presk_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(small_file())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "f.gguf"
    path.write_bytes(bytes(content))
    start = time.monotonic()
    try:
        file = GgufFile(path)
        for name in file.names():
            file.read(name)
    except PreskError as error:
        assert "\n" not in str(error)
    assert time.monotonic() - start < 5


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "f.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + tail)
    try:
        GgufFile(path)
    except GgufMalformed as error:
        assert error.place is not None


def test_version_2_arrays_in_arrays_and_other_alignments(tmp_path: Path) -> None:
    inner = struct.pack("<IQ", 4, 1) + struct.pack("<I", 6)
    nested = struct.pack("<IIQ", 9, 9, 1) + inner
    pairs = {"general.alignment": 64, "n": nested}
    (tmp_path / "f").write_bytes(
        gguf_bytes(pairs, [T, Raw("b", (2,), 28, struct.pack("<dd", 1, 2))], version=2, alignment=64)
    )
    file = GgufFile(tmp_path / "f")
    assert [list(x) for x in file.metadata["n"]] == [[6]] and file.read("b").tolist() == [1, 2]


def test_names_and_types_that_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(gguf_bytes({}, [Raw("a", (32,), 20, bytes(18))]))
    file = GgufFile(tmp_path / "f")
    with pytest.raises(TensorTypeBad, match="IQ4_NL"):
        file.read("a")
    with pytest.raises(TensorMissing):
        file.read("b")
    assert value(1)[:4] == b"\4\0\0\0"
