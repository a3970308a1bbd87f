"""emitted: the files of a generator for one recording, from queries alone; and their way into a folder."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from presk_db.emit.generator import Copy, Generator, OutputFile, Query
from presk_db.emit.names import c_name, c_names
from presk_db.emit.printers import PRINTERS
from presk_db.emit.render import rendered
from presk_db.emit.schedules import set_packed
from presk_db.emit.tensors import write_tensors
from presk_db.errors import ChunksOther, EmissionUnwritable, GeneratorBad, LengthOpen
from presk_db.kernels.c_text import STORED
from presk_db.resources import resource_folder
from presk_db.store.emission import NO_STEP, EmissionReader
from presk_db.store.recordings import StoredRecording

MANIFEST = "MANIFEST"
FIRST_LINE = "# the files of this program and their SHA-256, written by presk emit"


@dataclass(frozen=True)
class Emission:
    """What was written: the folder, its files' names, and the bytes of all."""

    folder: Path
    files: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Chunk:
    """A step of `count` tokens at once, for prompts: the recording that goes with the one of one token."""

    recording: StoredRecording
    count: int


CHUNK = "chunk"
"""The folder of its library."""


def emit_to(
    reader: EmissionReader,
    recording: StoredRecording,
    generator: Generator,
    folder: Path,
    options: Mapping[str, bool],
    progress: Callable[[str], None] = lambda file: None,
    chunk: Chunk | None = None,
) -> Emission:
    """Writes the generator's files for the recording into `folder`, all or none; those of a chunk's library in chunk/.

    An existing folder is replaced only if it is an emission that holds no file of the user's. Raises EmissionUnwritable
    (E6002) where it is not, or the disk is full; nothing is left half-written. Raises GeneratorBad (E6001).
    """
    with _beside(folder) as draft:
        for name, text in emitted(reader, recording, generator, options, chunk):
            progress(name)
            _write(draft / name, text)
        chosen = {**generator.options, **options}
        for copy in generator.copies:
            if not _wanted(copy, chosen):
                continue
            for path in sorted(resource_folder(copy.folder).glob(copy.pattern)):
                _write(draft / path.name, path.read_text(encoding="utf-8"))
        for file in generator.tensors:
            progress(file.path)
            write_tensors(reader, recording, file.role, draft / file.path)
        files = sorted(p.relative_to(draft).as_posix() for p in draft.rglob("*") if p.is_file())
        lines = [FIRST_LINE, *(f"{_digest(draft / name)}  {name}" for name in files)]
        _write(draft / MANIFEST, "\n".join(lines) + "\n")
        total = sum((draft / name).stat().st_size for name in files)
    return Emission(folder, (*files, MANIFEST), total)


def emitted(
    reader: EmissionReader,
    recording: StoredRecording,
    generator: Generator,
    options: Mapping[str, bool],
    chunk: Chunk | None = None,
) -> Iterator[tuple[str, str]]:
    """(path, text) of each rendered file, in the generator's order; before them a chunk's, which share its weights.

    Raises LengthOpen (E8009) for what cannot serve, ChunksOther (E8010) for a chunk whose weights lie otherwise.
    """
    chosen = {**generator.options, **options}
    if chosen.get("serve") and not reader.is_step():
        raise LengthOpen(NO_STEP, f"recording {recording.name}")
    inner: dict[str, Any] = {}
    if chunk is not None:
        named = replace(chunk.recording, name=f"{c_name(recording.name)}_chunk")
        inner = _values(EmissionReader(reader.connection, named.id), named, generator, {**chosen, "serve": False})
        for file in generator.files:
            if file.chunk and _wanted(file, chosen):
                yield f"{CHUNK}/{file.path}", rendered(generator.folder, file.template, inner)
    values = _values(reader, recording, generator, chosen)
    if chunk is not None:
        for rows in ("weights", "parts"):
            if values[rows] != inner[rows]:
                raise ChunksOther("its weights lie otherwise in memory", f"recording {chunk.recording.name}")
        values["chunk"] = SimpleNamespace(
            count=chunk.count, **{n: inner[n] for n in ("program", "outputs", "generation")}
        )
    for file in generator.files:
        if _wanted(file, chosen):
            yield file.path, rendered(generator.folder, file.template, values)


def _values(
    reader: EmissionReader, recording: StoredRecording, generator: Generator, chosen: Mapping[str, bool]
) -> dict[str, Any]:
    """What the templates see: the queries' rows, `program`, and `chunk`, None where there is none."""
    binds = {name: int(value) for name, value in chosen.items()}
    reader.set_names(_names(reader, recording, generator, binds))
    reader.fill("c_types", "type text, c_name text", list(STORED.items()))
    if generator.packs:
        set_packed(reader)
    for table in generator.tables:
        try:
            reader.fill_by(table.name, table.sql, binds)
        except GeneratorBad as e:
            raise GeneratorBad(e.message, f"table {table.name}") from None
    values: dict[str, Any] = {q.name: _rows(reader, q, binds) for q in generator.queries}
    values["program"] = SimpleNamespace(
        prefix=c_name(recording.name), name=recording.name, digest=recording.digest, **binds
    )
    return {**values, "chunk": None}


