"""An emitted program and the Python process refuse what would change the bits, in one line and with status 1."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from presk_db.conformance.portability_programs import Program, Recipe, emitted_programs
from presk_db.conformance.program import Build, built, compare_outputs
from presk_db.errors import BuildFailed
from tests.tools import has_fma, needs

MLP = Recipe("mlp", str(Path("user") / "mlp.py"), {}, "f32")
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="sets MXCSR")
ROOT = Path(__file__).resolve().parents[2]

NEIGHBOUR = """
#include <xmmintrin.h>
__attribute__((constructor)) static void set(void) { _mm_setcsr(_mm_getcsr() | BITS); }
"""
MODES = [
    ("0x8000", "subnormal results"),
    ("0x0040", "subnormal operands"),
    ("0x2000", "round"),
    ("0x4000", "round"),
    ("0x6000", "round"),
]
BUILDS = [
    ("gcc", "-O2 -ffast-math", "-ffast-math"),
    ("gcc", "-Ofast", "-ffast-math"),
    ("gcc", "-O2 -ffinite-math-only", "-ffinite-math-only"),
    ("gcc", "-O2 -funsafe-math-optimizations", "-fassociative-math"),
    ("gcc", "-O2 -fsingle-precision-constant", "-fsingle-precision-constant"),
    ("clang-19", "-O2 -ffast-math", "-ffast-math"),
    ("clang-19", "-O2 -cl-single-precision-constant", "-fsingle-precision-constant"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A small emitted program, built."""
    (emitted,) = emitted_programs(tmp_path_factory.mktemp("guards"), [MLP])
    built(emitted.folder, Build("cc", "-O1"))
    return emitted


def neighbour(folder: Path, bits: str) -> Path:
    """A library that sets these bits of MXCSR when it is loaded, as one linked with -ffast-math does."""
    source, library = folder / "neighbour.c", folder / "neighbour.so"
    source.write_text(NEIGHBOUR)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DBITS={bits}", "-o", library, source], check=True)
    return library


def finished(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command's end, in a folder of its own."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=given, cwd=folder, check=False)


def refused_in_one_line(done: subprocess.CompletedProcess[str], word: str) -> None:
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1 and "E4001" in done.stderr and word in done.stderr, done.stderr


@X86
@pytest.mark.parametrize(("bits", "word"), MODES)
def test_a_program_beside_a_bad_library(program: Program, tmp_path: Path, bits: str, word: str) -> None:
    command = [str(program.folder / "main"), *program.commands[0], "-o", str(tmp_path / "out.safetensors")]
    assert finished(command, tmp_path).returncode == 0
    (tmp_path / "out.safetensors").unlink()
    refused_in_one_line(finished(command, tmp_path, LD_PRELOAD=str(neighbour(tmp_path, bits))), word)
    assert not (tmp_path / "out.safetensors").exists()


@X86
def test_a_program_linked_with_fast_math(program: Program, tmp_path: Path) -> None:
    """gcc's start-up code then sets flush-to-zero, though no file was compiled so."""
    needs("gcc")
    objects = [str(path) for path in sorted(program.folder.glob("*.o"))]
    linked = str(tmp_path / "linked")
    subprocess.run(["gcc", "-ffast-math", "-fopenmp", "-o", linked, *objects, "-lm"], check=True)
    out = tmp_path / "out.safetensors"
    refused_in_one_line(finished([linked, *program.commands[0], "-o", str(out)], tmp_path), "subnormal results")
    assert not out.exists()


@X86
@pytest.mark.parametrize(("bits", "word"), MODES)
def test_a_python_process_beside_a_bad_library(tmp_path: Path, bits: str, word: str) -> None:
    model = str(ROOT / "fixtures/user/mlp.py:forward")
    command = [sys.executable, "-m", "presk_db.cli.main", "record", model]
    done = finished(command, tmp_path, LD_PRELOAD=str(neighbour(tmp_path, bits)))
    assert done.returncode == 1 and "E4001" in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("presk: error E4001") and word in last


@pytest.mark.parametrize(("compiler", "flags", "word"), BUILDS)
def test_a_program_refuses_flags(program: Program, tmp_path: Path, compiler: str, flags: str, word: str) -> None:
    needs(compiler)
    with pytest.raises(BuildFailed, match=f"E7001 .*error.* {word}"):
        built(Path(shutil.copytree(program.folder, tmp_path / "program")), Build(compiler, flags))


@X86
def test_a_program_refuses_x87(program: Program, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="excess precision"):
        built(Path(shutil.copytree(program.folder, tmp_path / "program")), Build("gcc", "-O1 -mfpmath=387"))


@pytest.mark.skipif(not has_fma(), reason="needs an x86 CPU with FMA")
def test_contraction_is_not_the_users_to_ask_for(program: Program, tmp_path: Path) -> None:
    """STRICT comes after CFLAGS and wins; without it the program refuses to run."""
    folder = Path(shutil.copytree(program.folder, tmp_path / "program"))
    flags, out = "-O2 -march=x86-64-v3 -ffp-contract=fast", tmp_path / "out.safetensors"
    command = [str(built(folder, Build("gcc", flags))), *program.commands[0], "-o", str(out)]
    assert finished(command, tmp_path).returncode == 0
    compare_outputs(out, folder / "conformance/outputs.safetensors", flags)
    make = ["make", "-s", "-C", str(folder), "CC=gcc", f"CFLAGS={flags}", "STRICT=-std=c11"]
    subprocess.run([*make, "clean"], check=True)
    subprocess.run([*make, "main"], check=True)
    refused_in_one_line(finished(command, tmp_path), "contracted")
