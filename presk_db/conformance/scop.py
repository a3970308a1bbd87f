"""scop_checked: presk's verdict on each nest beside Polly's; both become rows, a difference is an error."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from presk_db.conformance.polly import polly_verdicts
from presk_db.conformance.prove import STATIC, TOOL, proved
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import ScopsDisagree
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine
from presk_db.store.recordings import StoredRecording
from presk_db.store.verdicts import LaunchedKernel, Verdict, write_verdicts

POLLY = "polly"


@dataclass(frozen=True)
class Judged:
    """A kernel, its nest's name, and why presk and Polly do not take it for static control; None where they do."""

    kernel: LaunchedKernel
    nest: str
    presk: str | None
    polly: str | None


def scop_checked(
    engine: Engine,
    recording: StoredRecording,
    clang: str = "clang-19",
    tamper: Callable[[Path], None] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> tuple[Judged, ...]:
    """Both verdicts on each nest of the recording, in order; `tamper` may change the emitted files first.

    Raises ProofUnavailable (E7020) without islpy, ProofRefuted (E7021), BuildFailed (E7001) without Polly,
    ScopsDisagree (E7022) with the first nest on which the two differ.
    """
    report = proved(engine, recording, progress)
    with tempfile.TemporaryDirectory(prefix="presk-scop-") as name:
        folder = Path(name) / "nests"
        progress("emit")
        with emission_reader(engine, recording.id) as reader:
            emit_to(reader, recording, generator("scop"), folder, {})
        if tamper is not None:
            tamper(folder)
        progress("Polly")
        said = polly_verdicts(folder, clang)
    found = tuple(
        Judged(kernel, nest, "; ".join(proof.obstacles) or None, refusal)
        for (kernel, proof), (nest, refusal) in zip(report.kernels, said.items(), strict=True)
    )
    rows = [Verdict(j.kernel.digest, POLLY, STATIC, j.polly is None, j.polly) for j in found]
    write_verdicts(engine, rows)
    for j in found:
        if (j.presk is None) != (j.polly is None):
            ours, theirs = j.presk or "static control", j.polly or "a SCoP"
            raise ScopsDisagree(f"{TOOL} says: {ours}; Polly says: {theirs}", f"{j.nest} {j.kernel.digest[:16]}")
    return found


def summary_line(found: tuple[Judged, ...]) -> str:
    """`70 nests: presk and Polly agree on each; 68 are static control`."""
    static = sum(j.presk is None for j in found)
    return f"{len(found)} nests: presk and Polly agree on each; {static} are static control"
