"""The portability matrix: one set of emitted programs on every target, and one table of the hashes of their outputs.

    python -m presk_db.conformance.portability [--only TEXT|TEXT] [--programs TEXT|TEXT] [--markdown FILE]

A cell is the SHA-256 of the output file (of what a program printed, where that is a text), cut short, where every thread
count gave the same bytes. A target whose compiler or machine is missing is named as not run. The status is 1 unless a
target ran and every cell is the native run's.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from presk_db.conformance.portability_programs import (
    RECIPES,
    Program,
    emitted_programs,
    file_digest,
    text_digest,
)
from presk_db.conformance.portability_targets import TARGETS, Target, chosen
from presk_db.resources import resource_folder

SHOWN = 8
"""The digits of a hash in the table."""

_HELLO = (
    '#include <math.h>\n#include <stdio.h>\nint main(void) { puts(sqrt(4.0) == 2.0 ? "good" : "bad"); return 0; }\n'
)


@dataclass(frozen=True)
class Outcome:
    """What a target made of the programs: a hash by program and thread count, or why it did not run.

    `failures` holds one line for each program that did not build, failed, or gave other bytes.
    """

    target: Target
    hashes: Mapping[tuple[str, int | None], str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    not_run: str | None = None
    seconds: float = 0.0

    def cell(self, program: Program) -> str:
        """The hash, cut short; all of them where thread counts differ."""
        found = sorted({h[:SHOWN] for (name, _), h in self.hashes.items() if name == program.name})
        return " ".join(found) if found else "failed"


class Refused(Exception):
    """A command that ended badly, with the first line that says why."""


def strict_flags(target: Target, program: Program) -> list[str]:
    """The flags that make the bits, as the program's own Makefile gives them for this compiler."""
    ask = ("--eval", "print-strict: ; @echo $(STRICT)", "print-strict")
    given = (f"CC={shlex.join(target.compiler)}", f"CFLAGS={shlex.join(target.flags)}")
    return command_output(["make", "-s", "-C", str(program.folder), *given, *ask]).split()


def command_output(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What the command printed. Raises Refused where it does not start, fails, or takes ten minutes."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Refused(f"{command[0]}: {e}") from None
    if done.returncode:
        lines = [s for s in done.stderr.splitlines() if "error" in s.lower()] or done.stderr.splitlines()
        raise Refused(lines[0].strip() if lines else f"{command[0]} ended with status {done.returncode}")
    return done.stdout


def compile_command(target: Target, strict: Sequence[str]) -> list[str]:
    """The compiler with all flags, before files."""
    return [*target.compiler, *target.flags, *strict, *(["-fopenmp"] if target.openmp else [])]


def missing(target: Target, folder: Path) -> str | None:
    """Why the target cannot run here: nothing where a small program builds and runs."""
    for command in (target.compiler[0], *target.runner[:1]):
        if shutil.which(command) is None:
            return f"{command} is not installed ({', '.join(target.needs)})"
    source, out = folder / "hello.c", folder / "hello"
    source.write_text(_HELLO, encoding="utf-8")
    if target.refused is not None:
        return None
    try:
        command_output([*compile_command(target, ("-std=c11",)), str(source), "-o", str(out), "-lm"])
        said = command_output([*target.runner, str(out)])
    except Refused as e:
        return f"a small program does not run: {e} ({', '.join(target.needs)})"
    return None if said.strip() == "good" else "a small program computes something else"


def outcome(target: Target, programs: Sequence[Program], folder: Path) -> Outcome:
    """Builds the runtime once and each program with it, and runs every program with every thread count."""
    start = monotonic()
    reason = missing(target, folder)
    if reason is not None:
        return Outcome(target, not_run=reason)
    hashes: dict[tuple[str, int | None], str] = {}
    failures: list[str] = []
    try:
        strict = strict_flags(target, programs[0])
        objects = _runtime(target, strict, folder, any(p.generates for p in programs))
    except Refused as e:
        return _without_runtime(target, str(e))
    for program in programs:
        try:
            hashes.update(_hashes(target, program, strict, objects, folder))
        except Refused as e:
            failures.append(f"{target.name}, {program.name}: {e}")
    for program in programs:
        for threads in target.threads:
            found = hashes.get((program.name, threads), program.digest)
            if found != program.digest:
                failures.append(f"{target.name}, {program.name}, threads {threads}: {found[:SHOWN]} is not native")
    if target.refused is not None:
        failures.append(f"{target.name}: was not refused")
    return Outcome(target, hashes, tuple(failures), None, monotonic() - start)


def _without_runtime(target: Target, said: str) -> Outcome:
    if target.refused is not None and target.refused in said:
        return Outcome(target)
    return Outcome(target, failures=(f"{target.name}: {said}",))


def _runtime(target: Target, strict: Sequence[str], folder: Path, generates: bool) -> list[str]:
    """The runtime's objects for this target, made once a folder; on request those for texts too."""
    objects, runtime = [], resource_folder("runtime_c")
    for source in [
        *sorted(runtime.glob("presk_*.c")),
        *(sorted(runtime.glob("generate/presk_*.c")) if generates else ()),
    ]:
        out = folder / f"{source.stem}.o"
        if not out.exists():
            command = [*compile_command(target, strict), f"-I{runtime}", "-c", "-o", str(out), str(source)]
            command_output(command)
        objects.append(str(out))
    return objects


def _hashes(
    target: Target, program: Program, strict: Sequence[str], objects: Sequence[str], folder: Path
) -> dict[tuple[str, int | None], str]:
    """The SHA-256 of the output file, or of what was printed, by thread count."""
    executable, outputs = folder / "main", folder / "outputs.safetensors"
    units = [str(program.folder / unit) for unit in program.units]
    command_output([*compile_command(target, strict), *units, *objects, "-o", str(executable), "-lm"])
    found: dict[tuple[str, int | None], str] = {}
    for threads in target.threads:
        outputs.unlink(missing_ok=True)
        environment = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
        files = [] if program.generates else ["-o", str(outputs)]
        commands = [[*target.runner, str(executable), *command, *files] for command in program.commands]
        printed = "".join(command_output(command, environment) for command in commands)
        found[program.name, threads] = text_digest(printed) if program.generates else file_digest(outputs)
    return found


def matrix(
    programs: Sequence[Program], targets: Sequence[Target], progress: Callable[[Outcome], None] = lambda o: None
) -> list[Outcome]:
    """The outcome of each target, in order."""
    outcomes = []
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="presk-portability-") as name:
            outcomes.append(outcome(target, programs, Path(name)))
        progress(outcomes[-1])
    return outcomes


