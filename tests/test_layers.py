"""Who imports whom: the layers of the package, read from its sources; late imports count."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "presk_db"

_SPECS = {"models", "checkpoints", "language", "lowering", "native", "recording", "kernels"}
MAY_IMPORT: dict[str, set[str]] = {
    "language": set(),
    "kernels": set(),
    "models": {"language"},
    "checkpoints": {"language"},
    "lowering": {"language", "kernels"},
    "recording": {"kernels"},
    "native": {"kernels", "recording"},
    "store": {"kernels", "recording"},
    "emit": {"kernels", "store"},
    "specs": _SPECS,
    "conformance": _SPECS | {"specs", "store", "emit"},
    "cli": _SPECS | {"specs", "store", "emit", "conformance"},
}
"""The layers that each may import besides itself; every layer may import the leaves, which are single modules."""

ONLY_IN = {
    "sqlalchemy": {"store"},
    "alembic": {"store"},
    "mako": {"emit"},
    "cffi": {"native", "conformance"},
    "click": {"cli"},
    "jinja2": {"checkpoints"},
}
"""Libraries, and the layers that may import them."""


def imports(source: Path, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], base]).strip(".")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            argument = node.args[0] if node.args else None
            yield node.lineno, str(argument.value) if isinstance(argument, ast.Constant) else "presk_db.?"


def violations(folder: Path) -> list[str]:
    """One line for each import that the tables forbid."""
    found = []
    mako: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        layer = parts[0] if len(parts) > 1 else ""
        if layer and layer not in MAY_IMPORT:
            found.append(f"{layer} is no layer of the table")
            continue
        for line, name in imports(path, ".".join((folder.name, *parts[:-1]))):
            words = name.split(".")
            where = f"{'/'.join(parts)}:{line} imports {name}"
            if words[0] in ONLY_IN and layer not in ONLY_IN[words[0]]:
                found.append(where)
            if words[0] == "mako":
                mako.add("/".join(parts))
            target = words[1] if words[0] == folder.name and len(words) > 1 else ""
            if target == "?" or (
                target in MAY_IMPORT and target != layer and target not in MAY_IMPORT.get(layer, set())
            ):
                found.append(where)
    if len(mako) > 1:
        found.append(f"mako is imported in {', '.join(sorted(mako))}")
    return found


def test_layers() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("kernels/a.py", "from presk_db.language import graph"),
        ("kernels/a.py", "def f():\n    import presk_db.language.graph"),
        ("emit/a.py", "from presk_db import native"),
        ("emit/a.py", "from ..lowering.flat import Flat"),
        ("language/a.py", "from presk_db.kernels.ir import Kernel"),
        ("errors.py", "from presk_db.kernels.ir import Kernel"),
        ("lowering/a.py", "import sqlalchemy as sa"),
        ("native/a.py", "from click import echo"),
        ("conformance/a.py", "import presk_db.cli.main"),
        ("specs/a.py", "from presk_db.store import tables"),
        ("models/a.py", "import importlib\nimportlib.import_module('presk_db.kernels')"),
        ("models/a.py", "import importlib\nimportlib.import_module(name)"),
        ("unknown/a.py", "import os"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, module: str, line: str) -> None:
    path = tmp_path / "presk_db" / module
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert len(violations(tmp_path / "presk_db")) == 1


def test_what_is_allowed_is_not_found(tmp_path: Path) -> None:
    folder = tmp_path / "presk_db"
    for module, line in (
        (
            "store/a.py",
            "import sqlalchemy, alembic\nfrom presk_db.kernels import ir\nfrom presk_db.errors import PreskError",
        ),
        ("emit/a.py", "from mako.template import Template\nfrom . import b"),
        ("cli/a.py", "import click\nfrom presk_db.specs import spec"),
    ):
        (folder / module).parent.mkdir(parents=True)
        (folder / module).write_text(line)
    assert violations(folder) == []


def test_mako_is_in_one_module(tmp_path: Path) -> None:
    folder = tmp_path / "presk_db" / "emit"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("import mako")
    (folder / "b.py").write_text("from mako.template import Template")
    assert violations(tmp_path / "presk_db") == ["mako is imported in emit/a, emit/b"]
