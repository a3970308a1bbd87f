"""Fixtures of all tests: the command `presk` in this process, databases, and compilers that remember objects."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from pipeline import ROOT, Presk, Said
from sqlalchemy import Engine

from presk_db.cli.main import main
from presk_db.store.engine import open_database

settings.register_profile(
    "presk", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("presk")
"""The examples of a test follow from its text, and no test fails because the machine is slow."""

PARITY_SIZES = {"batch": 2, "tokens": 7, "width": 24, "heads": 4, "kv-heads": 2, "head-dim": 6}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The sizes of what tests/parity compares. They are here because pytest reads options from its first conftest files."""
    group = parser.getgroup("parity", "sizes of the modules and primitives that are compared with PyTorch")
    for name, default in PARITY_SIZES.items():
        group.addoption(f"--{name}", type=int, default=default, metavar="N", help=f"default {default}")


@pytest.fixture
def presk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Presk:
    """Runs `presk ARGUMENTS` in this process, which says nothing of its progress, however slow the machine is."""
    monkeypatch.setattr("presk_db.cli.progress.DELAY", float("inf"))

    def run(*arguments: object) -> Said:
        monkeypatch.setattr("sys.argv", ["presk", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as e:
            status = int(e.code or 0)
        return Said(status, *capsys.readouterr())

    return run


@pytest.fixture
def fails(presk: Presk) -> Callable[..., str]:
    """Runs a command that must fail with a code: status 1, nothing on stdout, one line on stderr, which comes back."""

    def run(code: str, *arguments: object) -> str:
        said = presk(*arguments)
        lines = said.err.splitlines()
        assert said.status == 1, said
        assert len(lines) == 1, said
        assert lines[0].startswith(f"presk: error {code} "), lines
        assert said.out == ""
        return lines[0]

    return run


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """An empty database."""
    return open_database(str(tmp_path_factory.mktemp("database") / "presk.db"), create=True)


@pytest.fixture(scope="session")
def cached_compiler(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """`CC` for a program's Makefile that compiles each source once a session."""
    cache = tmp_path_factory.mktemp("objects")
    return lambda compiler: f"sh {ROOT / 'tests' / 'cached_cc.sh'} {cache} {compiler}"
