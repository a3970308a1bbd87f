"""The safetensors reader against its reference package, and against every way that a header can be wrong."""

import json
import os
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db.checkpoints.safetensors import SafetensorsFile, ShardedSafetensors
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.errors import CheckpointUnreadable, PreskError, SafetensorsMalformed, TensorMissing, TensorTypeBad

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file_bytes(header: object, data: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def malformed(tmp_path: Path, content: bytes) -> SafetensorsMalformed:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(SafetensorsMalformed) as caught:
        SafetensorsFile(path)
    assert caught.value.place is not None and caught.value.place.startswith(str(path))
    assert "\n" not in str(caught.value)
    return caught.value


def test_reads_what_the_reference_writes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "f32": random.standard_normal((3, 4)).astype(np.float32),
        "f64": random.standard_normal(5),
        "f16": random.standard_normal((2, 2)).astype(np.float16),
        "scalar": np.array(2.5, dtype=np.float32),
        "empty": np.zeros((0, 7), dtype=np.float32),
        "i8": np.array([-128, 127], dtype=np.int8),
        "u8": np.array([0, 255], dtype=np.uint8),
        "i16": np.array([-3, 3], dtype=np.int16),
        "u16": np.array([0, 65535], dtype=np.uint16),
        "u32": np.array([2**32 - 1], dtype=np.uint32),
        "i64": np.array([-(2**63), 2**63 - 1]),
        "u64": np.array([2**63 - 1], dtype=np.uint64),
        "bool": np.array([True, False]),
    }
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
    source = SafetensorsFile(path)
    assert source.names() == sorted(arrays)
    for name, array in arrays.items():
        got = source.read(name)
        assert source.info(name).shape == array.shape == got.shape
        expected = {"f": np.dtype(np.float32 if array.dtype.itemsize < 8 else np.float64)}.get(
            array.dtype.kind, np.dtype(np.int64)
        )
        assert got.dtype == expected
        assert np.array_equal(got, array)


def test_bf16_every_bit_pattern(tmp_path: Path) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    path = tmp_path / "a.safetensors"
    write_safetensors(path, [("w", "BF16", (256, 256), [bits])])
    got = SafetensorsFile(path).read("w").reshape(-1)
    assert np.array_equal(got, bits.view(ml_dtypes.bfloat16).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"a": {**ENTRY, "dtype": "F33"}}, b"\0" * 8, "unknown type"),
        ({"a": {**ENTRY, "dtype": 3}}, b"\0" * 8, "unknown type"),
        ({"a": {**ENTRY, "shape": [True, 2]}}, b"\0" * 8, "integers"),
        ({"a": {**ENTRY, "shape": [2.0]}}, b"\0" * 8, "integers"),
        ({"a": {**ENTRY, "shape": [-2]}}, b"\0" * 8, "integers"),
        ({"a": {**ENTRY, "shape": 2}}, b"\0" * 8, "integers"),
        ({"a": {**ENTRY, "shape": [1] * 33}}, b"\0" * 8, "at most 32"),
        ({"a": {**ENTRY, "shape": [2**40, 2**40]}}, b"\0" * 8, "too many"),
        ({"a": {**ENTRY, "shape": [0, 2**62], "data_offsets": [0, 0]}}, b"", "too many"),
        ({"a": {**ENTRY, "data_offsets": [0, 4]}}, b"\0" * 4, "are not the 8 bytes"),
        ({"a": {**ENTRY, "data_offsets": [8, 0]}}, b"\0" * 8, "are not the 8 bytes"),
        ({"a": {**ENTRY, "data_offsets": [0]}}, b"\0" * 8, "two integers"),
        ({"a": {**ENTRY, "data_offsets": [0, 2**70]}}, b"\0" * 8, "two integers"),
        ({"a": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12, "gap"),
        ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12, "overlaps"),
        ({"a": ENTRY}, b"\0" * 7, "1 bytes are missing"),
        ({"a": ENTRY}, b"\0" * 9, "1 bytes follow"),
        ({"a": {**ENTRY, "extra": 1}}, b"\0" * 8, "exactly"),
        ({"a": [1]}, b"\0" * 8, "exactly"),
        ({"a": ENTRY, "__metadata__": {"k": 1}}, b"\0" * 8, "__metadata__"),
        ({"a": ENTRY, "__metadata__": []}, b"\0" * 8, "__metadata__"),
        (b'{"a":1,"a":2}', b"", "twice"),
        (b"[]", b"", "begin with {"),
        (b" {}", b"", "begin with {"),
        (b'{"a":NaN}', b"", "NaN"),
        (b'{"a":1e999}', b"", "largest"),
        (b'{"a":' + b"9" * 5000 + b"}", b"", "too long"),
        (b'{"a":' + b"[" * 200_000, b"", "deeply"),
        (b'{"\xff":1}', b"", "UTF-8"),
        (b'{"\\ud800":1}', b"", "surrogate"),
        (b'{"a":}', b"", "JSON"),
        (b"{", b"", "JSON"),
    ],
)
def test_malformed_headers(tmp_path: Path, header: object, data: bytes, words: str) -> None:
    assert words in str(malformed(tmp_path, file_bytes(header, data)))


