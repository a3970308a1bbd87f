"""The commands around archives: archive, import, verify."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from presk_db.cli.progress import Progress
from presk_db.conformance.archive_read import LIMIT, import_archive, opened_archive
from presk_db.conformance.archive_verify import verified
from presk_db.conformance.archive_write import write_archive
from presk_db.conformance.program import Build
from presk_db.store.engine import check_writable, open_database
from presk_db.store.recordings import find_recording

_LIMIT = click.option(
    "--limit", type=click.IntRange(0), default=LIMIT, show_default=True, help="The most bytes that it may unpack to."
)


def archive_commands(cli: click.Group, db_option: Callable[[Any], Any]) -> None:
    """Adds the commands to the group."""

    @cli.command()
    @click.argument("recording")
    @click.option("-o", "--output", required=True, help="The .tar.gz file to write.")
    @click.option("--with-weights", is_flag=True, help="Puts the weights in, where they come from a file.")
    @click.option("--weights", help="The checkpoint, where it is no longer where it was recorded.")
    @db_option
    def archive(recording: str, output: str, with_weights: bool, weights: str | None, db: str) -> None:
        """Writes RECORDING as one file that a stranger can verify with a C compiler."""
        engine = open_database(db)
        stored = find_recording(engine, recording)
        with Progress() as progress:
            done = write_archive(engine, stored, output, with_weights=with_weights, weights=weights, progress=progress)
        click.echo(f"{output}: {done.files} files, {done.bytes} bytes; SHA-256 of the tar {done.digest}")

    @cli.command(name="import")
    @click.argument("file")
    @click.option("--weights", help="Where the archive's weights go [default: beside the database's file].")
    @_LIMIT
    @db_option
    def import_(file: str, weights: str | None, limit: int, db: str) -> None:
        """Puts the recording of the archive FILE into the database."""
        check_writable(db)
        with Progress() as progress, opened_archive(file, limit, progress) as opened:
            if weights is None and "://" not in db:
                weights = str(Path(db).parent / f"{opened.folder.name}.safetensors")
            stored = import_archive(open_database(db, create=True), opened, weights, progress)
        click.echo(f"{db}: {stored.name} {stored.digest[:16]} from {file}")

    @cli.command()
    @click.argument("file")
    @click.option("--weights", help="The checkpoint, where the archive does not hold the weights.")
    @click.option("--cc", "compilers", multiple=True, help="A compiler; may be repeated [default: cc].")
    @click.option("--cflags", "flags", multiple=True, help="Its flags; may be repeated [default: -O3 -march=native].")
    @_LIMIT
    def verify(file: str, weights: str | None, compilers: tuple[str, ...], flags: tuple[str, ...], limit: int) -> None:
        """Checks the archive FILE: its files, that they follow from its recording, and its program's outputs."""
        builds = [Build(c, f) for c in compilers or ("cc",) for f in flags or ("-O3 -march=native",)]
        with Progress() as progress:
            done = verified(file, builds, weights, limit, progress)
        click.echo(f"{file}: {done.recording.name} {done.recording.digest[:16]}, every file unchanged")
        click.echo(f"SHA-256 of the tar {done.digest}")
        if done.not_made_again is None:
            click.echo("every file follows from the recording")
        else:
            click.echo(f"the files were not made again: {done.not_made_again}")
        for build, size in done.builds:
            click.echo(f"{build}: {size} bytes equal to the recorded ones")
