"""Where the files that presk ships lie: generators/, migrations/, runtime_c/, in a checkout or in a wheel."""

import tomllib
from importlib.metadata import version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_folder(name: str) -> Path:
    """The folder `name` (generators, migrations or runtime_c): beside the package in a checkout, inside it in a wheel."""
    beside = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and beside.is_dir():
        return beside
    return _PACKAGE / "_share" / name


def presk_version() -> str:
    """The version of this presk: of the checkout, else of what is installed."""
    project = _PACKAGE.parent / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return version("presk")
