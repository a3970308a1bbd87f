"""The runtime refuses builds and environments that would change bits, and its symbols take a prefix."""

import itertools
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from c_runtime import FIXTURES, GENERATE, KEYS, RUNTIME, SOURCES, STRICT, Build, compile_c

from tests.tools import has_fma

X86 = platform.machine() == "x86_64"
COMPILERS = [name for name in ("gcc", "clang", "clang-19") if shutil.which(name)]
LEVELS = ["-O0", "-O1", "-O2", "-O3"]


@pytest.mark.parametrize(("compiler", "level"), list(itertools.product(COMPILERS, LEVELS)))
def test_a_good_build_is_silent_and_good(build: Build, compiler: str, level: str) -> None:
    done = subprocess.run([build("probe.c", level, compiler=compiler)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "good\n")


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["-ffast-math"], "-ffast-math"),
        (["-Ofast"], "-ffast-math"),
        (["-ffinite-math-only"], "-ffinite-math-only"),
        (["-include", "float.h", "-UFLT_EVAL_METHOD", "-DPRESK_TEST_UNDEFINE"], "FLT_EVAL_METHOD is not defined"),
        (["-include", "float.h", "-DPRESK_TEST_EXCESS"], "excess precision"),
        (["-include", "float.h", "-DPRESK_TEST_SHORT"], "not IEEE 754 binary64"),
    ],
)
def test_a_build_that_changes_bits_is_refused(tmp_path: Path, flags: list[str], word: str) -> None:
    source = tmp_path / "unit.c"
    source.write_text(
        "#include <float.h>\n"
        "#ifdef PRESK_TEST_UNDEFINE\n#undef FLT_EVAL_METHOD\n#endif\n"
        "#ifdef PRESK_TEST_EXCESS\n#undef FLT_EVAL_METHOD\n#define FLT_EVAL_METHOD 2\n#endif\n"
        "#ifdef PRESK_TEST_SHORT\n#undef DBL_MANT_DIG\n#define DBL_MANT_DIG 24\n#endif\n"
        '#include "presk_rt.h"\n'
    )
    done = compile_c(tmp_path / "unit.o", [source], ["-std=c11", "-c", *flags])
    assert done.returncode != 0
    assert f"presk: {word}" in done.stderr or word in done.stderr
    assert "#error" in done.stderr


@pytest.mark.skipif(not X86, reason="sets MXCSR")
@pytest.mark.parametrize(
    ("bits", "word"),
    [
        ("8000", "subnormal results are flushed"),
        ("0040", "subnormal operands are taken as zero"),
        ("8040", "subnormal results"),
        ("2000", "rounding direction"),
        ("4000", "rounding direction"),
        ("6000", "rounding direction"),
        ("0000", "good"),
    ],
)
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_a_bad_environment_is_found(build: Build, bits: str, word: str, level: str) -> None:
    done = subprocess.run([build("probe.c", level), bits], capture_output=True, text=True, check=False)
    assert word in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.skipif(not has_fma(), reason="needs a CPU with FMA")
@pytest.mark.parametrize(("compiler", "level"), list(itertools.product(COMPILERS, ["-O2", "-O3"])))
def test_contraction_is_found(build: Build, compiler: str, level: str) -> None:
    flags = [level, "-march=x86-64-v3", "-ffp-contract=fast"]
    done = subprocess.run([build("probe.c", *flags, compiler=compiler)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "contracted" in done.stdout


@pytest.mark.skipif("clang-19" not in COMPILERS, reason="gcc refuses these flags by macros that clang lacks")
@pytest.mark.parametrize(
    "flags",
    [
        ["-funsafe-math-optimizations"],
        ["-freciprocal-math"],
        ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"],
        ["-fno-signed-zeros"],
    ],
    ids=" ".join,
)
def test_parts_of_fast_math_are_found(build: Build, flags: list[str]) -> None:
    program = build("probe.c", "-O2", *flags, compiler="clang-19")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "sums are rearranged" in done.stdout or "subnormal results are flushed" in done.stdout


def external_symbols(obj: Path) -> set[str]:
    out = subprocess.run(["nm", "-g", "--defined-only", obj], capture_output=True, text=True, check=True).stdout
    return {line.split()[2] for line in out.splitlines() if len(line.split()) == 3}


def test_every_symbol_takes_the_prefix(tmp_path: Path) -> None:
    listed = set(re.findall(r"^#define (presk_\w+) PRESK_SYM\(\1\)$", (RUNTIME / "presk_names.h").read_text(), re.M))
    plain: set[str] = set()
    for name in [*SOURCES, *KEYS, *GENERATE]:
        obj = tmp_path / f"{Path(name).name}.o"
        for flags in ([], ["-DPRESK_PREFIX=gpt_"]):
            assert compile_c(obj, [RUNTIME / name], [*STRICT, "-O1", "-c", *flags]).returncode == 0
            found = external_symbols(obj)
            assert found
            if flags:
                assert all(symbol.startswith("gpt_presk_") for symbol in found), found
            else:
                plain |= found
    assert all(symbol.startswith("presk_") for symbol in plain)
    assert plain <= listed


def test_two_runtimes_link_together(tmp_path: Path) -> None:
    objects = []
    for prefix, name in itertools.product(["one_", "two_"], SOURCES):
        obj = tmp_path / f"{prefix}{name}.o"
        assert compile_c(obj, [RUNTIME / name], ["-std=c11", "-c", f"-DPRESK_PREFIX={prefix}"]).returncode == 0
        objects.append(obj)
    main = tmp_path / "main.c"
    main.write_text(
        "const char *one_presk_rt_probe(void);\nconst char *two_presk_rt_probe(void);\n"
        "int main(void) { return one_presk_rt_probe() != 0 || two_presk_rt_probe() != 0; }\n"
    )
    assert compile_c(tmp_path / "both", [main, *objects], []).returncode == 0
    assert subprocess.run([tmp_path / "both"], check=False).returncode == 0


@pytest.mark.parametrize("name", [*SOURCES, *KEYS, *GENERATE])
def test_the_analyzer_finds_nothing(tmp_path: Path, name: str) -> None:
    done = compile_c(tmp_path / "a.o", [RUNTIME / name], [*STRICT, "-O2", "-fanalyzer", "-c"])
    assert (done.returncode, done.stderr) == (0, "")


def test_fixtures_are_all_used() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert all(path.name in tests for path in FIXTURES.glob("*.c"))
