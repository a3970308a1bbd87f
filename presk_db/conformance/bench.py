"""benchmarked: a recording's program timed launch by launch, beside the machine's limits and PyTorch, in turn."""

import json
import os
import shlex
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from presk_db.conformance import bench_torch
from presk_db.conformance.limits import LIMITS, Limits, limits_from
from presk_db.conformance.plan import STRICT, compiler_version, cpu_model
from presk_db.conformance.program import Build, built
from presk_db.conformance.sources import recorded_weights
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import BuildFailed, ProgramFailed
from presk_db.resources import resource_folder
from presk_db.store.benchmarks import Benchmark, write_benchmark
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording

Progress = Callable[[str, int, int], None]

ENTRIES = ("forward", "loss", "loss_grad", "train_step", "train_step_sgd")
"""The entries that PyTorch runs, too."""

FAMILIES = ("gpt2", "llama")

FARTHEST = 0.05
"""How far a rival's outputs may be from the recorded ones, over the largest of them: it must do the same work."""


@dataclass(frozen=True)
class Settings:
    """How to measure: the compiler, the user's flags, numbers of threads, rounds, runs a round, and a Python with torch.

    Without `torch` the program runs alone. `plan` takes the best measured schedules.
    """

    compiler: str = "cc"
    flags: str = "-O3 -march=native"
    threads: tuple[int, ...] = (1, 2)
    rounds: int = 5
    runs: int = 3
    torch: str | None = None
    plan: bool = False


@dataclass(frozen=True)
class Program:
    """What is run: the executable, its weights, its inputs, where its outputs go."""

    main: Path
    weights: Path | None
    inputs: Path
    work: Path


def benchmarked(
    engine: Engine,
    recording: StoredRecording,
    settings: Settings,
    weights: str | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Benchmark, ...]:
    """Emits, builds with -DPRESK_PROFILE, measures, and writes a benchmark for each number of threads; returns them.

    In each round the limits, the program and every rival take their turn; times are medians over all rounds.

    Raises:
        BuildFailed (E7001), ProgramFailed (E7002), WeightsNotFound (E7004): as a check does; a rival that does not run.
    """
    with tempfile.TemporaryDirectory(prefix="presk-bench-") as name:
        work = Path(name)
        folder = work / "program"
        progress("emit", 0, 0)
        file = recorded_weights(engine, recording, weights, work)
        with emission_reader(engine, recording.id) as reader:
            emit_to(reader, recording, generator("c_program"), folder, {"plan": settings.plan})
        progress("build", 0, 0)
        main = built(folder, Build(settings.compiler, f"{settings.flags} -DPRESK_PROFILE"))
        seeded = folder / "weights.safetensors"
        program = Program(
            main, file or (seeded if seeded.exists() else None), folder / "conformance/inputs.safetensors", work
        )
        limits = limits_program(work, settings)
        results = []
        for threads in settings.threads:
            with ExitStack() as stack:
                rival = None
                if settings.torch is not None and recording.entry in ENTRIES and recording.family in FAMILIES:
                    progress(f"torch, {threads} threads", 0, 0)
                    job = _job(recording, program, folder)
                    rival = stack.enter_context(_rival(settings.torch, work, job, threads))
                result = _rounds(program, limits, rival, threads, settings, progress)
            write_benchmark(engine, recording.id, result)
            results.append(result)
    return tuple(results)


def _rounds(
    program: Program,
    limits: Path,
    rival: "Rival | None",
    threads: int,
    settings: Settings,
    progress: Progress,
) -> Benchmark:
    launches: defaultdict[int, list[int]] = defaultdict(list)
    whole: list[int] = []
    rivals: defaultdict[str, list[float]] = defaultdict(list)
    seen: list[Limits] = []
    for number in range(settings.rounds):
        progress(f"{threads} threads", number, settings.rounds)
        seen.append(limits_from(_output([str(limits)], threads)))
        runs, times = profiled(program, threads, settings.runs)
        whole += runs
        for operation, taken in times.items():
            launches[operation] += taken
        for name in rival.names if rival is not None else ():
            assert rival is not None
            rivals[name] += rival.seconds(name, settings.runs)
    return Benchmark(
        compiler=compiler_version(settings.compiler),
        flags=settings.flags,
        cpu=cpu_model(),
        threads=threads,
        runs=len(whole),
        nanoseconds=int(median(whole)),
        operations=int(median(s.operations for s in seen)),
        bytes=int(median(s.bytes for s in seen)),
        launches={n: int(median(taken)) for n, taken in sorted(launches.items())},
        rivals={name: int(1e9 * median(taken)) for name, taken in rivals.items()},
    )


