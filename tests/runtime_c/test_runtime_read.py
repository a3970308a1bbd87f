"""The safetensors reader: what it accepts it reads as the safetensors package does; all else is one line, no crash."""

import os
import random
import re
import resource
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
from c_runtime import Build, Runtime
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors_files import ACCEPTED, MALFORMED, SMALL, file_bytes, info

READABLE = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"]
NUMPY = dict(zip(READABLE, ["f8", "f4", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1", "?"], strict=True))
LINE = re.compile(r"dump: error E\d{4}: .+\n")


# A size that cannot be had is NULL, as without the sanitizer.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=4096"}


SANITIZER_NOTE = re.compile(r"==\d+==WARNING: AddressSanitizer failed to allocate 0x[0-9a-f]+ bytes\n")


def run(dump: Path, *paths: Path | str) -> subprocess.CompletedProcess[str]:
    """The finished program, without the sanitizer's note on a refused allocation."""
    command = [dump, *paths]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, encoding="utf-8", errors="replace", env=ENVIRONMENT
    )
    done.stderr = SANITIZER_NOTE.sub("", done.stderr)
    return done


@pytest.mark.parametrize("name", list(MALFORMED))
def test_a_malformed_file_is_one_line(dump: Path, tmp_path: Path, name: str) -> None:
    data, code, word = MALFORMED[name]
    path = tmp_path / name
    path.write_bytes(data)
    done = run(dump, path)
    assert done.returncode == 1
    assert LINE.fullmatch(done.stderr), done.stderr
    assert code in done.stderr
    assert word in done.stderr
    assert str(path) in done.stderr


def test_what_cannot_be_opened_is_one_line(dump: Path, tmp_path: Path) -> None:
    for path in [tmp_path, tmp_path / "missing", Path("/dev/null"), tmp_path / ("n" * 300), tmp_path / "a\nb"]:
        done = run(dump, path)
        assert done.returncode == 1
        assert LINE.fullmatch(done.stderr), done.stderr
        assert "E1101" in done.stderr or "E1102" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_one_line(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "forbidden"
    path.write_bytes(SMALL)
    path.chmod(0)
    assert "E1101" in run(dump, path).stderr


def test_a_pipe_is_read(dump: Path) -> None:
    done = subprocess.run([dump, "/dev/stdin"], input=SMALL, capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"a F32 [2,3]")


def fnv(values: np.ndarray[Any, Any]) -> int:
    digest = 0xCBF29CE484222325
    for u in values.astype(np.float64).ravel().view(np.uint64):
        canonical = 0x7FF8000000000000 if int(u) & (2**63 - 1) > 0x7FF0000000000000 else int(u)
        digest = (digest ^ canonical) * 0x100000001B3 % 2**64
    return digest


def expected_dump(data: bytes) -> str | None:
    """What dump prints for a file that the safetensors package accepts, or None if the package refuses it."""
    try:
        tensors = safetensors.deserialize(data)
    except safetensors.SafetensorError:
        return None
    lines = []
    for name, tensor in sorted(tensors, key=lambda pair: pair[0].encode()):
        if tensor["dtype"] not in NUMPY:
            return None
        with np.errstate(all="ignore"):
            digest = fnv(np.frombuffer(bytes(tensor["data"]), np.dtype(NUMPY[tensor["dtype"]])))
        shape = ",".join(str(n) for n in tensor["shape"])
        lines.append(f"{name} {tensor['dtype']} [{shape}] {digest:016x}\n")
    return "".join(lines) + "ok\n"


@pytest.mark.parametrize("name", list(ACCEPTED))
def test_an_odd_but_good_file_reads_as_the_package_reads_it(dump: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(ACCEPTED[name])
    done = run(dump, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected_dump(ACCEPTED[name])


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """Files a change or two away from good ones: mostly within the header, whose length is then made to fit."""
    rng = random.Random(seed)
    good = list(ACCEPTED.values())
    pieces = [b" ", b"\n", b'"', b",", b"0", b"{", b"\\u0041", b"999999999999999999", b"[0,0]", b"\xc3\xa9", b"\xff"]
    for _ in range(count):
        whole = rng.choice(good)
        size = struct.unpack("<Q", whole[:8])[0]
        header, data = bytearray(whole[8 : 8 + size]), whole[8 + size :]
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(header))
            match rng.randrange(4):
                case 0:
                    header[at] ^= 1 << rng.randrange(8)
                case 1:
                    header[at] = rng.choice(b'{}[],:"\\0159 \n\x00\xff\xe2')
                case 2 if len(header) > 8:
                    del header[at : at + rng.randint(1, 4)]
                case _:
                    header[at:at] = rng.choice(pieces)
        wrong = rng.randint(-3, 3) if rng.random() < 0.1 else 0
        data = data[: rng.randint(0, len(data))] if rng.random() < 0.05 else data
        yield file_bytes(bytes(header), data, max(len(header) + wrong, 0))


def check_corpus(dump: Path, folder: Path, corpus: list[bytes]) -> int:
    """Reads a corpus in one sanitized process; every outcome must fit the package's; gives how many were accepted."""
    paths = []
    for i, data in enumerate(corpus):
        paths.append(folder / f"{i}.safetensors")
        paths[-1].write_bytes(data)
    listing = folder / "list"
    listing.write_text("".join(f"{path}\n" for path in paths))
    done = run(dump, f"@{listing}")
    assert done.returncode in (0, 1), done.stderr
    refused = [line + "\n" for line in done.stderr.split("\n")[:-1]]
    assert [line for line in refused if not LINE.fullmatch(line)] == []
    outcomes = done.stdout.split("file ")[1:]
    assert len(outcomes) == len(corpus)
    accepted = 0
    for data, outcome in zip(corpus, outcomes, strict=True):
        text = outcome.split("\n", 1)[1]
        if text.endswith("ok\n"):
            assert text == expected_dump(data), data
            accepted += 1
    assert accepted + len(refused) == len(corpus)
    return accepted


def test_every_truncation_is_refused(dump: Path, tmp_path: Path) -> None:
    assert check_corpus(dump, tmp_path, [SMALL[:n] for n in range(len(SMALL))]) == 0


def test_every_single_bit_flip_agrees_with_the_package(dump: Path, tmp_path: Path) -> None:
    flips = [SMALL[:i] + bytes([SMALL[i] ^ 1 << b]) + SMALL[i + 1 :] for i in range(len(SMALL) - 28) for b in range(8)]
    assert 0 < check_corpus(dump, tmp_path, flips) < len(flips) // 2


def test_random_mutations_agree_with_the_package(dump: Path, tmp_path: Path) -> None:
    assert 50 < check_corpus(dump, tmp_path, list(mutations(1, 3000))) < 2500


class Opened:
    """A file opened through cffi: `tensors` by name, or the error."""

    def __init__(self, runtime: Runtime, path: Path) -> None:
        self.ffi, self.lib = runtime
        self.error = self.ffi.new("presk_error *")
        self.file = self.lib.presk_file_open(str(path).encode(), self.error)

    def message(self) -> str:
        return f"E{self.error.code} " + self.ffi.string(self.error.text).decode(errors="replace")

    def find(self, name: str) -> Any:
        tensor = self.ffi.new("presk_tensor *")
        assert self.lib.presk_file_find(self.file, name.encode(), tensor)
        return tensor

    def read(self, name: str, to: str, first: int, n: int, turned: tuple[int, int] | None = None) -> Any:
        """Elements as an array of type `to`, or the message of the error."""
        dest = np.zeros(n, {"F64": "f8", "F32": "f4", "BF16": "u2", "I64": "i8"}.get(to, "f8"))
        memory = self.ffi.cast("void *", dest.ctypes.data)
        tensor, code = self.find(name), READABLE.index(to)
        if turned is None:
            good = self.lib.presk_read(tensor, first, n, code, memory, self.error)
        else:
            good = self.lib.presk_read_transposed(tensor, first, *turned, code, memory, self.error)
        return dest if good else self.message()


@settings(max_examples=500)
@given(at=st.integers(0, len(SMALL) - 1), value=st.integers(0, 255), cut=st.integers(0, 3))
def test_byte_flips_agree_with_the_package(
    runtime: Runtime, tmp_path_factory: pytest.TempPathFactory, at: int, value: int, cut: int
) -> None:
    data = SMALL[:at] + bytes([value]) + SMALL[at + 1 : len(SMALL) - cut]
    path = tmp_path_factory.getbasetemp() / "flip.safetensors"
    path.write_bytes(data)
    opened = Opened(runtime, path)
    if opened.file == runtime.ffi.NULL:
        assert opened.error.code in (1101, 1102)
        return
    count = runtime.lib.presk_file_count(opened.file)
    found = [runtime.lib.presk_file_at(opened.file, i) for i in range(count)]
    if all(tensor.dtype < len(READABLE) for tensor in found):
        expected = dict(safetensors.deserialize(data))
        assert {runtime.ffi.string(t.name).decode() for t in found} == set(expected)
    runtime.lib.presk_file_close(opened.file)


EXACT = {
    "F64": [0.2691408770272292, -0.0, 1e300, 5e-324, np.nan, 1 + 2**-24 + 2**-50, 2.0**-133 * 1.5, -np.inf],
    "F32": [1.5, -0.0, 3e38, 1e-45, np.nan, 1 + 2**-8, -np.inf],
    "F16": [1.5, -0.0, 65504, 2**-24, np.nan, np.inf],
    "BF16": [1.5, -0.0, 3e38, 2.0**-133, np.nan, np.inf],
    "I64": [2**63 - 1, -(2**63), 2**24 + 1, 2**53 + 1, 2**40 + 2**16, (2**24 + 1) * 2**20 + 1, -7],
    "I32": [2**31 - 1, -(2**31), 2**24 + 1, 0],
    "I16": [32767, -32768, 257],
    "I8": [127, -128, -1],
    "U8": [255, 0, 128],
    "BOOL": [True, False],
}


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a tensor of each readable type."""
    header, data = {}, b""
    for name, values in EXACT.items():
        with np.errstate(all="ignore"):
            raw = np.array(values, NUMPY[name]).tobytes()
        header[name] = info(name, [len(values)], len(data), len(data) + len(raw))
        data += raw
    path = tmp_path_factory.mktemp("types") / "every.safetensors"
    path.write_bytes(file_bytes(header, data))
    return path


def as_reals(name: str, to: str) -> np.ndarray[Any, Any]:
    """What rounding once (bf16: through f32) gives, as bits; integers through f32 by NumPy's own single rounding."""
    with np.errstate(all="ignore"):
        values = np.array(EXACT[name], NUMPY[name])
        if to == "F64":
            return values.astype(np.float64)
        single = values.astype(np.float32)
    if to == "F32":
        return single
    u = single.view(np.uint32).astype(np.uint64)
    rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16
    return np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)


@pytest.mark.parametrize("to", ["F64", "F32", "BF16"])
@pytest.mark.parametrize("name", READABLE)
def test_elements_are_rounded_once(runtime: Runtime, every_type: Path, name: str, to: str) -> None:
    opened = Opened(runtime, every_type)
    n = len(EXACT[name])
    got, expected = opened.read(name, to, 0, n), as_reals(name, to)
    real = slice(None) if to == "BF16" else ~np.isnan(expected)
    assert np.array_equal(got[real].tobytes(), expected[real].tobytes())
    assert to == "BF16" or np.array_equal(np.isnan(got), np.isnan(expected))
    part = opened.read(name, to, 1, n - 1)
    assert part[real[1:] if to != "BF16" else real].tobytes() == got[1:][real[1:] if to != "BF16" else real].tobytes()
    runtime.lib.presk_file_close(opened.file)


@pytest.mark.parametrize("name", READABLE)
def test_integers_are_exact_and_floats_no_integers(runtime: Runtime, every_type: Path, name: str) -> None:
    opened = Opened(runtime, every_type)
    got = opened.read(name, "I64", 0, len(EXACT[name]))
    if name in ("F64", "F32", "F16", "BF16"):
        assert got.startswith("E1107 ")
        assert f"tensor {name} has type {name}" in got
    else:
        assert got.tolist() == [int(x) for x in EXACT[name]]
    runtime.lib.presk_file_close(opened.file)


def test_elements_outside_are_refused(runtime: Runtime, every_type: Path) -> None:
    opened = Opened(runtime, every_type)
    assert opened.read("BOOL", "F32", 0, 3).startswith("E1106")
    assert opened.read("BOOL", "F32", 3, 0).startswith("E1106")
    assert opened.read("BOOL", "F32", 2, 0).size == 0
    assert opened.read("BOOL", "I8", 0, 1).startswith("E1107")
    assert opened.read("BOOL", "F32", 2**64 - 1, 2).startswith("E1106")
    assert opened.read("BOOL", "F32", 0, 0, (2**33, 2**33)).startswith("E1106")
    runtime.lib.presk_file_close(opened.file)


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 200), (200, 1), (63, 65), (64, 64), (130, 257), (0, 5)])
@pytest.mark.parametrize("to", ["F64", "F32", "BF16", "I64"])
@pytest.mark.parametrize("name", ["F32", "BF16", "F64", "I8"])
def test_a_transposed_read_is_a_read_transposed(
    runtime: Runtime, tmp_path: Path, rows: int, cols: int, to: str, name: str
) -> None:
    if to == "I64" and name != "I8":
        return
    values = np.random.default_rng(1).normal(size=3 + rows * cols) * 50
    raw = values.astype(NUMPY[name]).tobytes()
    path = tmp_path / "matrix"
    path.write_bytes(file_bytes({"m": info(name, [3 + rows * cols], 0, len(raw))}, raw))
    opened = Opened(runtime, path)
    plain = opened.read("m", to, 3, rows * cols)
    turned = opened.read("m", to, 3, rows * cols, (rows, cols))
    assert np.array_equal(turned, plain.reshape(rows, cols).T.ravel())
    runtime.lib.presk_file_close(opened.file)