def table(programs: Sequence[Program], outcomes: Sequence[Outcome]) -> str:
    """The matrix as Markdown: a column a program, a row a target, the native run first; then what did not run."""
    head = ["target", *(p.name.replace("_", " ") for p in programs)]
    rows = [head, ["---"] * len(head), ["native run (NumPy)", *(p.digest[:SHOWN] for p in programs)]]
    for o in outcomes:
        threads = f", {' '.join(map(str, o.target.threads))} threads" if o.target.openmp else ""
        if o.not_run is None and o.target.refused is not None:
            rows.append([o.target.name, *(["FAILED" if o.failures else "refused"] * len(programs))])
        elif o.not_run is None:
            rows.append([o.target.name + threads, *(o.cell(p) for p in programs)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", *(f"Not run: {o.target.name}: {o.not_run}." for o in outcomes if o.not_run is not None)]
    return "\n".join(lines).rstrip() + "\n"


def summary(programs: Sequence[Program], outcomes: Sequence[Outcome]) -> str:
    """One line: targets, runs, and whether all are equal."""
    ran = [o for o in outcomes if o.not_run is None]
    runs = sum(len(o.hashes) for o in ran)
    bad = sum(len(o.failures) for o in ran)
    verdict = "every hash is the native run's" if bad == 0 else f"{bad} failures"
    verdict = verdict if ran else "nothing was checked"
    return f"{len(ran)} targets ran, {len(outcomes) - len(ran)} not run; {runs} runs of {len(programs)} programs: {verdict}"


def _say(o: Outcome) -> None:
    what = (
        f"not run: {o.not_run}" if o.not_run else "failed" if o.failures else "refused" if o.target.refused else "good"
    )
    print(f"{o.target.name}: {what} ({o.seconds:.0f} s)", *o.failures, sep="\n  ", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the matrix and prints the table; 1 if a cell that ran is not the native run's, or none ran."""
    parser = argparse.ArgumentParser(description="The portability matrix.")
    parser.add_argument("--only", default="", help="texts, separated by |, one of which a target's name must hold")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--programs", default="", help="the same for the names of the columns")
    options = parser.parse_args(arguments)
    targets, recipes = chosen(options.only, TARGETS), chosen(options.programs, RECIPES)
    if not targets:
        parser.error(f"no target's name holds {options.only!r}")
    if not recipes:
        parser.error(f"no program's name holds {options.programs!r}")
    with tempfile.TemporaryDirectory(prefix="presk-programs-") as name:
        programs = emitted_programs(Path(name), recipes)
        outcomes = matrix(programs, targets, _say)
    text = table(programs, outcomes) + "\n" + summary(programs, outcomes) + "\n"
    print(text, end="")
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")
    good = any(o.not_run is None for o in outcomes) and not any(o.failures for o in outcomes)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
