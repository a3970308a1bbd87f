"""The portability matrix: its quick part for real, and that it can fail, refuse, and name what is not run."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from presk_db.conformance import portability
from presk_db.conformance.portability import Outcome, matrix, missing, outcome, strict_flags, summary, table
from presk_db.conformance.portability_programs import RECIPES, Program, Recipe, emitted_programs
from presk_db.conformance.portability_targets import TARGETS, Target
from tests.tools import needs, not_run

SMALL = Recipe("mlp", "user/mlp.py", {}, "f32")
EMULATED = ("aarch64 gcc -O2", "s390x gcc -O2", "wasm32-wasi zig cc -O2")
QUICK = [
    dataclasses.replace(t, counts=(1, 3))
    for t in TARGETS
    if t.name.split(",")[0] in ("gcc -O0", "gcc -O2", "gcc -O3 -march=native", "clang-19 -O2", *EMULATED)
]
REFUSED = [t for t in TARGETS if t.refused is not None]
GCC = Target("gcc -O1", ("gcc",), ("-O1",), needs=("gcc",))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    """One small program, the narrow course GPT, texts, and a step that draws."""
    chosen = [next(r for r in RECIPES if r.name == name) for name in ("gpt_f32", "text_f32", "draw_f32")]
    return emitted_programs(tmp_path_factory.mktemp("portability"), [SMALL, *chosen])


@pytest.fixture(scope="module")
def gcc_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the target GCC, in which the runtime's objects stay."""
    return tmp_path_factory.mktemp("gcc")


@pytest.mark.parametrize("target", QUICK, ids=lambda t: t.name)
def test_quick_targets(programs: list[Program], tmp_path: Path, target: Target) -> None:
    found = outcome(target, programs[1:], tmp_path)
    if found.not_run is not None:
        not_run(found.not_run)
    assert found.failures == ()
    assert len(found.hashes) == (6 if target.openmp else 3)
    assert {name: digest for (name, _), digest in found.hashes.items()} == {p.name: p.digest for p in programs[1:]}


@pytest.mark.parametrize("target", REFUSED, ids=lambda t: t.name)
def test_targets_that_are_refused(programs: list[Program], tmp_path: Path, target: Target) -> None:
    found = outcome(target, programs[:1], tmp_path)
    assert found.failures == () and not found.hashes
    assert "| refused |" in table(programs[:1], [found])


def test_a_target_that_should_be_refused_and_is_not(programs: list[Program], gcc_folder: Path) -> None:
    found = outcome(dataclasses.replace(GCC, refused="-ffast-math"), programs[:1], gcc_folder)
    assert found.failures == ("gcc -O1: was not refused",)
    assert "| FAILED |" in table(programs[:1], [found])


def test_another_bit_is_a_failure(programs: list[Program], gcc_folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(programs[0].folder, changed)
    kernels = changed / "kernels.c"
    text = kernels.read_text()
    place = "presk_tanh_f32_each("
    assert place in text
    kernels.write_text(text.replace(place, "presk_exp_f32_each(", 1))
    found = outcome(GCC, [dataclasses.replace(programs[0], folder=changed)], gcc_folder)
    (line,) = found.failures
    assert line.startswith("gcc -O1, mlp, threads None: ") and line.endswith(" is not native")
    assert found.cell(programs[0]) != programs[0].digest[:8]
    assert summary(programs[:1], [found]).endswith("1 failures")


def test_a_text_is_the_native_text_and_another_is_a_failure(gcc_folder: Path, tmp_path: Path) -> None:
    (text,) = emitted_programs(tmp_path, [r for r in RECIPES if r.name == "text_bf16"])
    assert text.generates and not outcome(GCC, [text], gcc_folder).failures
    other = dataclasses.replace(text, digest="0" * 64)
    assert outcome(GCC, [other], gcc_folder).failures == (
        f"gcc -O1, text_bf16, threads None: {text.digest[:8]} is not native",
    )


def test_a_program_that_does_not_build_is_a_failure(programs: list[Program], gcc_folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(programs[0].folder, broken)
    (broken / "main.c").write_text("int main(void) { return undeclared; }\n")
    found = outcome(GCC, [dataclasses.replace(programs[0], folder=broken)], gcc_folder)
    assert len(found.failures) == 1 and "undeclared" in found.failures[0]
    assert found.cell(programs[0]) == "failed"


def test_what_is_missing_is_named_and_never_passes(programs: list[Program]) -> None:
    absent = Target("vax -O2", ("vax-gcc",), ("-O2",), needs=("gcc-vax",))
    runnerless = dataclasses.replace(GCC, name="gcc under vax", runner=("qemu-vax",), needs=("qemu-user",))
    outcomes = matrix(programs[:1], [absent, runnerless])
    text = table(programs[:1], outcomes)
    assert "Not run: vax -O2: vax-gcc is not installed (gcc-vax)." in text
    assert "Not run: gcc under vax: qemu-vax is not installed (qemu-user)." in text
    assert "| vax" not in text
    assert summary(programs[:1], outcomes) == "0 targets ran, 2 not run; 0 runs of 1 programs: nothing was checked"


def test_a_matrix_of_nothing_does_not_pass(
    programs: list[Program], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(portability, "emitted_programs", lambda folder, recipes: programs[:1])
    with pytest.raises(SystemExit, match="2"):
        portability.main(["--only", "vax"])
    assert "no target's name holds 'vax'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        portability.main(["--programs", "vax"])
    assert "no program's name holds 'vax'" in capsys.readouterr().err
    absent = Target("vax -O2", ("vax-gcc",), ("-O2",), needs=("gcc-vax",))
    monkeypatch.setattr(portability, "TARGETS", [absent])
    assert portability.main(["--only", "vax"]) == 1
    monkeypatch.setattr(portability, "TARGETS", [absent, GCC])
    assert portability.main([]) == 0


def test_a_compiler_that_makes_nothing_that_runs_is_missing(tmp_path: Path) -> None:
    reason = missing(dataclasses.replace(GCC, flags=("--no-such-flag",), needs=("a better gcc",)), tmp_path)
    assert reason is not None and reason.startswith("a small program does not run: ") and "a better gcc" in reason


def test_thread_counts_that_differ_show_in_the_cell(programs: list[Program]) -> None:
    hashes: dict[tuple[str, int | None], str] = {("mlp", 1): "a" * 64, ("mlp", 3): "b" * 64}
    assert Outcome(GCC, hashes).cell(programs[0]) == "aaaaaaaa bbbbbbbb"


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("gcc -O2", []),
        ("s390x gcc -O2, OpenMP", ["-fexcess-precision=fast"]),
        ("arm zig cc -O2", ["-fno-vectorize", "-fno-slp-vectorize"]),
    ],
)
def test_the_makefile_gives_a_compiler_what_it_needs(programs: list[Program], name: str, flags: list[str]) -> None:
    (target,) = [t for t in TARGETS if t.name == name]
    needs(target.compiler[0], target.needs[0])
    assert strict_flags(target, programs[0]) == ["-std=c11", "-ffp-contract=off", "-fno-math-errno", *flags]


def test_every_machine_of_the_matrix_is_there() -> None:
    names = " ".join(t.name for t in TARGETS)
    for word in (
        "gcc -O0",
        "clang-19 -O3 -march=native",
        "zig",
        "musl",
        "aarch64",
        "riscv64",
        "arm ",
        "s390x",
        "ppc64",
        "wasm32",
    ):
        assert word in names
    assert len({t.name for t in TARGETS}) == len(TARGETS)
