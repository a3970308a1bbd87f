"""The generator scop: nests that compile without a warning, run to the native kernels' bits, and show a planted fault."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pipeline import training_step
from sqlalchemy import Engine

from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.kernels.ir import Array
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import STORAGE, bf16_from_f32, canonical
from presk_db.store.emission import emission_reader
from presk_db.store.read import read_kernels
from presk_db.store.recordings import find_recording

Compiler = Callable[[str], str]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return training_step(tmp_path_factory.mktemp("scop"))


@pytest.fixture(scope="module")
def nests(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nests") / "nests"
    with emission_reader(engine, 1) as reader:
        emit_to(reader, find_recording(engine, "latest"), generator("scop"), folder, {})
    return folder


def make(folder: Path, compiler: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-s", "-C", str(folder), f"CC={compiler}", "CFLAGS=-O1 -Werror", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_driver_finds_every_nest_equal_to_its_native_kernel(
    engine: Engine, nests: Path, cached_compiler: Compiler
) -> None:
    said = make(nests, cached_compiler("gcc"), "check")
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    kernels = read_kernels(engine, 1)
    assert len(lines) == len(kernels) > 60
    assert all(re.fullmatch(r"k_\w+ [0-9a-f]{16} \d+ bytes equal, nest [\d.]+ s, native [\d.]+ s", x) for x in lines)
    for number, kernel in enumerate(kernels):  # what the driver draws, through NumPy, has the hash that it prints
        arrays = [drawn(p, place) for place, p in enumerate(kernel.parameters) if isinstance(p, Array)]
        run_kernel(kernel, arrays, {})
        outputs = zip(kernel.arrays, arrays, strict=True)
        written = b"".join(canonical(a, p.type).tobytes() for p, a in outputs if p.mode == "out")
        assert lines[number].split()[1] == f"{fnv(written):016x}", kernel.text


def mixed(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def fnv(data: bytes) -> int:
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def drawn(p: Array, place: int, seed: int = 1) -> np.ndarray:  # type: ignore[type-arg]  # of any type
    """The array that the driver draws for the parameter at this place."""
    count = int(np.prod(p.shape, dtype=np.int64))
    if p.mode == "out":
        return np.zeros(count, STORAGE[p.type])
    start = mixed(seed) ^ mixed(place << 40)
    words = [mixed((start + i) % 2**64) for i in range(count)]
    if p.type == "i64":
        return np.array([w % p.limit if p.limit else w % 16 - 8 for w in words], np.int64)
    if p.type == "bool":
        return np.array([w >> 63 for w in words], np.uint8)
    reals = np.array([(w >> 11) * 2.0**-52 - 1.0 for w in words])
    return bf16_from_f32(reals.astype(np.float32)) if p.type == "bf16" else reals.astype(STORAGE[p.type])


def test_clang_compiles_the_nests_without_a_warning(nests: Path, tmp_path: Path) -> None:
    command = ["clang-19", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-c", "-o", str(tmp_path / "o")]
    for name in ("nests.c", "scop.c", "natives.c"):
        subprocess.run([*command, name], cwd=nests, check=True)


def test_what_stands_between_the_pragmas(nests: Path) -> None:
    text = (nests / "nests.c").read_text()
    functions = re.findall(r"^void k_\w+\([^{]*\)\n\{\n(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL)
    assert len(functions) == text.count("#pragma scop\n") == text.count("#pragma endscop\n") > 60
    for body in functions:
        scop = body.split("#pragma scop\n")[1].split("#pragma endscop\n")[0]
        assert re.fullmatch(r"( *(?!if|while|do|goto|return)[^&]*\n)*", scop)
        assert "*)" not in scop  # no cast of a pointer
        assert not re.search(r"\bpresk_|->|\bomp\b", scop)
    declared = set(re.findall(r"\b(scop_\w+)\(.*SCOP_CONST;", (nests / "scop.h").read_text()))
    assert set(re.findall(r"\b(scop_\w+)\(", text)) <= declared


def test_one_nest_another_seed_and_a_name_that_is_not_there(nests: Path, cached_compiler: Compiler) -> None:
    assert make(nests, cached_compiler("gcc")).returncode == 0
    name = re.search(r"void (k_\w+)\(", (nests / "nests.h").read_text())[1]  # type: ignore[index]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(nests / "main"), *arguments], capture_output=True, text=True, check=False)

    first, other = run(name), run("-s", "2", "-r", "3", name)
    assert first.returncode == other.returncode == 0
    assert len(first.stdout.splitlines()) == 1
    assert first.stdout.split()[1] != other.stdout.split()[1]
    assert run("moon").stderr == "main: there is no nest moon\n"
    seeds = "is no whole number from 0 to 18446744073709551615\n"
    assert run("-s", "x").stderr == f"main: x {seeds}"
    assert run("-s", "18446744073709551616").stderr == f"main: 18446744073709551616 {seeds}"
    assert run("-r", "0").stderr.startswith("main: 0 is no whole number from 1 to ")
    for arguments in (("moon",), ("-s", "x"), ("-r", "0")):
        assert run(*arguments).returncode == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v0_lanes[v0_lane + 16]", "v0_lanes[v0_lane + 15]"),
        ("scop_select_f32(", "scop_select_f32(1 + "),
        ("* a1[i2][i1]", "* a1[i2][0]"),
        ("scop_larger_i32(v0_key", "scop_larger_i32(-v0_key"),
    ],
)
def test_a_planted_fault_shows(nests: Path, tmp_path: Path, cached_compiler: Compiler, old: str, new: str) -> None:
    text = (nests / "nests.c").read_text()
    assert old in text
    (nests / "faulty.c").write_text(text.replace(old, new))
    said = make(nests, cached_compiler("gcc"), "NESTS=faulty.c", "check")
    (nests / "faulty.c").unlink()
    assert said.returncode != 0
    assert "DIFFER" in said.stdout, said.stderr
