"""A user's Python file as a model: what it needs, and errors with its name and line."""

from pathlib import Path

import pytest

from presk_db.errors import EntryBad, PreskError
from presk_db.language.graph import Input
from presk_db.models.families import check_inputs, check_parameters, model_from_python

GOOD = """\
"A model."

from presk_db import language as L

DIMS = {"B": 2}


def parameters(dims):
    return {"w": L.parameter("w", 3, 4)}


def inputs(dims):
    return {"x": L.real_input(dims["B"], 3)}


def forward(p, x):
    return L.linear(x, p["w"])
"""


def written(folder: Path, text: str) -> Path:
    """The file model.py with this text."""
    path = folder / "model.py"
    path.write_text(text)
    return path


def test_a_good_file(tmp_path: Path) -> None:
    model = model_from_python(written(tmp_path, GOOD), "forward")
    graph = model.graph("forward", model.dimensions({"B": 5}))
    assert graph.entry.results[0].shape == (5, 4)
    assert graph.entry.source == "model.py:16" and graph.entry.equations[0].source == "model.py:17"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("def forward(p, x):", "def forward(p, x:", "model.py:16"),
        ("def inputs(dims):", "undefined\n\ndef inputs(dims):", "model.py:12"),
        ("def inputs(dims):", "raise SystemExit(3)\n\ndef inputs(dims):", "model.py:12"),
        ("def inputs", "def no_inputs", "model.py"),
        ("def parameters", "def no_parameters", "model.py"),
        ("def forward", "def no_forward", "model.py"),
        ("def forward(p, x):", "forward = 3\ndef f(p, x):", "model.py"),
        ('DIMS = {"B": 2}', "DIMS = 3", "model.py"),
        ('DIMS = {"B": 2}', 'DIMS = {"B": "two"}', "model.py"),
        ("import language", "import unknown", "model.py:3"),
    ],
)
def test_files_that_do_not_load(tmp_path: Path, old: str, new: str, place: str) -> None:
    with pytest.raises(EntryBad) as caught:
        model_from_python(written(tmp_path, GOOD.replace(old, new)), "forward")
    assert caught.value.code == "E1203" and caught.value.place == place


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ('p["w"])', 'p["v"])', "E1203", "model.py:17"),
        ('p["w"])', 'p["w"]) + 1 / 0', "E1203", "model.py:17"),
        ('p["w"])', 'p["w"]) @ x', "E1201", "model.py:17"),
        ('p["w"])', 'p["w"]) < 1 < 2', "E1203", "model.py:17"),
        ("def forward(p, x):", "def forward(p, y):", "E1203", "model.py:16"),
        ("return L.linear", "L.linear", "E1203", "model.py:16"),
        ('dims["B"], 3', 'dims["T"], 3', "E1203", "model.py:13"),
        ('return {"w": L.parameter("w", 3, 4)}', "return 1 / 0", "E1203", "model.py:9"),
        ('return {"w": L.parameter("w", 3, 4)}', 'return {"w": 3}', "E1203", "model.py:8"),
        ('return {"x": L.real_input(dims["B"], 3)}', "return 3", "E1203", "model.py:12"),
    ],
)
def test_entries_that_do_not_trace(tmp_path: Path, old: str, new: str, code: str, place: str) -> None:
    assert old in GOOD
    model = model_from_python(written(tmp_path, GOOD.replace(old, new)), "forward")
    with pytest.raises(PreskError) as caught:
        model.graph("forward", model.dimensions({}))
    assert (caught.value.code, caught.value.place) == (code, place)


def test_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.py", tmp_path, tmp_path / "model.txt"):
        with pytest.raises(EntryBad) as caught:
            model_from_python(path, "forward")
        assert caught.value.code == "E1203"


def test_trees_of_a_user_model() -> None:
    with pytest.raises(EntryBad):
        check_parameters({"w": 3}, "model.py")
    for bad in (3, {"x": 3}, {"x": Input("bool", (2,))}, {"x": Input("real", (-1,))}):
        with pytest.raises(EntryBad):
            check_inputs(bad, "model.py")
