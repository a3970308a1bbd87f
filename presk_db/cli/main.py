"""The command `presk`: parses, calls, prints. An error is one line on stderr and exit status 1."""

import io
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from presk_db.checkpoints.convert import convert
from presk_db.cli.archive import archive_commands
from presk_db.cli.checks import otherwise_checked
from presk_db.cli.diff import diff_command
from presk_db.cli.generate import generate_command
from presk_db.cli.progress import Progress
from presk_db.cli.query import answer_csv, answer_json, answer_text, metadata_json, names_text
from presk_db.cli.show import kernels_text, launches_text, recordings_text, summary_text
from presk_db.cli.speed import speed_commands
from presk_db.cli.structure import arena_text, calls_text, forms_text
from presk_db.conformance.check import checked
from presk_db.conformance.diverge import divergence
from presk_db.conformance.program import Build
from presk_db.emit.emission import Chunk, emit_to
from presk_db.emit.generator import generator
from presk_db.errors import BitsDiffer, CommandLineBad, DatabaseDamaged, MemoryShort, OutputUnwritable, PreskError
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.check import check_database
from presk_db.store.emission import chunk_of, emission_reader
from presk_db.store.engine import check_writable, open_database, upgrade_database
from presk_db.store.ingest import write_recording
from presk_db.store.plans import check_measured
from presk_db.store.query import answer, query_sql
from presk_db.store.recordings import find_recording, list_recordings, read_graph, summary

DB = click.option("--db", default="presk.db", show_default=True, help="The database: a path or an SQLAlchemy URL.")


def _dims(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """`T=256` and the like as a mapping; each name once."""
    dims: dict[str, int] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not name or not equals or not number.isascii() or not number.isdigit() or len(number) > 18:
            raise click.BadParameter(f"{text[:80]!r} is not NAME=N, such as T=256")
        if name in dims:
            raise click.BadParameter(f"{name} is given twice")
        dims[name] = int(number)
    return dims


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="presk")
def cli() -> None:
    """Records a neural network's entry into SQLite and emits C11 that computes exactly the same bits."""


@cli.command()
@click.argument("spec")
@click.option("--model", help="A config.json, a model folder, a .gguf, or file.py:entry; wins over the spec's.")
@click.option("--entry", help="The entry to record [default: forward].")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=N",
    callback=_dims,
    help="A dimension, such as T=256; may be repeated.",
)
@click.option(
    "--type",
    "type_",
    help="One type for every site: f64, f32, bf16; or mixed: f32 with a bf16 forward pass [default: f32].",
)
@click.option("--params", help="The type in which parameters are stored, where it is another, such as bf16.")
@click.option("--realization", help="A TOML file that gives sites types.")
@click.option("--weights", help="A checkpoint, or seed:N.")
@click.option("--inputs", help="A safetensors file with the entry's inputs, or seed:N.")
@click.option("--seed", type=int, help="The seed of what is drawn and has none of its own [default: 1].")
@click.option("--name", help="The recording's name.")
@click.option("--tokenizer", help="A tokenizer.json, a folder, a GGUF, or none [default for decode: the model's own].")
@click.option("--plan", help="A file with schedules, from `presk plan --export`.")
@click.option("--remat", is_flag=True, default=None, help="Gradients compute each layer again instead of keeping it.")
@click.option(
    "--executor",
    type=click.Choice(["numpy", "compiled"]),
    default="numpy",
    show_default=True,
    help="numpy defines the bits; compiled gives the same ones faster.",
)
@DB
def record(spec: str, db: str, type_: str | None, dims: dict[str, int], executor: Any, **flags: Any) -> None:
    """Runs SPEC's entry natively and records it.

    SPEC is a spec in TOML, a Hugging Face model folder or config.json, a GGUF file, or file.py:entry.
    """
    given = {k: v for k, v in {**flags, "type": type_}.items() if v is not None}
    chosen = spec_from(spec, {**given, "dims": dims})
    check_writable(db)
    with Progress() as progress:
        recording = recorded(chosen, progress, executor)
        progress("database")
        engine = open_database(db, create=True)
        stored = write_recording(engine, recording)
    click.echo(summary_text(stored, summary(engine, stored.id)))


@cli.command()
@click.argument("recording")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--straight-line", is_flag=True, help="One function with every operation in order.")
@click.option("--plan", is_flag=True, help="The best measured schedules, from `presk plan`.")
@click.option("--serve", is_flag=True, help="Also generate.c, from a prompt to a text; of a recorded decode entry.")
@click.option(
    "--chunk", "chunk_", help="A recording of the step with C > 1: with --serve, prompts go through C at once."
)
@click.option("--generator", "generator_", default="c_program", show_default=True, help="A folder under generators/.")
@DB
def emit(
    recording: str,
    output: Path,
    straight_line: bool,
    plan: bool,
    serve: bool,
    chunk_: str | None,
    generator_: str,
    db: str,
) -> None:
    """Writes RECORDING as C files: a name, the first digits of a digest, or `latest`."""
    engine = open_database(db)
    stored = find_recording(engine, recording)
    if plan:
        check_measured(engine, stored)
    if chunk_ is not None and not serve:
        raise click.UsageError("--chunk is for --serve")
    chunk = None
    if chunk_ is not None:
        other = find_recording(engine, chunk_)
        chunk = Chunk(other, chunk_of(engine, stored, other))
    options = {"straight_line": straight_line, "plan": plan, "serve": serve}
    with Progress() as progress, emission_reader(engine, stored.id) as reader:
        emission = emit_to(reader, stored, generator(generator_), output, options, progress, chunk)
    click.echo(
        f"{output}: {len(emission.files)} files, {emission.bytes} bytes, from {stored.name} {stored.digest[:16]}"
    )


