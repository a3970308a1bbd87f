"""Generator: a folder's generator.toml, its queries and templates, read and checked.

name = "c_program"
names = "names.sql"                      namespace, number, wanted: made into C identifiers, the temporary table `names`
packs = true                             optional: queries may join `packed` and `weight_places` (see schedules.py)
[options]                                flags of `presk emit` with their defaults, bound in every query
straight_line = false
[[table]]                                a temporary table that the queries may join: the rows of a query of its own
name = "declared"
file = "declared.sql"
[[query]]                                rows for the templates, under this name
name = "buffers"
file = "buffers.sql"
group = "operation"                      optional: a mapping from this column to its rows, in order
print = "c_function"                     optional: a printer adds columns made from `name` and `kernel_text`
[[file]]
path = "model.h"
template = "model.h.mako"
when = "straight_line"                   optional: an option that must be set (or `!option`, unset)
chunk = true                             optional: a step of several tokens has this file too, in the folder chunk/
[[tensors]]
path = "conformance/inputs.safetensors"  the recording's tensors in a role: input, native_output,
role = "input"                           `seeded_weights`, which are drawn again from the recording's seed, or
                                         `exact_bounds`, the exact outputs' enclosures where there are some,
                                         or `tokenizer`, the tokenizer's own file where there is one
[[copy]]
folder = "runtime_c"                     files that go out unchanged
pattern = "presk_*.[ch]"
when = "serve"                           optional, as for a file
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from presk_db.emit.printers import PRINTERS
from presk_db.errors import GeneratorBad
from presk_db.resources import resource_folder

OWN_TABLES = ("names", "c_types", "packed", "weight_places", "packable")
"""The temporary tables that every emission may have."""

ROLES = ("input", "native_output", "exact_output", "seeded_weights", "exact_bounds", "tokenizer")


@dataclass(frozen=True)
class Query:
    """One query of a generator: `sql` has the binds `:recording`, one for each option, and those of `binds`."""

    name: str
    sql: str
    group: tuple[str, ...]
    printer: str | None
    binds: dict[str, str]


@dataclass(frozen=True)
class TemporaryTable:
    """A table that is filled once by a query, before the others run."""

    name: str
    sql: str


@dataclass(frozen=True)
class OutputFile:
    """A file that a template renders."""

    path: str
    template: str
    when: str | None
    chunk: bool = False


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
    when: str | None


@dataclass(frozen=True)
class Generator:
    """What a target is made from."""

    name: str
    folder: Path
    names: str | None
    packs: bool
    options: dict[str, bool]
    tables: tuple[TemporaryTable, ...]
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
        found = Generator(
            document["name"],
            folder,
            _text(folder, document["names"]) if "names" in document else None,
            document.get("packs", False),
            dict(document.get("options", {})),
            tuple(TemporaryTable(t["name"], _text(folder, t["file"])) for t in _tables(document, "table", TABLE_KEYS)),
            tuple(_query(folder, q) for q in _tables(document, "query", QUERY_KEYS)),
            tuple(
                OutputFile(f["path"], f["template"], f.get("when"), f.get("chunk", False))
                for f in _tables(document, "file", FILE_KEYS)
            ),
            tuple(TensorFile(t["path"], t["role"]) for t in _tables(document, "tensors", ("path", "role"))),
            tuple(Copy(c["folder"], c["pattern"], c.get("when")) for c in _tables(document, "copy", COPY_KEYS)),
        )
        for key in document:
            if key not in KEYS:
                raise GeneratorBad(f"unknown key {key}", place)
        _check(found)
        return found
    except KeyError as e:
        raise GeneratorBad(f"the key {e.args[0]} is missing", place) from None
    except OSError as e:
        raise GeneratorBad(f"{e.filename} cannot be read: {e.strerror}", place) from None
    except (TypeError, ValueError, AttributeError, RecursionError) as e:
        raise GeneratorBad(f"malformed: {e}", place) from None


KEYS = ("name", "names", "packs", "options", "table", "query", "file", "tensors", "copy")
COPY_KEYS = ("folder", "pattern", "when")
TABLE_KEYS = ("name", "file")
QUERY_KEYS = ("name", "file", "group", "print", "bind")
FILE_KEYS = ("path", "template", "when", "chunk")


def _tables(document: dict[str, Any], key: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The tables `[[key]]`, whose values are texts (or lists or tables of them) under known keys."""
    tables: list[dict[str, Any]] = document.get(key, [])
    for table in tables:
        for k, value in table.items():
            if k not in keys:
                raise ValueError(f"[[{key}]] has the unknown key {k}")
            words = value if k == "group" and isinstance(value, list) else [value]
            if k == "group" and not isinstance(value, list):
                raise ValueError(f"[[{key}]] group must be a list of columns")
            if k == "bind":
                if not isinstance(value, dict):
                    raise ValueError(f"[[{key}]] bind must be a table of texts")
                words = list(value.values())
            if k == "chunk":
                if not isinstance(value, bool):
                    raise ValueError(f"[[{key}]] chunk must be true or false")
            elif not all(isinstance(word, str) and word for word in words):
                raise ValueError(f"[[{key}]] {k} must be a text")
    return tables


def _check(g: Generator) -> None:
    """Raises ValueError where names do not refer to anything, are given twice, or a path leaves the output folder."""
    if not all(isinstance(v, bool) for v in g.options.values()):
        raise ValueError("an option's default must be true or false")
    if not isinstance(g.packs, bool):
        raise ValueError("packs must be true or false")
    for table in g.tables:
        if not table.name.isidentifier() or table.name in OWN_TABLES:
            raise ValueError(f"a table needs a name of its own, not {table.name}")
    names = [q.name for q in g.queries]
    if len(set(names)) != len(names) or "program" in names:
        raise ValueError("queries need names of their own, other than program")
    for query in g.queries:
        if query.printer is not None and query.printer not in PRINTERS:
            raise ValueError(
                f"query {query.name}: there is no printer {query.printer}; there are {', '.join(PRINTERS)}"
            )
    for file in g.files:
        if file.when is not None and file.when.removeprefix("!") not in g.options:
            raise ValueError(f"file {file.path}: {file.when} is no option")
        if not (g.folder / file.template).is_file():
            raise ValueError(f"there is no template {file.template}")
    for tensors in g.tensors:
        if tensors.role not in ROLES:
            raise ValueError(f"{tensors.path}: the role {tensors.role} is none of {', '.join(ROLES)}")
    for copy in g.copies:
        if copy.when is not None and copy.when.removeprefix("!") not in g.options:
            raise ValueError(f"copy {copy.pattern}: {copy.when} is no option")
        if copy.folder not in ("runtime_c", "generators") or not any(resource_folder(copy.folder).glob(copy.pattern)):
            raise ValueError(f"nothing to copy matches {copy.folder}/{copy.pattern}")
    for path in [f.path for f in g.files] + [t.path for t in g.tensors]:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\\" in path:
            raise ValueError(f"the path {path} leaves the output folder")


def _query(folder: Path, q: dict[str, Any]) -> Query:
    return Query(
        q["name"], _text(folder, q["file"]), tuple(q.get("group", ())), q.get("print"), dict(q.get("bind", {}))
    )


def _text(folder: Path, file: str) -> str:
    return (folder / file).read_text(encoding="utf-8")