def test_expectations_name_what_is_wrong(runtime: Runtime, tmp_path: Path) -> None:
    ffi, lib = runtime
    path = tmp_path / "w"
    path.write_bytes(SMALL)
    opened = Opened(runtime, path)
    tensor = ffi.new("presk_tensor *")

    def expect(name: str, shape: list[int]) -> str:
        good = lib.presk_file_expect(opened.file, name.encode(), len(shape), shape, tensor, opened.error)
        return "" if good else opened.message()

    assert expect("c", [1]) == f"E1104 {path}: there is no tensor c"
    assert expect("", []) == f"E1104 {path}: there is no tensor "
    assert expect("a", [3, 2]) == f"E1106 {path}: tensor a has shape [2, 3], expected [3, 2]"
    assert expect("a", [6]) == f"E1106 {path}: tensor a has shape [2, 3], expected [6]"
    assert expect("a", []) == f"E1106 {path}: tensor a has shape [2, 3], expected []"
    assert expect("a", [2, 3]) == ""
    assert not lib.presk_file_expect_no_more(opened.file, opened.error)
    assert opened.message() == f"E1105 {path}: tensor b is not expected"
    assert expect("b", [2]) == ""
    assert lib.presk_file_expect_no_more(opened.file, opened.error)
    lib.presk_file_close(opened.file)
    lib.presk_file_close(ffi.NULL)


