"""The safetensors writer: its exact bytes, streaming, NaNs, and what is left behind after a failure."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.errors import OutputUnwritable, PreskError, TensorShapeBad, TensorTypeBad


def test_exact_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    write_safetensors(path, {"b": np.array([[1, 2]], np.float32), "a": np.array(7, np.int8)})
    header = (
        b'{"a":{"dtype":"I8","shape":[],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[1,9]}}'
    )
    header += b" " * (-len(header) % 8)
    assert len(header) % 8 == 0
    assert path.read_bytes() == len(header).to_bytes(8, "little") + header + b"\x07" + np.array([1, 2], "<f4").tobytes()
    assert os.listdir(tmp_path) == ["f.safetensors"]


def test_the_reference_reads_it_whatever_the_layout(tmp_path: Path) -> None:
    arrays = {
        "é": np.arange(6, dtype=np.float64).reshape(2, 3).T,
        "Z": np.arange(10, dtype=">i4")[::2],
        "z": np.zeros((2, 0), np.float16),
        "t": np.array([[True], [False]]),
    }
    path = tmp_path / "f.safetensors"
    write_safetensors(path, arrays)
    read = safetensors.numpy.load_file(path)
    assert SafetensorsFile(path).names() == ["Z", "t", "z", "é"]
    for name, array in arrays.items():
        assert np.array_equal(read[name], array) and read[name].shape == array.shape


def test_order_of_the_arguments_does_not_matter(tmp_path: Path) -> None:
    arrays = {name: np.full(3, len(name)) for name in ("ccc", "a", "bb")}
    write_safetensors(tmp_path / "1", arrays)
    write_safetensors(tmp_path / "2", dict(sorted(arrays.items())))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_streams_one_chunk_at_a_time(tmp_path: Path) -> None:
    alive: list[str] = []

    def chunks(name: str) -> Iterator[np.ndarray]:
        alive.append(name)
        for start in range(0, 8, 4):
            yield np.arange(start, start + 4, dtype=np.float32)

    tensors = [(name, "F32", (2, 4), lambda name=name: chunks(name)) for name in ("b", "a")]
    write_safetensors(tmp_path / "f", tensors)
    assert alive == ["a", "b"]
    assert SafetensorsFile(tmp_path / "f").read("b").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("dtype", "storage", "canonical"),
    [("F32", "<u4", 0x7FC00000), ("F64", "<u8", 0x7FF8000000000000), ("BF16", "<u2", 0x7FC0), ("F16", "<u2", 0x7E00)],
)
def test_canonical_nans(tmp_path: Path, dtype: str, storage: str, canonical: int) -> None:
    infinity = {"F32": 0x7F800000, "F64": 0x7FF0000000000000, "BF16": 0x7F80, "F16": 0x7C00}[dtype]
    sign = 1 << (8 * np.dtype(storage).itemsize - 1)
    bits = np.array([infinity + 1, sign + canonical, sign + infinity, infinity, 0, sign, 1], dtype=storage)
    expected = [canonical, canonical, *bits[2:].tolist()]
    write_safetensors(tmp_path / "f", [("w", dtype, (7,), [bits.tobytes()])], canonical_nans=True)
    assert np.frombuffer((tmp_path / "f").read_bytes()[-bits.nbytes :], storage).tolist() == expected
    write_safetensors(tmp_path / "f", [("w", dtype, (7,), [bits.tobytes()])])
    assert (tmp_path / "f").read_bytes()[-bits.nbytes :] == bits.tobytes()


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (("w", "F32", (3,), [np.zeros(2, np.float32)]), TensorShapeBad),
        (("w", "F32", (3,), [np.zeros(4, np.float32)]), TensorShapeBad),
        (("w", "F32", (3,), [b"12345"]), TensorShapeBad),
        (("w", "F32", (3,), [np.zeros(3)]), TensorTypeBad),
        (("w", "BF16", (3,), [np.zeros(3, np.float16)]), TensorTypeBad),
        (("w", "F8_E4M3", (3,), [b"123"]), TensorTypeBad),
        (("__metadata__", "U8", (3,), [b"123"]), OutputUnwritable),
        (("\ud800", "U8", (3,), [b"123"]), OutputUnwritable),
    ],
)
def test_wrong_tensors_leave_nothing_behind(tmp_path: Path, tensor: tuple, error: type[PreskError]) -> None:
    with pytest.raises(error):
        write_safetensors(tmp_path / "f", [tensor])
    assert os.listdir(tmp_path) == []


def test_names_given_twice(tmp_path: Path) -> None:
    with pytest.raises(OutputUnwritable, match="twice"):
        write_safetensors(tmp_path / "f", [("w", "U8", (1,), [b"1"])] * 2)


def test_a_failing_source_keeps_the_old_file(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"12"
        raise RuntimeError("source")

    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(RuntimeError):
        write_safetensors(tmp_path / "f", [("w", "U8", (4,), failing)])
    assert (tmp_path / "f").read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_a_write_that_fails_midway(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OutputUnwritable, match="file too large"):
            write_safetensors(tmp_path / "f", {"a": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "f", "/dev/null", "a\0b"):
        with pytest.raises(OutputUnwritable, match="E1108"):
            write_safetensors(path, {"a": np.zeros(3)})


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_safetensors(tmp_path / "link", {"a": np.zeros(3)})
    assert (tmp_path / "link").is_symlink() and SafetensorsFile(tmp_path / "target").names() == ["a"]
