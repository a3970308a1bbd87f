"""Generators that are malformed: each an E6001 that names the place."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline import MLP, ROOT, stored
from sqlalchemy import Engine

from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import GeneratorBad
from presk_db.store.emission import emission_reader

Change = Callable[[str, str, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the C generator that may be changed."""
    shutil.copytree(ROOT / "generators", tmp_path / "generators")

    def resources(name: str) -> Path:
        return tmp_path / "generators" if name == "generators" else ROOT / name

    monkeypatch.setattr("presk_db.emit.generator.resource_folder", resources)
    return tmp_path / "generators" / "c_program"


@pytest.fixture
def change(folder: Path) -> Change:
    def replace(file: str, old: str, new: str) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return replace


@pytest.fixture
def emitting(folder: Path, empty: Engine, tmp_path: Path) -> Callable[[], None]:
    recording = stored(empty, str(MLP))

    def emit() -> None:
        with emission_reader(empty, recording.id) as reader:
            emit_to(reader, recording, generator("c_program"), tmp_path / "out", {})

    return emit


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "c_program"', "name = ", "malformed"),
        ('name = "c_program"', 'title = "c_program"', "the key name is missing"),
        ('name = "c_program"', 'name = "c_program"\ncolour = "red"', "unknown key colour"),
        ("straight_line = false", 'straight_line = "no"', "must be true or false"),
        ("packs = true", "packs = 1", "packs must be true or false"),
        ('name = "declared"', 'name = "names"', "a name of its own, not names"),
        ('name = "declared"', 'name = "a b"', "a name of its own, not a b"),
        ('file = "declared.sql"', 'file = "declared.sql"\ngroup = ["form"]', "unknown key group"),
        ('name = "weights"', 'name = "parts"', "names of their own"),
        ('name = "weights"', 'name = "program"', "names of their own"),
        ('file = "weights.sql"', 'file = "moon.sql"', "moon.sql cannot be read"),
        ('file = "weights.sql"', 'file = "weights.sql"\ntable = "x"', "unknown key table"),
        ('group = ["operation"]', 'group = "operation"', "list of columns"),
        ('print = "c_function"', 'print = "fortran"', "no printer fortran"),
        ('template = "model.h.mako"', 'template = "moon.mako"', "no template moon.mako"),
        ('template = "model.h.mako"', 'template = "model.h.mako"\nwhen = "moon"', "moon is no option"),
        ('path = "model.h"', 'path = "../model.h"', "leaves the output folder"),
        ('path = "model.h"', 'path = "/model.h"', "leaves the output folder"),
        ('path = "model.h"', "path = 3", "must be a text"),
        ('role = "input"', 'role = "moon"', "the role moon is none of"),
        ('bind = { argument = "input" }', "bind = 1", "bind must be a table of texts"),
        ('pattern = "presk_*.[ch]"', 'pattern = "moon*"', "nothing to copy matches"),
        ('folder = "runtime_c"', 'folder = "migrations"', "nothing to copy matches"),
    ],
)
def test_the_toml(change: Change, old: str, new: str, said: str) -> None:
    change("generator.toml", old, new)
    with pytest.raises(GeneratorBad, match=said) as raised:
        generator("c_program")
    assert str(raised.value).startswith("E6001 c_program/generator.toml: ")


def test_a_generator_that_is_not_there() -> None:
    for name in ("moon", "../generators", "", "c_program/.."):
        with pytest.raises(GeneratorBad, match="E6001 there is no generator"):
            generator(name)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("declared.sql", "select", "selekt", r"E6001 table declared: the query fails: near"),
        ("generator.toml", "packs = true", "packs = false", r"E6001 query \w+: the query fails: no such table: w"),
        ("weights.sql", "select", "selekt", r"E6001 query weights: the query fails: near"),
        ("weights.sql", ":recording", ":moon", r"E6001 query weights: the query fails: .*moon"),
        ("generator.toml", '["operation"]', '["moon"]', r"E6001 query operations: it has no column moon"),
        (
            "names.sql",
            "select namespace, number, wanted",
            "select namespace, number",
            r"E6001 the names' query: it must",
        ),
        ("kernels.sql", "as kernel_text", "as moon", r"E6001 query kernels: the printer c_function misses a column"),
        ("model.h.mako", "${program.digest}", "${moon}", r"E6001 model.h.mako.*'moon' is not defined"),
        ("model.h.mako", "${program.digest}", "${1.5}", r"E6001 model.h.mako line 3: .*a template printed float"),
        ("model.h.mako", "${program.digest}", "${", r"E6001 model.h.mako"),
    ],
)
def test_queries_and_templates(
    change: Change, emitting: Callable[[], None], tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    change(file, old, new)
    with pytest.raises(GeneratorBad, match=said):
        emitting()
    assert not (tmp_path / "out").exists()