def profiled(program: Program, threads: int, runs: int) -> tuple[list[int], dict[int, list[int]]]:
    """Nanoseconds of each whole run after a first one, and of each launch in each of them."""
    profile = program.work / "profile"
    command = [str(program.main), "-i", str(program.inputs), "-o", str(program.work / "outputs")]
    command += ["-p", str(profile), "-r", str(runs)]
    if program.weights is not None:
        command += ["-w", str(program.weights)]
    _output(command, threads)
    whole: list[int] = []
    launches: list[int] = []
    for line in profile.read_text(encoding="ascii").splitlines():
        name, taken = line.split()
        (whole if name == "run" else launches).append(int(taken))
    count = len(launches) // len(whole)
    return whole, {n: launches[n::count] for n in range(count)}


def _output(command: Sequence[str], threads: int) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise ProgramFailed(said[-1], Path(command[0]).name)
    return done.stdout


def limits_program(work: Path, settings: Settings) -> Path:
    """Builds the program that measures the limits, with OpenMP where the compiler has it."""
    source, program, runtime = work / "limits.c", work / "limits", resource_folder("runtime_c")
    source.write_text(LIMITS, encoding="utf-8")
    files = [
        str(source),
        *(str(p) for p in sorted(runtime.glob("presk_rt*.c")) + sorted(runtime.glob("presk_math*.c"))),
    ]
    command = [*shlex.split(settings.compiler), *shlex.split(settings.flags), *STRICT, f"-I{runtime}"]
    command += ["-o", str(program), *files, "-lm"]
    for openmp in (["-fopenmp"], []):
        done = subprocess.run([*command, *openmp], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return program
    lines = [line for line in done.stderr.splitlines() if "error" in line] or ["it failed"]
    raise BuildFailed(lines[0][:200], settings.compiler)


# --- PyTorch ------------------------------------------------------------------------------------------------------


def _job(recording: StoredRecording, program: Program, folder: Path) -> dict[str, Any]:
    return {
        "family": recording.family,
        "entry": recording.entry,
        "config": json.loads(recording.spec)["model"]["config"],
        "weights": None if program.weights is None else str(program.weights),
        "inputs": str(program.inputs),
        "outputs": str(folder / "conformance/outputs.safetensors"),
    }


class Rival:
    """A process with PyTorch's variants of the entry: `names`, with their distance from the recorded outputs."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process, self.log = process, log
        self.distance: Mapping[str, float | None] = json.loads(self._line())
        self.names = tuple(self.distance)
        for name, distance in self.distance.items():
            if distance is not None and not distance < FARTHEST:
                raise ProgramFailed(
                    f"{name} computes something else: it is {distance:.2g} of the largest output away", "torch"
                )

    def seconds(self, name: str, runs: int) -> list[float]:
        """The times of so many runs."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{runs} {name}\n")
        self.process.stdin.flush()
        return [float(s) for s in json.loads(self._line())]

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it ended"]
            raise ProgramFailed(said[-1][:300], "torch")
        return line


@contextmanager
def _rival(python: str, work: Path, job: Mapping[str, Any], threads: int) -> Iterator[Rival]:
    """The process, until the block ends. Raises ProgramFailed (E7002) where torch does not run there."""
    (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
    log = work / "torch.log"
    command = [*shlex.split(python), str(Path(bench_torch.__file__)), str(work), str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment.pop("PYTHONPATH", None)  # what is there belongs to this Python
    with log.open("w", encoding="utf-8") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
        except OSError as e:
            raise ProgramFailed(f"cannot run it: {e.strerror}", python) from None
        with process:
            try:
                yield Rival(process, log)
            finally:
                process.terminate()
