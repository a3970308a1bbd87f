"""Generator: a folder's generator.toml, its queries and templates, read and checked.

name = "c_program"
names = "names.sql"                      namespace, number, wanted: made into C identifiers, the temporary table `names`
[options]                                flags of `presk emit` with their defaults, bound in every query
straight_line = false
[[query]]                                rows for the templates, under this name
name = "buffers"
file = "buffers.sql"
group = "operation"                      optional: a mapping from this column to its rows, in order
print = "c_function"                     optional: a printer adds columns made from `name` and `kernel_text`
[[file]]
path = "model.h"
template = "model.h.mako"
when = "straight_line"                   optional: an option that must be set (or `!option`, unset)
[[tensors]]
path = "conformance/inputs.safetensors"  the recording's tensors in a role: input, native_output, or
role = "input"                           `seeded_weights`, which are drawn again from the recording's seed
[[copy]]
folder = "runtime_c"                     files that go out unchanged
pattern = "presk_*.[ch]"
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from presk_db.errors import GeneratorBad
from presk_db.resources import resource_folder


@dataclass(frozen=True)
class Query:
    """One query of a generator: `sql` has the bind `:recording` and one for each option."""

    name: str
    sql: str
    group: str | None
    printer: str | None


@dataclass(frozen=True)
class OutputFile:
    """A file that a template renders."""

    path: str
    template: str
    when: str | None


@dataclass(frozen=True)
class TensorFile:
    """A safetensors file with the recording's tensors in one role."""

    path: str
    role: str


@dataclass(frozen=True)
class Copy:
    """Files of a resource folder that go out unchanged."""

    folder: str
    pattern: str


@dataclass(frozen=True)
class Generator:
    """What a target is made from."""

    name: str
    folder: Path
    names: str | None
    options: dict[str, bool]
    queries: tuple[Query, ...]
    files: tuple[OutputFile, ...]
    tensors: tuple[TensorFile, ...]
    copies: tuple[Copy, ...]


def generator(name: str) -> Generator:
    """The generator of that name; GeneratorBad (E6001) where its folder is missing or its toml malformed."""
    folder = resource_folder("generators") / name
    if not name.isidentifier() or not (folder / "generator.toml").is_file():
        known = sorted(p.parent.name for p in resource_folder("generators").glob("*/generator.toml"))
        raise GeneratorBad(f"there is no generator {name}; there are {', '.join(known)}")
    place = f"{name}/generator.toml"
    try:
        document = tomllib.loads((folder / "generator.toml").read_text(encoding="utf-8"))
        return Generator(
            document["name"],
            folder,
            _text(folder, document["names"]) if "names" in document else None,
            {str(k): bool(v) for k, v in document.get("options", {}).items()},
            tuple(_query(folder, q) for q in document.get("query", [])),
            tuple(OutputFile(f["path"], f["template"], f.get("when")) for f in document.get("file", [])),
            tuple(TensorFile(t["path"], t["role"]) for t in document.get("tensors", [])),
            tuple(Copy(c["folder"], c["pattern"]) for c in document.get("copy", [])),
        )
    except (KeyError, TypeError, OSError, tomllib.TOMLDecodeError) as e:
        raise GeneratorBad(f"malformed: {type(e).__name__} {e}", place) from None


def _query(folder: Path, q: dict[str, Any]) -> Query:
    return Query(q["name"], _text(folder, q["file"]), q.get("group"), q.get("print"))


def _text(folder: Path, file: str) -> str:
    return (folder / file).read_text(encoding="utf-8")