def test_look_up_finds_each_of_many_names(runtime: Runtime, tmp_path: Path) -> None:
    names = sorted({f"{'ab'[i % 2]}{'.' * (i % 3)}{i % 50}{chr(0xE0 + i % 7)}" for i in range(500)}, reverse=True)
    path = tmp_path / "many"
    path.write_bytes(file_bytes({n: info("U8", [1], i, i + 1) for i, n in enumerate(names)}, bytes(len(names))))
    opened = Opened(runtime, path)
    assert [opened.find(name).shape[0] for name in names] == [1] * len(names)
    listed = [runtime.lib.presk_file_at(opened.file, i) for i in range(len(names))]
    assert [runtime.ffi.string(t.name) for t in listed] == sorted(name.encode() for name in names)
    tensor = runtime.ffi.new("presk_tensor *")
    assert not any(runtime.lib.presk_file_find(opened.file, (n + "x").encode(), tensor) for n in names)
    runtime.lib.presk_file_close(opened.file)


def test_integers_out_of_range_are_named(runtime: Runtime) -> None:
    ffi, lib = runtime
    error = ffi.new("presk_error *")
    assert lib.presk_check_range([0, 64, 3], 3, 0, 64, b"tokens", error)
    assert not lib.presk_check_range([0, 65, -1], 3, 0, 64, b"tokens", error)
    assert error.code == 1204
    assert ffi.string(error.text) == b"tokens: element 1 is 65, outside 0 to 64"


def test_a_large_header_claim_costs_no_memory(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "claim"
    path.write_bytes(file_bytes({"a": info("U8", [2**40], 0, 2**40)}, b"1"))
    program = build("dump.c", "-O2", "-DPRESK_NO_MMAP")
    limit = 256 * 2**20
    done = subprocess.run(
        [program, path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "E1101" in done.stderr
