"""checked: emits a recording to a temporary folder, builds, runs, and compares the bytes with the native run's."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from presk_db.conformance.program import Build, built, compare_outputs, ran
from presk_db.conformance.repeated import repeated, write_outputs
from presk_db.conformance.sources import recorded_weights
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """One build that gave the native run's bytes, with its times in seconds."""

    build: Build
    straight_line: bool
    bytes: int
    build_seconds: float
    run_seconds: float


def checked(
    engine: Engine,
    recording: StoredRecording,
    builds: Sequence[Build],
    weights: str | None = None,
    *,
    straight_line: Sequence[bool] = (False,),
    threads: Sequence[int | None] = (None,),
    steps: int | None = None,
    tamper: Callable[[Path], None] | None = None,
    progress: Progress = lambda stage: None,
) -> list[Checked]:
    """Checks the recording's program under each build; `tamper` may change the emitted files first (to plant a fault).

    It runs once for each number of `threads`; None leaves the number open. With `steps`, the program repeats the entry so
    often, and so does a native run; what they give in the end is compared. Raises E1203 where the entry updates nothing,
    E7001 where it does not build, E7002 where it fails, E7003 where a byte differs, E7004 where the weights that
    the recording refers to are missing or changed.
    """
    results: list[Checked] = []
    with tempfile.TemporaryDirectory(prefix="presk-check-") as name:
        work = Path(name)
        progress("weights")
        file = recorded_weights(engine, recording, weights, work)
        if steps is not None:
            last = repeated(engine, recording, steps, weights, progress=progress)[-1]
            write_outputs(engine, recording, last, work / "expected")
        for straight in straight_line:
            folder = work / ("straight" if straight else "program")
            progress("emit")
            with emission_reader(engine, recording.id) as reader:
                emit_to(reader, recording, generator("c_program"), folder, {"straight_line": straight})
            if tamper is not None:
                tamper(folder)
            seeded = folder / "weights.safetensors"
            for number, build in enumerate(builds):
                progress(f"build {build}")
                start = perf_counter()
                program = built(folder, build, work / f"runtime-{number}" if tamper is None else None)
                middle = perf_counter()
                expected = folder / OUTPUTS if steps is None else work / "expected"
                more = () if steps is None else ("-n", str(steps))
                for count in threads:
                    progress(f"run {build}")
                    begin = perf_counter()
                    held = file or (seeded if seeded.exists() else None)
                    ran(program, held, folder / INPUTS, work / "outputs", count, more)
                    end = perf_counter()
                    size = compare_outputs(work / "outputs", expected, str(build))
                    results.append(Checked(build, straight, size, middle - start, end - begin))
    return results


INPUTS = "conformance/inputs.safetensors"
OUTPUTS = "conformance/outputs.safetensors"
