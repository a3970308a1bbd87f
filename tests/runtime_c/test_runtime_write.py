"""The safetensors writer: canonical bytes, read back by the package, and nothing left where it fails."""

import json
import resource
import struct
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
from c_runtime import SANITIZED, Build, Runtime
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"]
NUMPY = dict(zip(TYPES, ["f8", "f4", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1", "?"], strict=True))

Tensors = dict[str, tuple[str, np.ndarray[Any, Any]]]


def canonical_file(tensors: Tensors) -> bytes:
    """The bytes that the writer must give, from the rule in presk_tensors.h."""
    header, data = {}, b""
    for name in sorted(tensors, key=str.encode):
        dtype, array = tensors[name]
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def save(runtime: Runtime, path: Path | str, tensors: Tensors) -> str:
    """Saves and gives the message of the error, or nothing."""
    ffi, lib = runtime
    error = ffi.new("presk_error *")
    writer = lib.presk_writer_new()
    good = True
    keep = []
    for name, (dtype, array) in tensors.items():
        data = np.ascontiguousarray(array)
        keep.append(data)
        pointer = ffi.cast("void *", data.ctypes.data)
        code = TYPES.index(dtype)
        good = good and lib.presk_writer_add(
            writer, name.encode("utf-8", "surrogateescape"), code, array.ndim, list(array.shape), pointer, error
        )
    good = good and lib.presk_writer_save(writer, str(path).encode(), error)
    lib.presk_writer_free(writer)
    return "" if good else f"E{error.code} " + ffi.string(error.text).decode(errors="replace")


def test_every_type_comes_back_through_the_package(runtime: Runtime, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tensors: Tensors = {}
    for i, dtype in enumerate(TYPES):
        values = rng.normal(size=(3, 5000 + i)) * 40
        tensors[f"layer.{10 - i}.{dtype}"] = (dtype, values.astype(NUMPY[dtype]))
    tensors["scalar"] = ("F32", np.array(-0.0, np.float32))
    tensors["empty"] = ("F64", np.zeros((2, 0)))
    path = tmp_path / "out.safetensors"
    assert save(runtime, path, tensors) == ""
    data = path.read_bytes()
    assert data == canonical_file(tensors)
    assert int.from_bytes(data[:8], "little") % 8 == 0
    back = dict(safetensors.deserialize(data))
    assert set(back) == set(tensors)
    for name, (dtype, array) in tensors.items():
        assert (back[name]["dtype"], back[name]["shape"]) == (dtype, list(array.shape))
        assert bytes(back[name]["data"]) == array.tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


@settings(max_examples=150)
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), unique=True))
def test_any_names_are_sorted_and_escaped(
    runtime: Runtime, tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    tensors: Tensors = {name: ("U8", np.array([i], np.uint8)) for i, name in enumerate(names[:200])}
    path = tmp_path_factory.getbasetemp() / "names.safetensors"
    assert save(runtime, path, tensors) == ""
    assert path.read_bytes() == canonical_file(tensors)


def test_control_characters_are_escaped_as_python_does(runtime: Runtime, tmp_path: Path) -> None:
    tensors: Tensors = {"".join(map(chr, range(1, 256))): ("U8", np.array([1], np.uint8))}
    assert save(runtime, tmp_path / "c", tensors) == ""
    assert (tmp_path / "c").read_bytes() == canonical_file(tensors)
    assert len(safetensors.deserialize((tmp_path / "c").read_bytes())) == 1


def test_nans_are_written_canonically(runtime: Runtime, tmp_path: Path) -> None:
    tensors: Tensors = {
        "a": ("F32", np.array([0x7F800001, 0xFFC00000, 0xFF800000], np.uint32).view(np.float32)),
        "b": ("F64", np.array([0x7FF0000000000001, 2**64 - 1, 2**63], np.uint64).view(np.float64)),
        "c": ("BF16", np.array([0xFFC1, 0x7F81, 0xFF80], np.uint16).view(ml_dtypes.bfloat16)),
        "d": ("F16", np.array([0xFE01, 0x7C01, 0xFC00], np.uint16).view(np.float16)),
        "e": ("I32", np.array([0x7F800001, -1], np.int64).astype(np.int32)),
    }
    assert save(runtime, tmp_path / "n", tensors) == ""
    back = {name: bytes(t["data"]) for name, t in safetensors.deserialize((tmp_path / "n").read_bytes())}
    assert np.frombuffer(back["a"], np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0xFF800000]
    assert np.frombuffer(back["b"], np.uint64).tolist() == [0x7FF8000000000000, 0x7FF8000000000000, 2**63]
    assert np.frombuffer(back["c"], np.uint16).tolist() == [0x7FC0, 0x7FC0, 0xFF80]
    assert np.frombuffer(back["d"], np.uint16).tolist() == [0x7E00, 0x7E00, 0xFC00]
    assert back["e"] == tensors["e"][1].tobytes()


def test_no_tensors_is_a_file(runtime: Runtime, tmp_path: Path) -> None:
    assert save(runtime, tmp_path / "none", {}) == ""
    assert (tmp_path / "none").read_bytes() == canonical_file({})


def test_bad_tensors_are_refused(runtime: Runtime, tmp_path: Path) -> None:
    ffi, lib = runtime
    one = np.array([1], np.uint8)
    assert save(runtime, tmp_path / "x", {"__metadata__": ("U8", one)}).startswith("E1108 __metadata__ cannot be")
    assert save(runtime, tmp_path / "x", {"\udcff": ("U8", one)}).startswith("E1108 ")
    error, writer = ffi.new("presk_error *"), lib.presk_writer_new()
    for shape in ([-1], [2**62], [2**40, 2**40], [1] * 9):
        assert not lib.presk_writer_add(writer, b"a", 1, len(shape), shape, ffi.NULL, error)
        assert error.code == 1108
    assert not lib.presk_writer_add(writer, b"a", 10, 0, [], ffi.NULL, error)
    assert lib.presk_writer_add(writer, b"a", 1, 1, [0], ffi.NULL, error)
    assert lib.presk_writer_add(writer, b"a", 1, 1, [0], ffi.NULL, error)
    assert not lib.presk_writer_save(writer, str(tmp_path / "x").encode(), error)
    assert b"added twice" in ffi.string(error.text)
    lib.presk_writer_free(writer)
    lib.presk_writer_free(ffi.NULL)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole(runtime: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"before")
    tensors: Tensors = {"a": ("F32", np.arange(3, dtype=np.float32))}
    assert save(runtime, path, tensors) == ""
    assert path.read_bytes() == canonical_file(tensors)


@pytest.mark.parametrize("target", ["missing/out", ".", "file/out"])
def test_where_nothing_can_be_written_is_one_line(runtime: Runtime, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    message = save(runtime, tmp_path / target, {"a": ("F32", np.arange(3, dtype=np.float32))})
    assert message.startswith(f"E1108 {tmp_path / target}: ")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_device_is_one_line_and_stays_a_device(build: Build) -> None:
    for count in ("3", "100000"):
        done = subprocess.run(
            [build("save.c", *SANITIZED), "/dev/full", count], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (1, "save: error E1108: /dev/full: No space left on device\n")
    assert Path("/dev/full").is_char_device()
    assert not Path("/dev/full.partial").exists()


@pytest.mark.parametrize("limit", [0, 1, 100, 4096, 390_000])
def test_a_size_limit_is_one_line_and_leaves_what_was(build: Build, tmp_path: Path, limit: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    done = subprocess.run(
        [build("save.c", "-O2"), path, "100000"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (done.returncode, done.stderr) == (1, f"save: error E1108: {path}: File too large\n")
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_sanitized_writer_agrees_with_no_byte_order_assumed(build: Build, tmp_path: Path) -> None:
    expected = canonical_file({"x": ("F32", np.arange(5000, dtype=np.float32))})
    for i, flags in enumerate([["-DPRESK_ANY_BYTE_ORDER"], []]):
        done = subprocess.run([build("save.c", *SANITIZED, *flags), tmp_path / str(i), "5000"], check=False)
        assert done.returncode == 0
        assert (tmp_path / str(i)).read_bytes() == expected
