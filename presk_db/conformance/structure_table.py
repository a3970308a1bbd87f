"""python -m presk_db.conformance.structure_table: the structured program beside the straight-line one, as a table.

Emits the course GPT and SmolLM2 (whole, and cut to 3 layers) from their structure alone and compiles them: lines of C,
bytes of machine code, compile and emission time, launches, arena. Nothing is run.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from presk_db.conformance.unrun import unrun
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import BuildFailed
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine, open_database
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import summary

C_LINES_WITHIN = 0.05
"""How much the lines of C of a deep model may differ from those of the same model cut to 3 layers."""

GENERATED = ("model.c", "kernels.c", "main.c", "model.h", "kernels.h")
FLAGS = ("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-O2")
HEAD = ("program", "form", "C lines", "emit s", "compile s", "code bytes", "launches", "arena bytes", "live bytes")


def lines_of(folder: Path) -> int:
    """The lines of the files that are the program's own: presk's runtime is the same for all."""
    return sum(len((folder / name).read_text(encoding="utf-8").splitlines()) for name in GENERATED)


def table(fixtures: Path, work: Path) -> list[tuple[str, ...]]:
    """The rows of the table, under HEAD."""
    course = json.loads((fixtures / "course_gpt/config.json").read_text(encoding="utf-8"))
    smollm2 = json.loads((fixtures / "smollm2/config.json").read_text(encoding="utf-8"))
    engine = open_database(str(work / "table.db"), create=True)
    found: list[tuple[str, ...]] = []
    for type_ in ("f64", "f32", "bf16"):
        found += _rows(engine, work, f"course GPT {type_}", course, type_)
    found += _rows(engine, work, "SmolLM2, 30 layers", smollm2, "f32")
    found += _rows(engine, work, "SmolLM2, 3 layers", smollm2 | {"num_hidden_layers": 3}, "f32")
    return found


def _rows(engine: Engine, work: Path, title: str, config: Mapping[str, Any], type_: str) -> list[tuple[str, ...]]:
    recording = write_recording(engine, unrun(config, {"B": 1, "T": 256}, type_, "net"))
    s = summary(engine, recording.id)
    rows: list[tuple[str, ...]] = []
    for straight in (False, True):
        folder = work / f"{recording.id}-{straight}"
        start = perf_counter()
        with emission_reader(engine, recording.id) as reader:
            emit_to(reader, recording, generator("c_program"), folder, {"straight_line": straight})
        emitted = perf_counter() - start
        seconds, code = _compiled(folder)
        arena = s.temp_bytes if straight else s.arena_bytes or 0
        live = "" if straight else _grouped(_live_bytes(engine, recording.id))
        form = "straight-line" if straight else "structured"
        numbers = (f"{lines_of(folder)}", f"{emitted:.1f}", f"{seconds:.1f}", _grouped(code), f"{s.launches}")
        rows.append((title, form, *numbers, _grouped(arena), live))
    return rows


def _live_bytes(engine: Engine, recording_id: int) -> int:
    with emission_reader(engine, recording_id) as reader:
        ((live,),) = reader.rows("select live_bytes from arenas where recording_id = :recording", {})
    return int(live)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _compiled(folder: Path) -> tuple[float, int]:
    """The seconds that the program's own files take at -O2, and the bytes of their machine code."""
    start = perf_counter()
    objects = []
    for name in ("model", "kernels", "main"):
        objects.append(str(folder / f"{name}.o"))
        command = ["cc", *FLAGS, "-c", "-o", objects[-1], str(folder / f"{name}.c")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise BuildFailed((result.stderr.splitlines() or ["cc failed"])[0], name)
    seconds = perf_counter() - start
    sizes = subprocess.run(["size", *objects], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return seconds, sum(int(line.split()[0]) for line in sizes)


def main() -> None:
    """Prints the table as Markdown; the argument is the folder of fixtures [default: fixtures]."""
    fixtures = Path(sys.argv[1] if len(sys.argv) > 1 else "fixtures")
    with tempfile.TemporaryDirectory(prefix="presk-structure-") as work:
        rows = table(fixtures, Path(work))
    for row in (HEAD, ("---",) * len(HEAD), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
