"""planned: candidate schedules of a recording's kernels, compiled and timed side by side."""

import platform
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from presk_db.conformance.bench_source import candidates_source
from presk_db.emit.schedules import packed_kernels
from presk_db.errors import BuildFailed, ProgramFailed
from presk_db.kernels.ir import Kernel
from presk_db.kernels.plan_file import Measured, Plan, Planned
from presk_db.kernels.plans import candidate_schedules, pieces_of
from presk_db.kernels.schedule import Schedule
from presk_db.resources import resource_folder
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine
from presk_db.store.plans import write_measurements
from presk_db.store.read import read_kernels
from presk_db.store.recordings import StoredRecording

STRICT = ("-std=c11", "-ffp-contract=off", "-fno-math-errno")
"""The flags that make the bits, as in an emitted Makefile."""

FEWEST_PIECES = 8
"""A schedule that leaves fewer pieces than this, and than the default, would cost threads: it is not measured."""

Progress = Callable[[str, int, int], None]


def planned(
    engine: Engine,
    recording: StoredRecording,
    compiler: str = "cc",
    flags: str = "-O3 -march=native",
    seconds: float = 1.0,
    progress: Progress = lambda stage, done, total: None,
) -> Plan:
    """Times the candidates of each distinct kernel, writes every measurement into the database, and returns them all.

    Times are one thread's own, medians of rounds in which all candidates take turns; the default is the first of them.

    Args:
        engine: the database.
        recording: whose kernels.
        compiler: a C compiler.
        flags: the user's, beside those that make the bits.
        seconds: of measuring, a kernel; three rounds are made in any case.
        progress: is called with the number of kernels done and their total.

    Raises:
        BuildFailed (E7001), ProgramFailed (E7002): the compiler refused a kernel, or it did not run.
        DatabaseWriteFailed (E5004).
    """
    kernels = read_kernels(engine, recording.id)
    with emission_reader(engine, recording.id) as reader:
        packed = packed_kernels(reader)
    found: list[Planned] = []
    with tempfile.TemporaryDirectory(prefix="presk-plan-") as name:
        bench = CandidateBench(Path(name), compiler, flags)
        for number, kernel in enumerate(kernels):
            progress("kernels", number, len(kernels))
            measured = bench.measured(kernel, candidates(kernel, kernel.digest in packed), seconds)
            write_measurements(engine, measured)
            found += measured
    return tuple(found)


def candidates(kernel: Kernel, packed: bool) -> tuple[Schedule, ...]:
    """The candidates that keep enough pieces for threads, the default first."""
    default, *others = candidate_schedules(kernel, packed)
    fewest = min(pieces_of(kernel, default), FEWEST_PIECES)
    return (default, *(s for s in others if pieces_of(kernel, s) >= fewest))


class CandidateBench:
    """A folder with the runtime's objects by one compiler, in which programs are built and run."""

    def __init__(self, folder: Path, compiler: str, flags: str) -> None:
        self.folder, self.flags = folder, flags
        self.runtime = resource_folder("runtime_c")
        self.command = [*shlex.split(compiler), *shlex.split(flags), *STRICT, f"-I{self.runtime}"]
        self.compiler, self.cpu = compiler_version(compiler), cpu_model()
        self.objects: list[str] = []
        for file in sorted([*self.runtime.glob("presk_rt*.c"), *self.runtime.glob("presk_math*.c")]):
            made = str(folder / f"{file.stem}.o")
            self._build(["-c", "-o", made, str(file)])
            self.objects.append(made)

    def _build(self, arguments: Sequence[str]) -> None:
        try:
            done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=False)
        except OSError as e:
            raise BuildFailed(f"cannot run it: {e.strerror}", self.command[0]) from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or ["it failed"]
            raise BuildFailed(lines[0][:200], " ".join([self.command[0], self.flags]))

    def measured(self, kernel: Kernel, schedules: Sequence[Schedule], seconds: float) -> tuple[Planned, ...]:
        """What was measured of each schedule."""
        file, program = self.folder / "bench.c", self.folder / "bench"
        file.write_text(candidates_source(kernel, schedules, seconds), encoding="utf-8")
        self._build(["-o", str(program), str(file), *self.objects, "-lm"])
        ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ProgramFailed(f"the measurement ended with status {ran.returncode}", f"kernel {kernel.digest[:16]}")
        rows = [[max(int(field), 1) for field in line.split()[1:]] for line in ran.stdout.splitlines()]
        return tuple(
            Planned(kernel.digest, s, (Measured(time, rows[0][0], runs, self.compiler, self.flags, self.cpu),))
            for s, (time, runs) in zip(schedules, rows, strict=True)
        )


def compiler_version(compiler: str) -> str:
    """The first line that the compiler says of its version. Raises BuildFailed (E7001) where it does not start."""
    try:
        said = subprocess.run([*shlex.split(compiler), "--version"], capture_output=True, text=True, check=False)
    except OSError as e:
        raise BuildFailed(f"cannot run it: {e.strerror}", compiler) from None
    return (said.stdout.splitlines() or [compiler])[0]


def cpu_model() -> str:
    """The processor's model name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