def kernel_names(reader: EmissionReader, recording: StoredRecording, generator: Generator) -> dict[int, str]:
    """The name of each kernel in the generator's files, by the kernel's id."""
    binds = {name: int(value) for name, value in generator.options.items()}
    return {n: name for space, n, name in _names(reader, recording, generator, binds) if space == "kernel"}


def _names(
    reader: EmissionReader, recording: StoredRecording, generator: Generator, binds: Mapping[str, int]
) -> list[tuple[str, int, str]]:
    """(namespace, number, identifier) of everything that the generator names."""
    wanted = reader.rows(generator.names, binds) if generator.names is not None else []
    if wanted and len(wanted[0]) != 3:
        raise GeneratorBad("it must give namespace, number, wanted", "the names' query")
    return c_names([(str(s), int(n), str(name)) for s, n, name in wanted], c_name(recording.name))


def _wanted(file: OutputFile | Copy, options: Mapping[str, bool]) -> bool:
    if file.when is None:
        return True
    return not options[file.when[1:]] if file.when.startswith("!") else options[file.when]


def _rows(reader: EmissionReader, query: Query, binds: Mapping[str, int]) -> list[Any] | dict[Any, Any]:
    try:
        rows = [SimpleNamespace(**row) for row in reader.mappings(query.sql, {**binds, **query.binds})]
    except GeneratorBad as e:
        raise GeneratorBad(e.message, f"query {query.name}") from None
    if query.printer is not None:
        for row in rows:
            vars(row).update(_printed(query, row))
    for column in query.group:
        if rows and not hasattr(rows[0], column):
            raise GeneratorBad(f"it has no column {column} to group by", f"query {query.name}")
    return _grouped(rows, query.group)


def _grouped(rows: list[Any], columns: tuple[str, ...]) -> list[Any] | dict[Any, Any]:
    """The rows, or a mapping by the first column to the rows that share it, grouped by the other columns."""
    if not columns:
        return rows
    groups = groupby(rows, key=lambda row: getattr(row, columns[0]))
    return {key: _grouped(list(group), columns[1:]) for key, group in groups}


def _printed(query: Query, row: Any) -> dict[str, Any]:
    try:
        return PRINTERS[str(query.printer)](row)
    except AttributeError as e:
        raise GeneratorBad(f"the printer {query.printer} misses a column: {e}", f"query {query.name}") from e


@contextmanager
def _beside(shown: Path) -> Iterator[Path]:
    """A new folder beside `shown` that takes its place when the block ends well; a symbolic link is followed."""
    draft: Path | None = None
    if "\0" in str(shown):
        raise EmissionUnwritable("a path has no NUL", str(shown))
    try:
        folder = Path(os.path.realpath(shown))
        if os.path.lexists(folder):
            _check_replaceable(folder, shown)
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.parent))
        draft.chmod(0o755)
        yield draft
        _replace(draft, folder)
    except OSError as e:
        raise EmissionUnwritable(f"cannot write: {(e.strerror or str(e)).lower()}", str(shown)) from None
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft, ignore_errors=True)


def _replace(draft: Path, folder: Path) -> None:
    """The draft takes the folder's place; where that fails, what was there stays."""
    old = draft.with_name(f"{draft.name}.old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(draft, folder)
    except BaseException:
        if old.exists():
            os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


MADE = ("main", "generate", "outputs.safetensors")
"""What building and running a program leaves in its folder, besides .o files."""


def _check_replaceable(folder: Path, shown: Path) -> None:
    """EmissionUnwritable (E6002) unless the folder is empty, or an emission without files of the user's own."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    manifest = folder / MANIFEST
    lines = manifest.read_text(encoding="utf-8", errors="replace").splitlines() if manifest.is_file() else [""]
    if lines[:1] != [FIRST_LINE]:
        raise EmissionUnwritable("it exists and is no emission of presk: give a new folder", str(shown))
    known = {MANIFEST, *MADE, *(line.partition("  ")[2] for line in lines[1:])}
    for path in sorted(p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()):
        name = path.relative_to(folder).as_posix()
        if name not in known and path.suffix != ".o":
            raise EmissionUnwritable(f"it holds {name}, which presk did not write: move it away", str(shown))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    if path.suffix == ".sh":
        path.chmod(0o755)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
