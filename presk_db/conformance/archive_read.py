"""opened_archive: an archive's files, unpacked and found unchanged; import_archive: its recording into a database."""

import gzip
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from presk_db.checkpoints.mapped import reason
from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import replaced_file
from presk_db.emit import archive as layout
from presk_db.errors import (
    ArchiveBad,
    ArchiveChanged,
    ArchiveNewer,
    DatabaseWriteFailed,
    OutputUnwritable,
    PreskError,
)
from presk_db.store.engine import Engine
from presk_db.store.extract import restored
from presk_db.store.recordings import StoredRecording
from presk_db.store.tables import SCHEMA_VERSION
from presk_db.ustar import read_tar

LIMIT = 1 << 32
"""The most bytes that an archive unpacks to, unless the user allows more."""

TEXT_LIMIT = 1 << 30
"""The most bytes of a text that is read as a whole."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class OpenedArchive:
    """The unpacked folder, and what PROVENANCE.json says."""

    path: str
    folder: Path
    name: str
    digest: str
    schema: str
    presk: str
    weights_kind: str
    tar_digest: str

    @property
    def is_same_schema(self) -> bool:
        """Whether this presk writes the same rows."""
        return self.schema == SCHEMA_VERSION


@contextmanager
def opened_archive(path: str, limit: int = LIMIT, progress: Progress = lambda stage: None) -> Iterator[OpenedArchive]:
    """Unpacks an archive into a temporary folder, every file of it as its manifest says.

    Raises:
        ArchiveBad: E7008, where it is cut, malformed, larger than `limit`, or no archive.
        ArchiveChanged: E7009, where a file, kernel, weight, input or output was changed: they are named.
        ArchiveNewer: E7010.
        OutputUnwritable: E1108, where there is no room for its files.
    """
    with tempfile.TemporaryDirectory(prefix="presk-archive-") as work:
        progress("unpack")
        try:
            folder, digest = _unpacked(path, Path(work), limit)
            check_manifest(folder)
            yield _described(path, folder, digest)
        except (ArchiveBad, ArchiveChanged, ArchiveNewer) as e:
            if e.place is not None and e.place.startswith(path):
                raise
            raise type(e)(e.message, path if e.place is None else f"{path} {e.place}") from None


def _unpacked(path: str, work: Path, limit: int) -> tuple[Path, str]:
    """Writes the files below `work`; the folder in which they lie, and the SHA-256 of the tar.

    Raises ArchiveBad (E7008), and OutputUnwritable (E1108) where the disk is full.
    """
    tops: set[str] = set()
    with _Hashed(path) as file:
        for member, pieces in read_tar(file, limit):
            tops.add(member.name.partition("/")[0])
            if len(tops) > 1 or "/" not in member.name:
                raise ArchiveBad("an archive's files lie in one folder", member.name)
            target = work / member.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as out:
                    for piece in pieces:
                        out.write(piece)
                target.chmod(member.mode)
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                raise ArchiveBad("it cannot be unpacked: a file has the name of a folder", member.name) from None
            except OSError as e:
                what = f"cannot be unpacked in {work.parent}: {reason(e)}; TMPDIR may name another folder"
                raise OutputUnwritable(what, path) from None
    if not tops:
        raise ArchiveBad("it holds no file")
    return work / tops.pop(), file.state.hexdigest()


class _Hashed:
    """Reads what a .gz file holds, and keeps the SHA-256 of what was read. Raises ArchiveBad (E7008)."""

    def __init__(self, path: str) -> None:
        self.state = hashlib.sha256()
        try:
            self.file = gzip.open(path, "rb")  # noqa: SIM115 - closed by __exit__
        except OSError as e:
            raise ArchiveBad(f"it cannot be read: {reason(e)}") from None
        except ValueError:  # a path with a NUL
            raise ArchiveBad("there is no such file") from None

    def __enter__(self) -> "_Hashed":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def read(self, size: int) -> bytes:
        try:
            piece = self.file.read(size)
        except EOFError:
            raise ArchiveBad("it is cut: its end is missing") from None
        except (gzip.BadGzipFile, zlib.error):
            raise ArchiveBad("it is no .tar.gz file, or it was changed") from None
        except OSError as e:
            raise ArchiveBad(f"it cannot be read: {reason(e)}") from None
        self.state.update(piece)
        return piece


def check_manifest(folder: Path) -> None:
    """Raises ArchiveBad (E7008) for a manifest that is none, ArchiveChanged (E7009) with all that was changed."""
    listed: dict[str, str] = {}
    for line in _text(folder, layout.MANIFEST).splitlines():
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name or name in listed:
            raise ArchiveBad("this is no line of a manifest", layout.MANIFEST)
        listed[name] = digest
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {layout.MANIFEST}
    changed = [f"{name} is missing" for name in sorted(set(listed) - there)]
    changed += [f"{name} is not in the manifest" for name in sorted(there - set(listed))]
    for name in sorted(there & set(listed)):
        if layout.digest_of(folder / name) != listed[name]:
            changed.append(f"{name} was changed" + "".join(f": {part}" for part in changed_parts(folder, name)))
    if changed:
        more = f"; and {len(changed) - 4} more files" if len(changed) > 4 else ""
        raise ArchiveChanged("; ".join(changed[:4]) + more)


def changed_parts(folder: Path, name: str, found: Path | None = None) -> list[str]:
    """The kernels or tensors of a file that are not those of PARTS: all, or the first where its size is another.

    `found` is another file that should be the same.
    """
    file = folder / name if found is None else found
    parts = []
    for line in _text(folder, layout.PARTS).splitlines():
        words = line.split(" ", 4)
        if len(words) == 5 and words[3] == name and words[1].isdigit() and words[2].isdigit():
            parts.append((words[0], int(words[1][:18]), int(words[2][:18]), words[4]))
    changed = [what for digest, offset, size, what in parts if layout.digest_of(file, offset, size) != digest]
    end = max((offset + size for _, offset, size, _ in parts), default=0)
    return changed if file.stat().st_size == end else changed[:1]


def _described(path: str, folder: Path, tar_digest: str) -> OpenedArchive:
    try:
        said = json.loads(_text(folder, layout.PROVENANCE))
        name, digest, schema, presk = (str(said[key]) for key in ("name", "digest", "schema", "presk"))
        kind = str(said["weights"]["kind"])
        words = str(said["format"]).split()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArchiveBad("it does not say what was recorded", layout.PROVENANCE) from None
    if words[:2] != ["presk", "archive"] or len(words) != 3 or not words[2].isdigit() or not name.isprintable():
        raise ArchiveBad("this is no archive of presk", layout.PROVENANCE)
    if int(words[2][:9]) > layout.FORMAT or schema > SCHEMA_VERSION:
        raise ArchiveNewer(
            f"presk {presk} with schema {schema} wrote it, this one has {SCHEMA_VERSION}: upgrade presk",
            layout.PROVENANCE,
        )
    return OpenedArchive(path, folder, name, digest, schema, presk, kind, tar_digest)


def import_archive(
    engine: Engine, archive: OpenedArchive, weights: str | None = None, progress: Progress = lambda stage: None
) -> StoredRecording:
    """Writes the archive's recording into a database; all of it, or nothing. Weights go to the file `weights`, if given.

    Raises:
        ArchiveBad: E7008, where its rows contradict each other or its tensors.
        DatabaseWriteFailed: E5004; OutputUnwritable: E1108.
    """
    dump = _text(archive.folder, layout.RECORDING).splitlines()
    source = archive.folder / layout.PROGRAM_WEIGHTS
    with ExitStack() as stack:
        if weights is not None and source.is_file() and archive.weights_kind == "file":
            progress("weights")
            out = stack.enter_context(replaced_file(weights))  # takes its place only when the database has the rest
            with source.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
            weights = os.path.abspath(weights)
        else:
            weights = None
        progress("database")
        stack.enter_context(_archive_errors(f"{archive.path} {layout.RECORDING}"))
        held = _contents(archive.folder)
        return restored(
            engine, archive.name, dump, held, digest=archive.digest, same=archive.is_same_schema, weights=weights
        )


@contextmanager
def _archive_errors(place: str) -> Iterator[None]:
    """Whatever rows that contradict each other lead to is one error of the archive; a database that cannot be written is not."""
    try:
        yield
    except (ArchiveBad, ArchiveChanged, DatabaseWriteFailed):
        raise
    except PreskError as e:
        raise ArchiveBad(e.message, f"{place} {e.place}" if e.place else place) from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as e:
        raise ArchiveBad(f"its rows contradict each other: {type(e).__name__}", place) from None


def _contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every input, output and bound, and of the tokenizer, by their SHA-256."""
    found: dict[str, bytes] = {}
    if (folder / layout.TOKENIZER).is_file():
        found[layout.digest_of(folder / layout.TOKENIZER)] = (folder / layout.TOKENIZER).read_bytes()
    for name in (layout.INPUTS, layout.OUTPUTS, layout.BOUNDS, layout.EXACT):
        path = folder / name
        if path.is_file():
            SafetensorsFile(str(path))  # checks the format
            with path.open("rb") as file:
                for _, begin, end in layout.tensor_places(path):
                    file.seek(begin)
                    found[layout.digest_of(path, begin, end - begin)] = file.read(end - begin)
    return found


def _text(folder: Path, name: str) -> str:
    path = folder / name
    try:
        if path.stat().st_size > TEXT_LIMIT:
            raise ArchiveBad(f"has more than {TEXT_LIMIT} bytes", name)
        return path.read_text(encoding="utf-8")
    except OSError:
        raise ArchiveBad("it is missing", name) from None
    except UnicodeDecodeError:
        raise ArchiveBad("it is no text", name) from None
