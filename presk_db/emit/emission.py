"""emitted: the files of a generator for one recording, from queries alone; and their way into a folder."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from presk_db.emit.generator import Generator, OutputFile, Query
from presk_db.emit.names import c_name, c_names
from presk_db.emit.printers import PRINTERS
from presk_db.emit.render import rendered
from presk_db.emit.tensors import write_tensors
from presk_db.errors import EmissionUnwritable
from presk_db.resources import resource_folder
from presk_db.store.emission import EmissionReader
from presk_db.store.recordings import StoredRecording

MANIFEST = "MANIFEST"
FIRST_LINE = "# the files of this program and their SHA-256, written by presk emit"


@dataclass(frozen=True)
class Emission:
    """What was written: the folder, its files' names, and the bytes of all."""

    folder: Path
    files: tuple[str, ...]
    bytes: int


def emit_to(
    reader: EmissionReader,
    recording: StoredRecording,
    generator: Generator,
    folder: Path,
    options: Mapping[str, bool],
    progress: Callable[[str], None] = lambda file: None,
) -> Emission:
    """Writes the generator's files for the recording into `folder`, all or none.

    An existing folder is replaced only if it is an emission. Raises EmissionUnwritable (E6002) where it is not, or the
    disk is full; nothing is left half-written.
    """
    with _beside(folder) as draft:
        for name, text in emitted(reader, recording, generator, options):
            progress(name)
            _write(draft / name, text)
        for copy in generator.copies:
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
    reader: EmissionReader, recording: StoredRecording, generator: Generator, options: Mapping[str, bool]
) -> Iterator[tuple[str, str]]:
    """(path, text) of each rendered file, in the generator's order."""
    chosen = {**generator.options, **options}
    binds = {name: int(value) for name, value in chosen.items()}
    if generator.names is not None:
        reader.set_names(c_names(reader.rows(generator.names, binds)))
    values: dict[str, Any] = {q.name: _rows(reader, q, binds) for q in generator.queries}
    values["program"] = SimpleNamespace(
        prefix=c_name(recording.name), name=recording.name, digest=recording.digest, **binds
    )
    for file in generator.files:
        if _wanted(file, chosen):
            yield file.path, rendered(generator.folder, file.template, values)


def _wanted(file: OutputFile, options: Mapping[str, bool]) -> bool:
    if file.when is None:
        return True
    return not options[file.when[1:]] if file.when.startswith("!") else options[file.when]


def _rows(reader: EmissionReader, query: Query, binds: Mapping[str, int]) -> list[Any] | dict[Any, list[Any]]:
    rows = [SimpleNamespace(**row) for row in reader.mappings(query.sql, binds)]
    if query.printer is not None:
        for row in rows:
            vars(row).update(PRINTERS[query.printer](row))
    if query.group is None:
        return rows
    return {key: list(group) for key, group in groupby(rows, key=lambda row: getattr(row, str(query.group)))}


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place when the block ends well."""
    if folder.exists() and not _is_emission(folder):
        raise EmissionUnwritable("it exists and is no emission of presk: give a new folder", str(folder))
    draft: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        draft.chmod(0o755)
        yield draft
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)
    except OSError as e:
        raise EmissionUnwritable(f"cannot write: {e.strerror or e}", str(folder)) from None
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft, ignore_errors=True)


def _is_emission(folder: Path) -> bool:
    if folder.is_dir() and not any(folder.iterdir()):
        return True
    manifest = folder / MANIFEST
    return manifest.is_file() and manifest.read_text(encoding="utf-8", errors="replace").startswith(FIRST_LINE)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    if path.suffix == ".sh":
        path.chmod(0o755)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
