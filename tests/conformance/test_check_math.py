"""The check of the functions finds what is wrong: planted in C, in a twin, in a slow path; and asks for real names."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from presk_db.conformance import check_math, math_library
from presk_db.conformance.check_math import BLOCK, check_f32, check_f32_twin, check_f64, main
from presk_db.conformance.math_library import MathLibrary, built_library
from presk_db.native import wide_functions
from presk_db.native.functions import function
from presk_db.resources import resource_folder

HARD_SIGMOID = range(0xBA000000, 0xBA000000 + BLOCK, BLOCK)  # holds -0x1.250c02p-10, which a select decides


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the runtime's functions."""
    return built_library(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def sound(path: Path) -> MathLibrary:
    """The runtime's functions."""
    return MathLibrary(path)


def tampered(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str) -> MathLibrary:
    """The functions of a copy of the runtime in which one text stands for another."""
    runtime = Path(shutil.copytree(resource_folder("runtime_c"), folder / "runtime_c"))
    text = (runtime / file).read_text()
    assert text.count(old) == 1
    (runtime / file).write_text(text.replace(old, new))
    monkeypatch.setattr(math_library, "resource_folder", lambda name: runtime)
    return MathLibrary(built_library(folder))


def wrong(library: MathLibrary, name: str) -> dict[str, int]:
    """The number of wrong results by what was checked in f64."""
    return {row.what: row.wrong for row in check_f64(library, name, 400)}


def test_what_is_sound_is_good(sound: MathLibrary) -> None:
    rows = check_f64(sound, "exp", 400)
    assert {row.what: row.wrong for row in rows} == dict.fromkeys(
        ("f64 C", "f64 NumPy", "f64 C hard", "f64 NumPy hard", "f64 C slow", "f64 NumPy slow"), 0
    )
    assert rows[0].inputs == rows[0].undecided == 400 and rows[2].inputs > 190 and rows[4].inputs > 590
    row = check_f32(sound, "sigmoid", None, HARD_SIGMOID)
    assert (row.inputs, row.wrong) == (BLOCK, 0) and row.undecided > 0


def test_one_wrong_f32_result_among_all(sound: MathLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tampered(tmp_path, monkeypatch, "presk_math.h", "x == -0x1.250c02p-10f", "x == 0x1p+90f")
    row = check_f32(library, "sigmoid", None, HARD_SIGMOID)
    assert row.wrong == 1 and row.example == "-0x1.250c020000000p-10"


def test_a_wrong_coefficient_of_f32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tampered(tmp_path, monkeypatch, "presk_math_poly.h", "0x1.5555555550090p-2", "0x1.5555565550090p-2")
    assert check_f32(library, "exp", None, range(0x3F000000, 0x3F000000 + BLOCK, BLOCK)).wrong > 0


def test_a_fast_path_that_is_too_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random inputs do not tell: only the hard ones do."""
    library = tampered(tmp_path, monkeypatch, "presk_math.c", "return rounded(y, within(0x1p-74, y), x, presk_exp_slow)",
                       "return rounded(y, within(0x1p-100, y), x, presk_exp_slow)")  # fmt: skip
    found = wrong(library, "exp")
    assert found["f64 C hard"] > 0
    assert sum(found.values()) == found["f64 C hard"]


def test_a_wrong_slow_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tampered(tmp_path, monkeypatch, "presk_math_fixed.h", "presk_add_inverse(g, 2, 4801, 1, 1, w);", ";")
    found = wrong(library, "log")
    assert found["f64 C slow"] > 100 and found["f64 NumPy slow"] == 0


def test_wrong_twins(sound: MathLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    def nudged(name: str, type: str) -> Callable[[np.ndarray], np.ndarray]:
        def twin(x: np.ndarray) -> np.ndarray:
            y = function(name, type)(x)
            y[100] = np.nextafter(y[100], y.dtype.type(9))
            return y

        return twin

    monkeypatch.setattr(check_math, "function", nudged)
    monkeypatch.setitem(wide_functions.FUNCTIONS, "exp", lambda x: 1.0)
    assert check_f32_twin(sound, "exp", 4096).wrong == 1
    found = wrong(sound, "exp")
    assert (found["f64 NumPy"], found["f64 NumPy hard"]) == (1, 1) and found["f64 NumPy slow"] > 100


def test_the_status_tells(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check_math, "built_library", lambda *arguments: path)
    arguments = ["--functions", "log", "--types", "f64", "--random", "50"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.endswith("no result is wrong\n")
    monkeypatch.setitem(wide_functions.FUNCTIONS, "log", lambda x: 1.0)
    assert main(arguments) == 1
    assert capsys.readouterr().out.endswith(" results are wrong\n")


@pytest.mark.parametrize("arguments", [["--functions", "sinh"], ["--types", "f16"], ["--functions", ""]])
def test_a_check_of_nothing_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "is none of" in capsys.readouterr().err
