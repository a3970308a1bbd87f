"""write_archive: a recording as one .tar.gz, whose tar has the same bytes whoever makes it."""

import gzip
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from presk_db.checkpoints.convert import write_exactly
from presk_db.checkpoints.safetensors_write import replaced_file
from presk_db.checkpoints.source import Array, TensorInfo, TensorSource
from presk_db.conformance.sources import recorded_source
from presk_db.emit.archive import archive_folder, top_folder
from presk_db.store.emission import EmissionReader, emission_reader
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording
from presk_db.ustar import Member, write_tar

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Archived:
    """What was written: the number of files, the bytes of the tar, its SHA-256."""

    files: int
    bytes: int
    digest: str


def write_archive(
    engine: Engine,
    recording: StoredRecording,
    path: str,
    *,
    with_weights: bool = False,
    weights: str | None = None,
    progress: Progress = lambda stage: None,
) -> Archived:
    """Writes the archive to `path`, replacing a file there only once all is written.

    With `with_weights`, the tensors that the recording uses are in it: from the recorded file, at `weights` if given.

    Raises WeightsNotFound (E7004), OutputUnwritable (E1108), and what an emission raises.
    """
    with tempfile.TemporaryDirectory(prefix="presk-archive-") as name:
        folder, write_weights = Path(name), None
        if with_weights and recording.weights_kind == "file":
            progress("weights")
            _, source = recorded_source(engine, recording, weights)
            write_weights = _weights_writer(source)
        with emission_reader(engine, recording.id) as reader:
            names = _filled(reader, recording, folder, write_weights, progress)
        progress("tar")
        with replaced_file(path) as out, gzip.GzipFile("", "wb", 6, out, 0) as zipped:
            tar = _Counted(zipped)
            write_tar(tar.write, _members(folder, top_folder(recording), names))
    return Archived(len(names), tar.bytes, tar.state.hexdigest())


def _filled(
    reader: EmissionReader,
    recording: StoredRecording,
    folder: Path,
    write_weights: Callable[[EmissionReader, Path], None] | None,
    progress: Progress,
) -> tuple[str, ...]:
    writer = None if write_weights is None else (lambda path: write_weights(reader, path))
    return archive_folder(reader, recording, folder, writer, progress)


def _weights_writer(source: TensorSource) -> Callable[[EmissionReader, Path], None]:
    def write(reader: EmissionReader, path: Path) -> None:
        query = "select distinct tensor from weight_parts where recording_id = :recording order by tensor"
        write_exactly(path, _Chosen(source, sorted(str(name) for (name,) in reader.rows(query, {}))))

    return write


def _members(folder: Path, top: str, names: Sequence[str]) -> Iterator[tuple[Member, BinaryIO]]:
    for name in names:
        path = folder / name
        with path.open("rb") as file:
            yield Member(f"{top}/{name}", 0o755 if name.endswith(".sh") else 0o644, path.stat().st_size), file


class _Counted:
    """Passes bytes on, and keeps their number and SHA-256."""

    def __init__(self, out: gzip.GzipFile) -> None:
        self.out = out
        self.bytes = 0
        self.state = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        self.out.write(piece)
        self.state.update(piece)
        self.bytes += len(piece)


@dataclass(frozen=True)
class _Chosen:
    """Some tensors of a source."""

    source: TensorSource
    chosen: list[str]

    def names(self) -> list[str]:
        return self.chosen

    def info(self, name: str) -> TensorInfo:
        return self.source.info(name)

    def read(self, name: str) -> Array:
        return self.source.read(name)

    def digest(self) -> str:
        return self.source.digest()

    def describe(self) -> str:
        return self.source.describe()