def test_json_error_names_the_byte(tmp_path: Path) -> None:
    assert malformed(tmp_path, file_bytes(b'{"a":}')).place == f"{tmp_path / 'model.safetensors'} byte 13"


def test_header_length_bounds(tmp_path: Path) -> None:
    assert "needs 8" in str(malformed(tmp_path, b""))
    assert "leaves the file" in str(malformed(tmp_path, (100).to_bytes(8, "little") + b"{}"))
    assert "above 100000000" in str(malformed(tmp_path, (2**64 - 1).to_bytes(8, "little") + b"{}"))


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "whole", {"a": np.arange(3.0), "b": np.ones((2, 2), np.float32)})
    content = (tmp_path / "whole").read_bytes()
    for length in range(len(content)):
        malformed(tmp_path, content[:length])


@settings(max_examples=300)
@given(st.data())
def test_fuzzed_bytes_raise_only_presk_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    good = file_bytes({"a": ENTRY, "b": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]}}, b"\0" * 12)
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'\x00\xff0129{}[],:"-eFB1 '))
    path = tmp_path_factory.mktemp("fuzz") / "f.safetensors"
    path.write_bytes(bytes(content))
    start = time.monotonic()
    try:
        source = SafetensorsFile(path)
        for name in source.names():
            source.read(name)
    except PreskError as error:
        assert "\n" not in str(error)
    assert time.monotonic() - start < 5


def test_accepts_no_less_than_it_writes_and_no_more_than_the_reference(tmp_path: Path) -> None:
    """Whatever presk accepts of single-byte changes, the reference accepts too."""
    good = file_bytes({"a": ENTRY})
    path = tmp_path / "f"
    for at in range(len(good)):
        for byte in b"09{},\xff":
            path.write_bytes(good[:at] + bytes([byte]) + good[at + 1 :])
            try:
                SafetensorsFile(path)
            except PreskError:
                continue
            with safetensors.safe_open(path, framework="np") as reference:
                assert len(reference.keys()) == 1


def test_names_and_types_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(file_bytes({"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}))
    source = SafetensorsFile(path)
    with pytest.raises(TensorTypeBad, match="F8_E4M3"):
        source.read("a")
    with pytest.raises(TensorMissing, match="no tensor b"):
        source.read("b")
    path.write_bytes(file_bytes({"a": {"dtype": "U64", "shape": [1], "data_offsets": [0, 8]}}, b"\xff" * 8))
    with pytest.raises(TensorTypeBad, match="U64"):
        SafetensorsFile(path).read("a")


def test_unaligned_data_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    text = json.dumps({"a": ENTRY}).encode()
    text += b" " * ((3 - len(text)) % 8)
    path.write_bytes(file_bytes(text, np.array([1.5, -2], "<f4").tobytes()))
    got = SafetensorsFile(path).read("a")
    assert got.flags.aligned and got.tolist() == [1.5, -2]


def test_unreadable_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", "a\0b"):
        with pytest.raises(CheckpointUnreadable, match="E1101"):
            SafetensorsFile(path)


def test_paths_stay_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointUnreadable) as caught:
        SafetensorsFile("./none.safetensors")
    assert str(caught.value) == "E1101 ./none.safetensors: cannot be opened: no such file or directory"


def sharded(tmp_path: Path) -> Path:
    write_safetensors(tmp_path / "m-1.safetensors", {"a": np.arange(2.0), "c": np.arange(3)})
    write_safetensors(tmp_path / "m-2.safetensors", {"b": np.ones(4, np.float32)})
    index = tmp_path / "model.safetensors.index.json"
    places = {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 56}, "weight_map": places}))
    return index


def test_shards(tmp_path: Path) -> None:
    source = ShardedSafetensors(sharded(tmp_path))
    assert source.names() == ["a", "b", "c"]
    assert source.read("c").tolist() == [0, 1, 2] and source.info("b").shape == (4,)
    assert source.digest() == ShardedSafetensors(tmp_path / "model.safetensors.index.json").digest()
    assert "3 tensors in 2 files" in source.describe()
    with pytest.raises(TensorMissing):
        source.read("d")


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"a": "m-1.safetensors", "b": "m-2.safetensors"}, "holds c"),
        ({"a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-1.safetensors"}, "does not hold it"),
        ({"a": "../m-1.safetensors"}, "beside the index"),
        ({"a": "m-1.bin"}, "beside the index"),
        ({"a": 1}, "beside the index"),
        ({}, "weight_map"),
        (None, "weight_map"),
    ],
)
def test_inconsistent_indexes(tmp_path: Path, weight_map: object, words: str) -> None:
    index = sharded(tmp_path)
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(SafetensorsMalformed, match=words):
        ShardedSafetensors(index)


def test_missing_shard(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    (tmp_path / "m-2.safetensors").unlink()
    with pytest.raises(CheckpointUnreadable, match=r"m-2\.safetensors"):
        ShardedSafetensors(index)
