"""The commands about speed: presk plan, presk bench."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from presk_db.cli.progress import Progress
from presk_db.cli.show import table_text
from presk_db.conformance.bench import Settings, benchmarked
from presk_db.conformance.plan import planned
from presk_db.errors import OutputUnwritable
from presk_db.kernels.plan_file import Plan, check_plan, plan_text, read_plan
from presk_db.store.benchmarks import Benchmark
from presk_db.store.engine import Engine, open_database
from presk_db.store.plans import check_importable, check_measured, measured_plan, write_measurements
from presk_db.store.read import read_kernels
from presk_db.store.recordings import StoredRecording, find_recording

CC = click.option("--cc", "compiler", default="cc", show_default=True, help="The compiler.")
CFLAGS = click.option("--cflags", "flags", default="-O3 -march=native", show_default=True, help="Its flags.")


def speed_commands(cli: click.Group, db_option: Callable[..., Any]) -> None:
    """Adds the commands to `presk`."""

    @cli.command()
    @click.argument("recording")
    @CC
    @CFLAGS
    @click.option(
        "--seconds", type=click.FloatRange(0, 3600), default=1.0, show_default=True, help="Measuring, a kernel."
    )
    @click.option("--export", "export", metavar="FILE", help="Writes the plan as JSON instead of measuring.")
    @click.option("--import", "import_", metavar="FILE", help="Adds the plan in FILE instead of measuring.")
    @db_option
    def plan(
        recording: str, compiler: str, flags: str, seconds: float, export: str | None, import_: str | None, db: str
    ) -> None:
        """Times candidate schedules of RECORDING's kernels into the database; the best of each kernel is the plan."""
        if export is not None and import_ is not None:
            raise click.UsageError("give --export or --import, not both")
        engine = open_database(db)
        stored = find_recording(engine, recording)
        if import_ is not None:
            found = _imported(engine, stored, import_)
            click.echo(f"{import_}: {len(found)} schedules for {stored.name}")
        elif export is not None:
            check_measured(engine, stored)
            found = measured_plan(engine, stored.id)
            _write(export, plan_text(found))
            click.echo(f"{export}: {len(found)} schedules of {stored.name}")
        else:
            with Progress() as progress:
                measured = planned(engine, stored, compiler, flags, seconds, progress)
            click.echo(_plan_table(measured_plan(engine, stored.id)))
            click.echo(f"{stored.name}: {len(measured)} measurements")

    @cli.command()
    @click.argument("recording")
    @CC
    @CFLAGS
    @click.option("--threads", multiple=True, type=click.IntRange(1, 1024), help="May be repeated [default: 1 and 2].")
    @click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Turns of everything.")
    @click.option("--runs", type=click.IntRange(1, 1000), default=3, show_default=True, help="Runs a turn.")
    @click.option("--torch", metavar="PYTHON", help="A Python with torch [default: this one, where it has it].")
    @click.option("--no-torch", is_flag=True, help="Without PyTorch.")
    @click.option("--plan", is_flag=True, help="With the best measured schedules.")
    @click.option("--weights", help="The checkpoint, where it is no longer where it was recorded.")
    @db_option
    def bench(
        recording: str,
        compiler: str,
        flags: str,
        threads: tuple[int, ...],
        rounds: int,
        runs: int,
        torch: str | None,
        no_torch: bool,
        plan: bool,
        weights: str | None,
        db: str,
    ) -> None:
        """Times RECORDING's program launch by launch into the database, beside the machine's limits and PyTorch."""
        engine = open_database(db)
        stored = find_recording(engine, recording)
        if plan:
            check_measured(engine, stored)
        if torch is None and importlib.util.find_spec("torch") is not None:
            torch = sys.executable
        settings = Settings(compiler, flags, threads or (1, 2), rounds, runs, None if no_torch else torch, plan)
        with Progress() as progress:
            done = benchmarked(engine, stored, settings, weights, progress)
        click.echo(bench_text(done))


def bench_text(done: Sequence[Benchmark]) -> str:
    """A line for the program and for each rival, by threads: milliseconds, and the program's time over theirs."""
    rows = []
    for b in done:
        limits = f"{b.operations / 1e9:.0f} GFLOP/s, {b.bytes / 1e9:.0f} GB/s"
        rows.append((b.threads, "presk", f"{b.nanoseconds / 1e6:.3f}", "", limits))
        rows += [
            (b.threads, name, f"{t / 1e6:.3f}", f"{b.nanoseconds / t:.3f}", "") for name, t in sorted(b.rivals.items())
        ]
    return table_text(("threads", "program", "ms", "presk over it", "the machine"), rows)


def _imported(engine: Engine, stored: StoredRecording, path: str) -> Plan:
    found = read_plan(path)
    check_plan(found, {k.digest: k for k in read_kernels(engine, stored.id)}, path)
    check_importable(found, path)
    write_measurements(engine, found)
    return found


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as e:
        raise OutputUnwritable(f"cannot be written: {getattr(e, 'strerror', None) or e}", path) from None


def _plan_table(plan: Plan) -> str:
    rows = []
    for p in plan:
        last = p.measured[-1]
        share = last.nanoseconds / last.default_nanoseconds
        what = p.schedule.text.replace("\n", "; ").removesuffix("; ") or "as written"
        rows.append((p.kernel[:16], f"{last.nanoseconds / 1e6:.4f}", f"{share:.2f}", what))
    return table_text(("kernel", "ms", "of default", "schedule"), rows)
