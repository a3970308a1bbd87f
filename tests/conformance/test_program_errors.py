"""The emitted program's own errors: one line with a code, status 1, nothing half-written. And two programs in one."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline import GPT2, MLP, config_file, stored
from sqlalchemy import Engine

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.program import Build, built
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.recordings import StoredRecording

Tensors = dict[str, np.ndarray[Any, Any]]


def emit(engine: Engine, recording: StoredRecording, folder: Path) -> Path:
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), folder, {})
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, cached_compiler: Callable[[str], str]) -> Path:
    """The folder of a small GPT-2's program, built."""
    folder = tmp_path_factory.mktemp("program")
    engine = open_database(str(folder / "presk.db"), create=True)
    recording = stored(engine, config_file(folder, GPT2), dims={"T": 3})
    emit(engine, recording, folder / "out")
    built(folder / "out", Build(cached_compiler("gcc"), "-O1"))
    return folder / "out"


class Files:
    """Weights and inputs of the program as tensors that a test may spoil."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.weights = self._read(program / "weights.safetensors")
        self.inputs = self._read(program / "conformance" / "inputs.safetensors")

    @staticmethod
    def _read(path: Path) -> Tensors:
        source = SafetensorsFile(str(path))
        return {name: source.read(name).copy() for name in source.names()}

    def write(self) -> None:
        write_safetensors(self.folder / "w", self.weights)
        write_safetensors(self.folder / "i", self.inputs)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = arguments or ("-w", "w", "-i", "i", "-o", "o")
        return subprocess.run(
            [self.program / "main", *given], cwd=self.folder, capture_output=True, text=True, check=False
        )

    def fails(self, code: str, *arguments: str) -> str:
        """The line of an error with this code."""
        done = self.run(*arguments)
        assert done.returncode == 1, done
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"{self.program / 'main'}: error {code}: "), line
        assert not [p.name for p in self.folder.iterdir() if p.name.startswith("o")]
        return line


@pytest.fixture
def files(program: Path, tmp_path: Path) -> Files:
    found = Files(program, tmp_path)
    found.write()
    return found


def test_it_runs(files: Files) -> None:
    assert files.run().returncode == 0
    assert (files.folder / "o").read_bytes() == (files.program / "conformance" / "outputs.safetensors").read_bytes()
    said = files.run("-h")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-2:] == ["  input  tokens (1, 3)", "  output logits (1, 3, 11)"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-w", "w"),
        ("-w", "w", "-i", "i"),
        ("-w", "w", "-o", "o"),
        ("-i", "i", "-o", "o"),
        ("-x",),
        ("-w",),
        ("w", "i", "o"),
        ("-w", "w", "-i", "i", "-o", "o", "-o", "o2"),
        ("-w", "w", "-i", "i", "-o", "o", "more"),
    ],
)
def test_usage(files: Files, arguments: tuple[str, ...]) -> None:
    assert "give -w weights.safetensors -i inputs.safetensors -o outputs" in files.fails("E1000", *arguments)
    assert files.run("-q").returncode == 1


Change = Callable[[Files], object]
BAD: list[tuple[str, str, Change]] = [
    ("E1104", "lm_head.weight", lambda f: f.weights.pop("lm_head.weight")),
    ("E1105", "extra", lambda f: f.weights.update(extra=np.zeros(1))),
    ("E1106", "lm_head.weight", lambda f: f.weights.update({"lm_head.weight": np.zeros((8, 11))})),
    ("E1107", "lm_head.weight", lambda f: f.weights.update({"lm_head.weight": np.zeros((11, 8), np.int32)})),
    ("E1105", "lm_head.bias", lambda f: f.weights.update({"lm_head.bias": np.zeros(11)})),
    ("E1205", "tokens", lambda f: f.inputs.pop("tokens")),
    ("E1205", "extra", lambda f: f.inputs.update(extra=np.zeros(1))),
    ("E1205", "tokens", lambda f: f.inputs.update(tokens=np.zeros((1, 4), np.int64))),
    ("E1205", "tokens", lambda f: f.inputs.update(tokens=np.zeros((1, 3), np.float32))),
    ("E1204", "tokens", lambda f: f.inputs.update(tokens=np.array([[0, 11, 0]]))),
    ("E1204", "tokens", lambda f: f.inputs.update(tokens=np.array([[0, 0, -1]]))),
    ("E1204", "tokens", lambda f: f.inputs.update(tokens=np.array([[2**62, 0, 0]]))),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_tensors_that_do_not_fit(files: Files, case: int) -> None:
    code, said, change = BAD[case]
    change(files)
    files.write()
    assert said in files.fails(code)


def test_what_is_ignored_in_python_is_ignored_in_c(files: Files) -> None:
    files.weights["transformer.h.0.attn.bias"] = np.ones((1, 1, 6, 6), np.bool_)
    files.weights["transformer.h.1.attn.masked_bias"] = np.float32(-1e4).reshape(())
    files.write()
    assert files.run().returncode == 0


def header(text: object, data: bytes = b"") -> bytes:
    body = text if isinstance(text, bytes) else json.dumps(text).encode()
    return len(body).to_bytes(8, "little") + body + data


def entry(dtype: str = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


MALFORMED = [
    b"",
    b"\0" * 7,
    (2**63).to_bytes(8, "little") + b"{}",
    (100).to_bytes(8, "little") + b"{}",
    header(b"[]"),
    header(b'{"a":'),
    header(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b"1234",
    ),
    header({"a": entry()}, b"123"),
    header({"a": entry()}, b"12345"),
    header({"a": entry(shape=[2])}, b"1234"),
    header({"a": entry(shape=[-1])}, b"1234"),
    header({"a": entry(shape=[2**62, 2**62])}, b"1234"),
    header({"a": entry(offsets=[4, 0])}, b"1234"),
    header({"a": entry(offsets=[0, 2**63])}, b"1234"),
    header({"a": entry(), "b": entry(offsets=[2, 6])}, b"123456"),
    header({"a": entry(), "b": entry(offsets=[8, 12])}, b"123456789012"),
]


@pytest.mark.parametrize("case", range(len(MALFORMED)))
def test_malformed_files(files: Files, case: int) -> None:
    for name in ("w", "i"):
        files.write()
        (files.folder / name).write_bytes(MALFORMED[case])
        assert f" {name}" in files.fails("E1102")


def test_files_that_are_not_there(files: Files) -> None:
    files.fails("E1101", "-w", "nowhere", "-i", "i", "-o", "o")
    files.fails("E1101", "-w", "w", "-i", ".", "-o", "o")
    files.fails("E1108", "-w", "w", "-i", "i", "-o", "no/such/folder/o")
    files.fails("E1108", "-w", "w", "-i", "i", "-o", ".")
    assert "o" not in {p.name for p in files.folder.iterdir()}


def test_a_disk_that_fills_up(files: Files) -> None:
    line = f"ulimit -f 0; '{files.program}/main' -w w -i i -o o"
    done = subprocess.run(["sh", "-c", line], cwd=files.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error E1108: o: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(p.name for p in files.folder.iterdir()) == ["i", "w"]


def test_check_sh(files: Files, cached_compiler: Callable[[str], str]) -> None:
    """The archive's own check, which needs no presk."""
    command = ["make", "-s", "-C", str(files.program), "check", f"CC={cached_compiler('gcc')}", "CFLAGS=-O1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["with OpenMP", "without OpenMP"]


TWO = """
#include "{first}/model.h"
#include <stdio.h>
#include "{second}/model.h"
int main(void)
{{
    presk_error e = {{0}};
    one_weights a = {{0}};
    two_weights b = {{0}};
    bool good = one_weights_load(&a, "{first}/weights.safetensors", &e)
        && two_weights_load(&b, "{second}/weights.safetensors", &e);
    printf("%d %s\\n", good, e.text);
    one_weights_free(&a);
    two_weights_free(&b);
    return good ? 0 : 1;
}}
"""


def test_two_programs_in_one_executable(tmp_path: Path, empty: Engine) -> None:
    """Every symbol has its program's prefix."""
    objects: list[str] = []
    for name, dims in (("one", {"B": 1}), ("two", {"B": 2})):
        folder = emit(empty, stored(empty, str(MLP), name=name, dims=dims), tmp_path / name)
        sources = [p.name for p in folder.glob("*.c") if p.name != "main.c"]
        flags = ["-std=c11", "-O0", f"-DPRESK_PREFIX={name}_"]
        subprocess.run(["gcc", *flags, "-c", *sources], cwd=folder, check=True)
        objects += [str(folder / f"{Path(s).stem}.o") for s in sources]
        symbols = subprocess.run(["nm", "-g", "--defined-only", *objects], capture_output=True, text=True, check=True)
        defined = [line.split()[2] for line in symbols.stdout.splitlines() if len(line.split()) == 3]
        assert {s.split("_")[0] for s in defined} <= {"one", "two"}
    (tmp_path / "both.c").write_text(TWO.format(first=tmp_path / "one", second=tmp_path / "two"))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(tmp_path / "one")]
    subprocess.run(["gcc", *flags, str(tmp_path / "both.c"), *objects, "-o", str(tmp_path / "both"), "-lm"], check=True)
    done = subprocess.run([tmp_path / "both"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 \n")
