"""The command `presk`: parses, calls, prints. An error is one line on stderr and exit status 1."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from presk_db.checkpoints.convert import convert
from presk_db.cli.progress import Progress
from presk_db.cli.show import kernels_text, launches_text, recordings_text, summary_text
from presk_db.conformance.check import checked
from presk_db.conformance.program import Build
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import PreskError
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.check import check_database
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database, upgrade_database
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import find_recording, list_recordings, read_graph, summary

DB = click.option("--db", default="presk.db", show_default=True, help="The database: a path or an SQLAlchemy URL.")


class _Dim(click.ParamType[tuple[str, int]]):
    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        name, equals, number = str(value).partition("=")
        if not name or not equals or not number.isascii() or not number.isdigit():
            self.fail(f"{value!r} is not NAME=N, such as T=256", param, ctx)
        return name, int(number)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="presk")
def cli() -> None:
    """Records a neural network's entry into SQLite and emits C11 that computes exactly the same bits."""


@cli.command()
@click.argument("spec")
@click.option("--model", help="A config.json, a model folder, a .gguf, or file.py:entry; wins over the spec's.")
@click.option("--entry", help="The entry to record [default: forward].")
@click.option("--dim", "dims", multiple=True, type=_Dim(), help="A dimension, such as T=256; may be repeated.")
@click.option("--type", "type_", help="One type for every site: f64, f32, bf16, or mixed (bf16, but f32 for parameters, losses and gradients) [default: f32].")
@click.option("--realization", help="A TOML file that gives sites types.")
@click.option("--weights", help="A checkpoint, or seed:N.")
@click.option("--inputs", help="A safetensors file with the entry's inputs, or seed:N.")
@click.option("--seed", type=int, help="The seed of what is drawn and has none of its own [default: 1].")
@click.option("--name", help="The recording's name.")
@click.option("--remat", is_flag=True, default=None, help="Gradients compute each layer again instead of keeping it.")
@click.option(
    "--executor",
    type=click.Choice(["numpy", "compiled"]),
    default="numpy",
    show_default=True,
    help="numpy defines the bits; compiled gives the same ones faster.",
)
@DB
def record(
    spec: str, db: str, type_: str | None, dims: tuple[tuple[str, int], ...], executor: Any, **flags: Any
) -> None:
    """Runs SPEC's entry natively and records it.

    SPEC is a spec in TOML, a Hugging Face model folder or config.json, a GGUF file, or file.py:entry.
    """
    progress = Progress()
    given = {k: v for k, v in {**flags, "type": type_}.items() if v is not None}
    chosen = spec_from(spec, {**given, "dims": dict(dims)})
    engine = open_database(db, create=True)
    recording = recorded(chosen, progress, executor)
    progress("database")
    stored = write_recording(engine, recording)
    progress.done()
    click.echo(summary_text(stored, summary(engine, stored.id)))


@cli.command()
@click.argument("recording")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--straight-line", is_flag=True, help="One function with every operation in order.")
@click.option("--generator", "generator_", default="c_program", show_default=True, help="A folder under generators/.")
@DB
def emit(recording: str, output: Path, straight_line: bool, generator_: str, db: str) -> None:
    """Writes RECORDING as C files: a name, the first digits of a digest, or `latest`."""
    engine = open_database(db)
    stored = find_recording(engine, recording)
    progress = Progress()
    with emission_reader(engine, stored.id) as reader:
        emission = emit_to(reader, stored, generator(generator_), output, {"straight_line": True}, progress)
    progress.done()
    click.echo(
        f"{output}: {len(emission.files)} files, {emission.bytes} bytes, from {stored.name} {stored.digest[:16]}"
    )


@cli.command()
@click.argument("recording")
@click.option("--weights", help="The checkpoint, where it is no longer where it was recorded.")
@click.option("--cc", "compilers", multiple=True, help="A compiler; may be repeated [default: cc].")
@click.option("--cflags", "flags", multiple=True, help="Its flags; may be repeated [default: -O3 -march=native].")
@DB
def check(recording: str, weights: str | None, compilers: tuple[str, ...], flags: tuple[str, ...], db: str) -> None:
    """Emits RECORDING to a temporary folder, builds it, runs it, and compares every byte with the native run's."""
    engine = open_database(db)
    stored = find_recording(engine, recording)
    builds = [Build(c, f) for c in compilers or ("cc",) for f in flags or ("-O3 -march=native",)]
    progress = Progress()
    results = checked(engine, stored, builds, weights, straight_line=(True,), progress=progress)
    progress.done()
    for r in results:
        kind = "straight-line" if r.straight_line else "structured"
        times = f"build {r.build_seconds:.1f} s, run {r.run_seconds:.2f} s"
        click.echo(f"{r.build}, {kind}: {r.bytes} bytes equal to the native run's ({times})")


@cli.command(name="list")
@DB
def list_(db: str) -> None:
    """Lists the recordings of a database."""
    engine = open_database(db)
    click.echo(recordings_text([(r, summary(engine, r.id)) for r in list_recordings(engine)]))


@cli.group()
def show() -> None:
    """Prints a part of a recording as text."""


def _shown(name: str, text: Any, help_: str) -> None:
    @show.command(name=name, help=help_)
    @click.argument("recording")
    @DB
    def command(recording: str, db: str) -> None:
        engine = open_database(db)
        click.echo(text(engine, find_recording(engine, recording).id), nl=False)


_shown("graph", read_graph, "The entry over the real numbers: functions, equations, source lines.")
_shown("kernels", kernels_text, "Each distinct loop nest, with how often it is launched.")
_shown("launches", launches_text, "Every launch in order, with its buffers.")


@cli.group()
def db() -> None:
    """Looks after a database."""


@db.command()
@DB
def upgrade(db: str) -> None:
    """Brings a database to this presk's schema version."""
    before, after = upgrade_database(db)
    click.echo(f"{db}: schema {after}" + ("" if before == after else f", was {before}"))


@db.command(name="check")
@DB
def check_db(db: str) -> None:
    """Checks a database: integrity, references, schema, kernels, tensors."""
    problems = check_database(db)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        sys.exit(1)
    click.echo(f"{db}: sound")


@cli.group()
def checkpoint() -> None:
    """Works with checkpoints."""


@checkpoint.command(name="convert")
@click.argument("gguf")
@click.option("-o", "--output", required=True, help="The folder to write: config.json, model.safetensors.")
def convert_(gguf: str, output: str) -> None:
    """Writes a GGUF file as a Hugging Face folder, without changing one value."""
    progress = Progress()
    converted = convert(gguf, output, lambda done, total, name: progress("tensors", done, total))
    progress.done()
    click.echo(f"{output}: {', '.join(converted.files)}; {len(converted.tensors)} tensors")


def main() -> None:
    """The entry point: errors become one line and exit status 1."""
    try:
        cli.main(standalone_mode=False)
    except PreskError as e:
        _end(f"presk: error {e}")
    except click.ClickException as e:
        place = f" {e.ctx.command_path}:" if isinstance(e, click.UsageError) and e.ctx else ""
        _end(f"presk: error E1000{place} {' '.join(e.format_message().split())}")
    except click.Abort:
        _end("presk: interrupted")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _end(line: str) -> None:
    sys.stderr.write("".join(c if c.isprintable() else "?" for c in line) + "\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
