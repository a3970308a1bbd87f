"""verified: an archive's files are unchanged, follow from its recording, and its program gives the recorded outputs."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from presk_db.checkpoints.open import open_weights
from presk_db.conformance.archive_read import LIMIT, OpenedArchive, changed_parts, import_archive, opened_archive
from presk_db.conformance.diverge import divergence
from presk_db.conformance.program import Build, built, compare_outputs, ran
from presk_db.conformance.sources import changed_weights
from presk_db.emit import archive as layout
from presk_db.errors import ArchiveChanged, BitsDiffer, WeightsNotFound
from presk_db.resources import presk_version
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine, open_database
from presk_db.store.recordings import StoredRecording
from presk_db.store.tables import SCHEMA_VERSION

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Verified:
    """A sound archive: what it is of, its tar's SHA-256, and the builds that ran.

    `not_made_again` is why its files were not made again from the recording; None where they were.
    """

    recording: StoredRecording
    digest: str
    not_made_again: str | None
    builds: tuple[tuple[Build, int], ...]


def verified(
    path: str,
    builds: Sequence[Build],
    weights: str | None = None,
    limit: int = LIMIT,
    progress: Progress = lambda stage: None,
) -> Verified:
    """Verifies an archive.

    Its files must have the digests of its manifest; its rows must be those of one recording, with its digest; where presk
    of this version and schema wrote it, every file must come out the same from the rows; weights must have the recorded
    bits; the program, built each way, must give the recorded outputs; and with the first build every launch must write
    what the recording's wrote.

    Raises:
        ArchiveBad (E7008), ArchiveChanged (E7009), ArchiveNewer (E7010): see `opened_archive`.
        WeightsNotFound (E7004): the archive does not hold the weights, and `weights` does not either.
        BuildFailed (E7001), ProgramFailed (E7002), BitsDiffer (E7003): see `checked`.
    """
    with opened_archive(path, limit, progress) as archive:
        engine = open_database("sqlite://", create=True)
        recording = import_archive(engine, archive, progress=progress)
        file = _weights(engine, recording, archive, weights, progress)
        not_made_again = _other_writer(archive)
        if not_made_again is None:
            progress("the files again")
            _check_made_again(engine, recording, archive)
        found = tuple((build, _run(engine, recording, archive, build, file, progress)) for build in builds)
        progress("launches")
        _check_launches(engine, recording, archive, builds[0], file)
        return Verified(recording, archive.tar_digest, not_made_again, found)


def _other_writer(archive: OpenedArchive) -> str | None:
    """Why this presk would write other files of the same recording; None where it would not."""
    if archive.presk != presk_version():
        return f"presk {archive.presk} wrote them, this is {presk_version()}"
    if not archive.is_same_schema:
        return f"they come from a database of schema {archive.schema}, this presk's is {SCHEMA_VERSION}"
    return None


def _weights(
    engine: Engine, recording: StoredRecording, archive: OpenedArchive, given: str | None, progress: Progress
) -> Path | None:
    """The weights' file for the program; its bits are the recorded ones."""
    own = archive.folder / layout.PROGRAM_WEIGHTS
    if recording.weights_kind == "none":
        return None
    if given is None and not own.is_file():
        raise WeightsNotFound("the weights are not in the archive: give --weights", archive.path)
    path = own if given is None else Path(given)
    progress("weights")
    changed = changed_weights(engine, recording, open_weights(path))
    if changed is not None:
        if given is None:
            raise ArchiveChanged(f"{layout.PROGRAM_WEIGHTS}: {changed}", archive.path)
        raise WeightsNotFound(f"these are not the weights that were recorded: {changed}", given)
    return path


def _check_made_again(engine: Engine, recording: StoredRecording, archive: OpenedArchive) -> None:
    """Raises ArchiveChanged (E7009) where a file does not follow from the recording."""
    again = archive.folder.parent / "again"
    again.mkdir()
    own = archive.folder / layout.PROGRAM_WEIGHTS

    def copy(path: Path) -> None:
        shutil.copyfile(own, path)

    with emission_reader(engine, recording.id) as reader:
        holds = recording.weights_kind == "file" and own.is_file()
        names = layout.archive_folder(reader, recording, again, copy if holds else None)
    there = {p.relative_to(archive.folder).as_posix() for p in archive.folder.rglob("*") if p.is_file()}
    for name in sorted(there ^ set(names)):
        raise ArchiveChanged(f"{name} does not belong to this recording", archive.path)
    last = (layout.PROGRAM_MANIFEST, layout.PARTS, layout.MANIFEST)  # what others are in them is said first
    for name in sorted(names, key=lambda n: (n in last, n)):
        if (archive.folder / name).read_bytes() != (again / name).read_bytes():
            parts = "".join(f": {part}" for part in changed_parts(again, name, archive.folder / name))
            raise ArchiveChanged(f"{name} does not follow from the recording{parts}", archive.path)


def _run(
    engine: Engine,
    recording: StoredRecording,
    archive: OpenedArchive,
    build: Build,
    weights: Path | None,
    progress: Progress,
) -> int:
    """The bytes of the outputs that this build gives, all equal to the recorded ones."""
    program, outputs = archive.folder / layout.PROGRAM, archive.folder.parent / "outputs"
    progress(f"build {build}")
    main = built(program, build)
    progress(f"run {build}")
    ran(main, weights, archive.folder / layout.INPUTS, outputs)
    try:
        return compare_outputs(outputs, archive.folder / layout.OUTPUTS, str(build))
    except BitsDiffer as e:
        found = _first_launch(engine, recording, archive, build, weights)
        raise BitsDiffer(e.message + ("" if found is None else f"; {found}"), e.place) from None


def _check_launches(
    engine: Engine, recording: StoredRecording, archive: OpenedArchive, build: Build, weights: Path | None
) -> None:
    """Raises ArchiveChanged (E7009) where a launch does not write what the recording says, though the outputs are right."""
    if (archive.folder / layout.HASHES).is_file():
        found = _first_launch(engine, recording, archive, build, weights)
        if found is not None:
            raise ArchiveChanged(f"the outputs are right, but not a hash: {found}", archive.path)


def _first_launch(
    engine: Engine, recording: StoredRecording, archive: OpenedArchive, build: Build, weights: Path | None
) -> str | None:
    """The first launch that differs."""
    hashes = archive.folder.parent / "hashes"
    main = built(archive.folder / layout.PROGRAM, replace(build, flags=f"{build.flags} -DPRESK_HASH"))
    ran(main, weights, archive.folder / layout.INPUTS, archive.folder.parent / "outputs", more=("-s", str(hashes)))
    found = divergence(engine, recording, str(hashes))
    return None if found is None else found.line