@cli.command()
@click.argument("recording")
@click.option("--weights", help="The checkpoint, where it is no longer where it was recorded.")
@click.option("--cc", "compilers", multiple=True, help="A compiler; may be repeated [default: cc].")
@click.option("--cflags", "flags", multiple=True, help="Its flags; may be repeated [default: -O3 -march=native].")
@click.option(
    "--steps",
    type=click.IntRange(1, 10**6),
    help="Compares after so many steps of an entry that updates what it is given.",
)
@click.option("--exact", "otherwise", flag_value="exact", help="Measures the error against the exact reals instead.")
@click.option("--prove", "otherwise", flag_value="prove", help="Proves bounds, splits, initialization instead.")
@click.option("--scop", "otherwise", flag_value="scop", help="Asks Polly which nests are static control instead.")
@DB
def check(
    recording: str,
    weights: str | None,
    compilers: tuple[str, ...],
    flags: tuple[str, ...],
    steps: int | None,
    otherwise: str | None,
    db: str,
) -> None:
    """Emits RECORDING to a temporary folder, builds it, runs it, and compares every byte with the native run's."""
    engine = open_database(db)
    stored = find_recording(engine, recording)
    if otherwise is not None:
        click.echo(otherwise_checked(otherwise, engine, stored, weights), nl=False)
        return
    builds = [Build(c, f) for c in compilers or ("cc",) for f in flags or ("-O3 -march=native",)]
    with Progress() as progress:
        results = checked(engine, stored, builds, weights, straight_line=(False, True), steps=steps, progress=progress)
    for r in results:
        kind = "straight-line" if r.straight_line else "structured"
        times = f"build {r.build_seconds:.1f} s, run {r.run_seconds:.2f} s"
        after = "" if steps is None else f" after {steps} steps"
        click.echo(f"{r.build}, {kind}: {r.bytes} bytes equal to the native run's{after} ({times})")


@cli.command()
@click.argument("recording")
@click.argument("hashes")
@DB
def diverge(recording: str, hashes: str, db: str) -> None:
    """Names the first launch that wrote something else than RECORDING's: the kernel, the function, the model's line.

    HASHES is what the program, built with CFLAGS=-DPRESK_HASH, writes with -s HASHES.
    """
    engine = open_database(db)
    found = divergence(engine, find_recording(engine, recording), hashes)
    if found is not None:
        click.echo(found.text())
        raise BitsDiffer(found.line, hashes)
    click.echo(f"{hashes}: every launch wrote what the recording's wrote")


speed_commands(cli, DB)
archive_commands(cli, DB)
diff_command(cli, DB)
generate_command(cli, DB)


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
_shown("calls", calls_text, "The tree of calls, with their forms.")
_shown("forms", forms_text, "The distinct functions, by use.")
_shown("arena", arena_text, "The memory of temporaries: peak, and who is alive at it.")


@cli.command()
@click.argument("query", required=False)
@click.argument("recording", required=False)
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values.")
@click.option("--json", "form", flag_value="json", help="A list with one object a row.")
@click.option("--metadata", "form", flag_value="metadata", help="The named queries as Datasette's metadata instead.")
@DB
def query(query: str | None, recording: str | None, form: str | None, db: str) -> None:
    """Answers QUERY, a name or an SQL text, about RECORDING [default: latest]; without QUERY, lists the names.

    In SQL, `:recording` is the recording's id. A query only reads.
    """
    if form == "metadata":
        click.echo(metadata_json(db))
        return
    if query is None:
        click.echo(names_text())
        return
    sql = query_sql(query)
    engine = open_database(db)
    about = find_recording(engine, recording or "latest").id if recording or ":recording" in sql else None
    found = answer(engine, sql, about)
    click.echo({"csv": answer_csv, "json": answer_json}.get(form or "", answer_text)(found))


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
        click.echo(problem)
    if problems:
        raise DatabaseDamaged(f"{len(problems)} problems, the first: {problems[0]}", db)
    click.echo(f"{db}: sound")


@cli.group()
def checkpoint() -> None:
    """Works with checkpoints."""


@checkpoint.command(name="convert")
@click.argument("gguf")
@click.option("-o", "--output", required=True, help="The folder to write: config.json, model.safetensors.")
def convert_(gguf: str, output: str) -> None:
    """Writes a GGUF file as a Hugging Face folder, without changing one value."""
    with Progress() as progress:
        converted = convert(gguf, output, lambda done, total, name: progress("tensors", done, total))
    click.echo(f"{output}: {', '.join(converted.files)}; {len(converted.tensors)} tensors")


def main() -> None:
    """The entry point: errors become one line and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding does not have
    try:
        cli.main(prog_name="presk", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except PreskError as e:
        _end(f"presk: error {e}")
    except click.exceptions.NoArgsIsHelpError as e:
        _end(f"presk: error {_usage('give a command', e)}")
    except click.ClickException as e:
        _end(f"presk: error {_usage(e.format_message(), e)}")
    except click.Abort:
        _end("presk: interrupted")
    except MemoryError as e:
        _end(f"presk: error {MemoryShort(f'not enough memory: {e}')}")
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as e:
        _discard_output()
        _end(f"presk: error {OutputUnwritable(f'cannot be used: {e.strerror or e}', str(e.filename or 'the output'))}")


def _usage(message: str, e: click.ClickException) -> CommandLineBad:
    command = e.ctx.command_path if isinstance(e, click.UsageError) and e.ctx else "presk"
    return CommandLineBad(f"{message.rstrip('.')}; `{command} --help` says how", command)


def _discard_output() -> None:
    """What is still to be written can go nowhere: no second complaint when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(line: str) -> NoReturn:
    sys.stderr.write("".join(c if c.isprintable() else "?" for c in line) + "\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
