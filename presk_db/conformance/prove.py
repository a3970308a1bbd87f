"""proved: every kernel of a recording through isl; the verdicts become rows, a refuted kernel is an error."""

from collections.abc import Callable
from dataclasses import dataclass

from presk_db.conformance.polyhedral import need_isl
from presk_db.conformance.proofs import Proof, proof_of
from presk_db.errors import ProofRefuted
from presk_db.kernels.ir import Kernel
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.schedule import Schedule
from presk_db.store.engine import Engine
from presk_db.store.plans import measured_plan, read_plan_of
from presk_db.store.read import read_kernels
from presk_db.store.recordings import StoredRecording
from presk_db.store.verdicts import LaunchedKernel, Verdict, launched_kernels, write_verdicts

TOOL, STATIC = "presk", "static_control"


@dataclass(frozen=True)
class Report:
    """Each kernel with what was proved of it."""

    kernels: tuple[tuple[LaunchedKernel, Proof], ...]

    def text(self) -> str:
        """The share that is proved, and a line for each of the rest."""
        proved = [k for k, proof in self.kernels if not proof.obstacles]
        launches, all_launches = sum(k.launches for k in proved), sum(k.launches for k, _ in self.kernels)
        lines = [
            f"{len(proved)} of {len(self.kernels)} kernels proved ({_share(len(proved), len(self.kernels))}),"
            f" {launches} of {all_launches} launches ({_share(launches, all_launches)}): each access in bounds, the units"
            " of each schedule disjoint and covering the output, no element read before it is written"
        ]
        for kernel, proof in self.kernels:
            lines += [f"{kernel.label} {kernel.digest[:16]}: {reason}" for reason in proof.obstacles]
        return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    """`96.8 %`, rounded down: all is 100.0 % alone."""
    tenths = 1000 * part // whole if whole else 1000
    return f"{tenths // 10}.{tenths % 10} %"


def proved(engine: Engine, recording: StoredRecording, progress: Callable[[str], None] = lambda stage: None) -> Report:
    """Proves what can be proved of the recording's kernels and keeps the verdicts.

    Raises ProofUnavailable (E7020) without islpy, ProofRefuted (E7021) with the first kernel that is refuted.
    """
    need_isl()
    planned: dict[str, list[Schedule]] = {}
    for p in (*read_plan_of(engine, recording.id), *measured_plan(engine, recording.id)):
        planned.setdefault(p.kernel, []).append(p.schedule)
    launched = launched_kernels(engine, recording.id)
    kernels = {k.digest: k for k in read_kernels(engine, recording.id)}
    found = []
    for k in launched:
        progress(f"proof of {k.label}")
        found.append((k, proof_of(kernels[k.digest], _schedules(kernels[k.digest], planned.get(k.digest, [])))))
    write_verdicts(engine, [v for k, proof in found for v in _verdicts(k.digest, proof)])
    for k, proof in found:
        for reason in proof.counterexamples:
            raise ProofRefuted(reason, f"{k.label} {k.digest[:16]}")
    return Report(tuple(found))


def _schedules(kernel: Kernel, planned: list[Schedule]) -> list[Schedule]:
    """Point zero, the default schedules, and those of plans."""
    return [Schedule(), default_schedule(kernel), default_schedule(kernel, packed=True), *planned]


def _verdicts(digest: str, proof: Proof) -> list[Verdict]:
    reason = "; ".join(proof.obstacles) or None
    static = Verdict(digest, TOOL, STATIC, not proof.obstacles, reason)
    return [static, *(Verdict(digest, TOOL, name, why is None, why) for name, why in proof.refuted)]
