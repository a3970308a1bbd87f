"""otherwise_checked: what `presk check` says when it is asked for something else than the bytes of a program."""

from presk_db.cli.progress import Progress
from presk_db.conformance.exact import exact_report
from presk_db.conformance.prove import proved
from presk_db.conformance.scop import scop_checked, summary_line
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording


def otherwise_checked(kind: str, engine: Engine, recording: StoredRecording, weights: str | None) -> str:
    """The report of `exact`, `prove` or `scop`, ending in a newline."""
    with Progress() as progress:
        match kind:
            case "exact":
                return exact_report(engine, recording, weights, progress).text()
            case "prove":
                return proved(engine, recording, progress).text()
            case _:
                return summary_line(scop_checked(engine, recording, progress=progress)) + "\n"
