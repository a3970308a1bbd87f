"""Every error code is raised somewhere and named by some test."""

import ast
import re
from pathlib import Path

import pytest

from presk_db import errors
from presk_db.errors import PreskError

ROOT = Path(__file__).resolve().parents[1]
CLASSES = sorted(
    (c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, PreskError) and c is not PreskError),
    key=lambda c: c.code,
)


def sources(folder: str) -> str:
    return "\n".join(
        p.read_text(encoding="utf-8") for p in sorted((ROOT / folder).rglob("*.py")) if p != Path(__file__)
    )


PACKAGE, TESTS = sources("presk_db"), sources("tests")


def test_codes_are_distinct_and_in_order() -> None:
    codes = [c.code for c in CLASSES]
    assert len(set(codes)) == len(codes)
    tree = ast.parse((ROOT / "presk_db" / "errors.py").read_text())
    named = {c.__name__: c.code for c in CLASSES}
    order = [named[n.name] for n in tree.body if isinstance(n, ast.ClassDef) and n.name in named]
    assert order == codes
    assert all(re.fullmatch(r"E[1-8]\d{3}", code) for code in codes)


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.code)
def test_a_code_is_raised_and_tested(error: type[PreskError]) -> None:
    uses = len(re.findall(rf"\b{error.__name__}\b", PACKAGE))
    assert uses >= 3, f"{error.__name__} is defined and imported at most: raise it, or remove it"
    assert re.search(rf"\b{error.__name__}\b|\b{error.code}\b", TESTS), f"no test names {error.code}"
    assert (error.__doc__ or "").count("\n") == 0


def test_an_error_is_one_line() -> None:
    error = PreskError("two\nlines\t of   it", "a place")
    assert str(error) == "E0000 a place: two lines of it"
    assert str(PreskError("alone")) == "E0000 alone"
