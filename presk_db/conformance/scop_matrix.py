"""python -m presk_db.conformance.scop_matrix [PAGE]: the matrix nest x tool of five programs, as rows and as a page.

From the structure alone of the course GPT's training step and of SmolLM2 (whole), and from the entry with every primitive:
which nests are static control, by presk's proof and by Polly. The table takes the place of what stands in the page below
the line `<!-- the matrix -->`; without a page it is printed.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from presk_db.conformance.portability_programs import RECIPES, recorded_recipe
from presk_db.conformance.scop import Judged, scop_checked, summary_line
from presk_db.conformance.unrun import unrun
from presk_db.recording.events import Recording
from presk_db.resources import resource_folder
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

MARK = "<!-- the matrix -->\n"


def programs(folder: Path) -> Iterator[tuple[str, Callable[[], Recording]]]:
    """Titles, and how to make the recordings; `folder` is for inputs."""
    fixtures = resource_folder("fixtures")
    course = json.loads((fixtures / "course_gpt/config.json").read_text(encoding="utf-8"))
    smollm2 = json.loads((fixtures / "smollm2/config.json").read_text(encoding="utf-8"))
    dims = {"B": 1, "T": 256}
    yield "course GPT, train_step, f32", lambda: unrun(course, dims, "f32", "course", "train_step")
    yield "SmolLM2, forward, bf16", lambda: unrun(smollm2, dims, "bf16", "smollm2", "forward")
    yield "SmolLM2, decode, bf16", lambda: unrun(smollm2, {"B": 1, "T": 256}, "bf16", "smollm2", "decode")
    yield "SmolLM2, loss_grad, f32", lambda: unrun(smollm2, dims, "f32", "smollm2", "loss_grad")
    recipe = next(r for r in RECIPES if r.name == "primitives_f32")
    yield "every primitive, f32", lambda: recorded_recipe(recipe, folder)


def matrix_text(folder: Path, clang: str = "clang-19") -> str:
    """The tables as Markdown. Raises what `scop_checked` raises."""
    engine = open_database(str(folder / "scop.db"), create=True)
    lines: list[str] = []
    for title, recording in programs(folder):
        stored = write_recording(engine, recording())
        found = scop_checked(engine, stored, clang)
        lines += [f"### {title}", "", f"{summary_line(found)}.", "", *_rows(found), ""]
    engine.dispose()
    return "\n".join(lines)


def _rows(found: tuple[Judged, ...]) -> list[str]:
    """A row a nest: a tool's column is empty where it is static control, else the reason."""
    rows = ["| nest | launches | presk | Polly |", "|---|---|---|---|"]
    for j in found:
        cells = ["static control" if said is None else said.replace("|", "\\|") for said in (j.presk, j.polly)]
        rows.append(f"| `{j.nest}` | {j.kernel.launches} | {cells[0]} | {cells[1]} |")
    return rows


def main() -> None:
    """Writes the page, or prints the tables."""
    with tempfile.TemporaryDirectory(prefix="presk-scop-") as work:
        text = matrix_text(Path(work))
    if len(sys.argv) < 2:
        print(text, end="")
        return
    page = Path(sys.argv[1])
    head = page.read_text(encoding="utf-8").partition(MARK)[0]
    page.write_text(f"{head}{MARK}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
