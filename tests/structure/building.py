"""Programs from recordings: emitted both ways, built with shared runtime objects, run in a traced arena."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pipeline
from sqlalchemy import Engine

from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.recording.events import Recording
from presk_db.resources import resource_folder
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import reading
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import StoredRecording

STRICT = ("-std=c11", "-ffp-contract=off", "-DPRESK_TRACE_ARENA", "-DPRESK_PREFIX=net_")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
GENERATED = ("model", "kernels", "main")

GPT2 = {**pipeline.GPT2, "n_layer": 3}
LLAMA = {**pipeline.LLAMA, "num_hidden_layers": 3}


@dataclass
class Runtime:
    """presk's own objects, compiled once a session: the same for every program, since all are named `net`."""

    folder: Path
    objects: list[str] = field(default_factory=list)

    def made(self) -> list[str]:
        """The objects' paths."""
        if not self.objects:
            for source in sorted(resource_folder("runtime_c").glob("presk_*.c")):
                target = str(self.folder / f"{source.stem}.o")
                compiled(["-O1", "-c", "-o", target, str(source)])
                self.objects.append(target)
        return self.objects


def compiled(arguments: Sequence[str], compiler: str = "cc") -> None:
    """Runs the compiler, which must have nothing to say."""
    result = subprocess.run([compiler, *STRICT, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and not result.stderr, result.stderr[:4000]


def emitted_to(engine: Engine, recording: StoredRecording, folder: Path, straight_line: bool = False) -> Path:
    """The recording's files in the folder."""
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), folder, {"straight_line": straight_line})
    return folder


def objects_of(folder: Path, flags: Sequence[str] = ("-O1",)) -> list[str]:
    """The program's own objects, compiled without a warning."""
    for name in GENERATED:
        compiled([*flags, *WARNINGS, "-c", "-o", str(folder / f"{name}.o"), str(folder / f"{name}.c")])
    return [str(folder / f"{name}.o") for name in GENERATED]


def linked(folder: Path, runtime: Runtime, flags: Sequence[str] = ("-O1",)) -> Path:
    """The program's executable."""
    compiled([*flags, *objects_of(folder, flags), *runtime.made(), "-lm", "-o", str(folder / "main")])
    return folder / "main"


def run_program(
    folder: Path, before: Sequence[str] = (), weights: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs ./main on the recorded inputs; its output is FOLDER/out."""
    weights = weights or folder / "weights.safetensors"
    command = [*before, str(folder / "main"), "-i", str(folder / "conformance/inputs.safetensors")]
    command += ["-o", str(folder / "out"), *(["-w", str(weights)] if weights.exists() else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def equals(folder: Path) -> bool:
    """Whether the last run gave the native run's file."""
    return (folder / "out").read_bytes() == (folder / "conformance/outputs.safetensors").read_bytes()


def peak_of(stderr: str) -> tuple[int, int]:
    """The traced peak, and the planned bytes."""
    found = re.search(r"arena peak (\d+) of (\d+) bytes", stderr)
    assert found, stderr
    return int(found[1]), int(found[2])


def run_equal(folder: Path, runtime: Runtime, flags: Sequence[str] = ("-O1",)) -> tuple[int, int]:
    """Builds and runs; asserts the native bytes; the peak and the plan."""
    linked(folder, runtime, flags)
    result = run_program(folder)
    assert result.returncode == 0, result.stderr
    assert equals(folder)
    return peak_of(result.stderr)


def check_both(engine: Engine, recording: StoredRecording, work: Path, runtime: Runtime) -> str:
    """Structured and straight-line give the native file, in an arena of NaNs whose peak is the plan's; model.c."""
    straight = emitted_to(engine, recording, work / "straight", True)
    run_equal(straight, runtime)
    folder = emitted_to(engine, recording, work / "program")
    peak, planned = run_equal(folder, runtime)
    (row,) = query(engine, "select bytes from arenas where recording_id = :r", recording)
    assert peak == planned_use(engine, recording) and peak <= planned == row[0]
    assert planned - peak < 64
    assert (folder / "out").read_bytes() == (straight / "out").read_bytes()
    return (folder / "model.c").read_text()


def planned_use(engine: Engine, recording: StoredRecording) -> int:
    """The end of the highest temporary: the plan less the rounding of the last one's size."""
    sql = "select coalesce(max(offset + bytes), 0) from arena_map where recording_id = :r"
    return int(query(engine, sql, recording)[0][0])


def query(engine: Engine, sql: str, recording: StoredRecording) -> list[tuple[Any, ...]]:
    """Rows of a query with `:r`."""
    with reading(engine) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(sql, {"r": recording.id})]


def write_config(folder: Path, config: Mapping[str, Any]) -> str:
    """A config.json; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder / "config.json")


def run_of(target: str, **flags: Any) -> Recording:
    """A native run."""
    return recorded(spec_from(target, {"name": "net", **flags}))


def stored(engine: Engine, target: str, **flags: Any) -> StoredRecording:
    """A native run in the database."""
    return write_recording(engine, run_of(target, **flags))
