"""Rows of kernel_verdicts: what a tool says of a kernel, property by property."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, text

from presk_db.store.engine import reading, writing

_INSERT = text(
    "insert or replace into kernel_verdicts (kernel_id, tool, property, holds, reason)"
    " select id, :tool, :property, :holds, :reason from kernels where digest = :kernel"
)

_LAUNCHED = text(
    "select k.digest, min(o.label) as label, count(*) as launches from launches l"
    " join kernels k on k.id = l.kernel_id"
    " join operations o on o.recording_id = l.recording_id and o.number = l.operation"
    " where l.recording_id = :recording group by k.digest order by min(l.operation)"
)


@dataclass(frozen=True)
class Verdict:
    """Whether a kernel, by its digest, has a property; the reason where it has not. `tool` says so."""

    kernel: str
    tool: str
    property: str
    holds: bool
    reason: str | None


@dataclass(frozen=True)
class LaunchedKernel:
    """A kernel of a recording: a label of its launches, and their number."""

    digest: str
    label: str
    launches: int


def write_verdicts(engine: Engine, verdicts: Sequence[Verdict]) -> None:
    """Adds the verdicts, or replaces those that a tool gave before, in one transaction."""
    with writing(engine) as connection:
        if verdicts:
            connection.execute(_INSERT, [vars(v) | {"holds": int(v.holds)} for v in verdicts])


def launched_kernels(engine: Engine, recording_id: int) -> tuple[LaunchedKernel, ...]:
    """The kernels of a recording, in order of their first launch."""
    with reading(engine) as connection:
        return tuple(LaunchedKernel(*row) for row in connection.execute(_LAUNCHED, {"recording": recording_id}))
