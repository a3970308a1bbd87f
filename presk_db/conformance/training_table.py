"""python -m presk_db.conformance.training_table: the memory of gradients and training steps, with and without --remat.

Of the course GPT at B=4, T=256 and of SmolLM2 at B=1, T=32, from their structure alone; nothing is run. The numbers are
rows of the database: `presk query arena_peak` and `presk query dead_launches` give them for a recording.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from presk_db.conformance.unrun import unrun
from presk_db.store.engine import Engine, open_database
from presk_db.store.ingest import write_recording
from presk_db.store.query import answer, query_sql
from presk_db.store.recordings import summary

HEAD = ("program", "entry", "remat", "launches", "dead", "temporaries", "arena bytes", "live bytes", "at the peak")


def table(fixtures: Path, engine: Engine) -> list[tuple[str, ...]]:
    """The rows of the table, under HEAD."""
    course = json.loads((fixtures / "course_gpt/config.json").read_text(encoding="utf-8"))
    smollm2 = json.loads((fixtures / "smollm2/config.json").read_text(encoding="utf-8"))
    found: list[tuple[str, ...]] = []
    for title, config, dims, entries in (
        ("course GPT", course, {"B": 4, "T": 256}, ("loss_grad", "train_step")),
        ("SmolLM2, 30 layers", smollm2, {"B": 1, "T": 32}, ("loss_grad",)),
    ):
        for entry in entries:
            for remat in (False, True):
                found.append((title, entry, "yes" if remat else "no", *_numbers(engine, config, dims, entry, remat)))
    return found


def _numbers(
    engine: Engine, config: Mapping[str, Any], dims: Mapping[str, int], entry: str, remat: bool
) -> tuple[str, ...]:
    recording = write_recording(engine, unrun(config, dims, "f32", "net", entry, remat))
    s = summary(engine, recording.id)
    ((planned, live, _, label),) = answer(engine, query_sql("arena_peak"), recording.id).rows
    dead = len(answer(engine, query_sql("dead_launches"), recording.id).rows)
    return (
        str(s.launches),
        str(dead),
        *(f"{n:,}".replace(",", " ") for n in (s.temp_bytes, planned, live)),
        str(label),
    )


def main() -> None:
    """Prints the table as Markdown; the argument is the folder of fixtures [default: fixtures]."""
    fixtures = Path(sys.argv[1] if len(sys.argv) > 1 else "fixtures")
    with tempfile.TemporaryDirectory(prefix="presk-training-") as work:
        rows = table(fixtures, open_database(str(Path(work) / "table.db"), create=True))
    for row in (HEAD, ("---",) * len(HEAD), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
