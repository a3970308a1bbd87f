"""What tests of generation share: a small recorded step, and its emitted `generate`, built."""

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import Said, config_file
from sqlalchemy import Engine

from presk_db.conformance.program import Build, built
from presk_db.emit.emission import Chunk, emit_to
from presk_db.emit.generator import generator
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import StoredRecording


class Step(NamedTuple):
    """A recording of a step in a database, and the spec's target."""

    engine: Engine
    recording: StoredRecording


def recorded_step(folder: Path, config: dict[str, Any], **flags: Any) -> Step:
    """The step that a config describes, recorded into a new database."""
    folder.mkdir(exist_ok=True)
    engine = open_database(str(folder / "presk.db"), create=True)
    given = {"entry": "decode", "name": "tiny", **flags}
    return Step(engine, write_recording(engine, recorded(spec_from(config_file(folder, config), given))))


def emitted_step(
    step: Step, folder: Path, compiler: str = "cc", straight_line: bool = False, chunk: Chunk | None = None
) -> Path:
    """The folder of the emitted program, with `generate` in it, built."""
    options = {"serve": True, "straight_line": straight_line}
    with emission_reader(step.engine, step.recording.id) as reader:
        emit_to(reader, step.recording, generator("c_program"), folder, options, chunk=chunk)
    built(folder, Build(compiler, "-O1"), target="generate")
    return folder


def said(folder: Path, *arguments: str, stdin: bytes = b"") -> Said:
    """What `generate` says to these arguments, with its seeded weights."""
    drawn = (folder / "weights.safetensors").exists() and "-w" not in arguments
    command = ["./generate", *(["-w", "weights.safetensors"] if drawn else []), *arguments]
    done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=60, check=False)
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())
