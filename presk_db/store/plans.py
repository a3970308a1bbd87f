"""Rows of plans: what was measured, the plan that the queries make of it, and the one that a recording was given."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Engine, text

from presk_db.errors import PlanBad, PlanMissing
from presk_db.kernels.plan_file import Measured, Plan, Planned
from presk_db.kernels.schedule import parse_schedule
from presk_db.store.engine import reading, writing
from presk_db.store.recordings import StoredRecording

_VALUES = "nanoseconds, default_nanoseconds, runs, compiler, flags, cpu"

_BEST = f"""
select k.digest, p.schedule, {", ".join(f"m.{name}" for name in _VALUES.split(", "))}
from measured_plans p
join kernels k on k.id = p.kernel_id
join measurements m on m.kernel_id = p.kernel_id and m.packed = p.packed and m.schedule = p.schedule
where p.kernel_id in (select kernel_id from launches where recording_id = :recording)
order by k.digest, p.packed, m.id
"""

_INSERT = f"""
insert into measurements (kernel_id, packed, schedule, {_VALUES})
select k.id, :packed, :schedule, {", ".join(f":{name}" for name in _VALUES.split(", "))}
from kernels k
where k.digest = :kernel and not exists (
  select 1 from measurements m
  where m.kernel_id = k.id and m.schedule = :schedule
    and ({", ".join(f"m.{name}" for name in _VALUES.split(", "))})
      = ({", ".join(f":{name}" for name in _VALUES.split(", "))}))
"""


def write_measurements(engine: Engine, plan: Iterable[Planned]) -> None:
    """Adds what was measured of these schedules, in one transaction; a row that is there already is not added again."""
    rows = [
        {"kernel": p.kernel, "packed": int(p.packed), "schedule": p.schedule.text, **vars(m)}
        for p in plan
        for m in p.measured
    ]
    with writing(engine) as connection:
        if rows:
            connection.execute(text(_INSERT), rows)


def measured_plan(engine: Engine, recording_id: int) -> Plan:
    """The best measured schedule of each of the recording's kernels, with what was measured of it."""
    with reading(engine) as connection:
        rows = connection.execute(text(_BEST), {"recording": recording_id}).all()
    groups = groupby(rows, key=lambda row: (row.digest, row.schedule))
    return tuple(
        Planned(digest, parse_schedule(schedule), tuple(_measured(row) for row in found))
        for (digest, schedule), found in groups
    )


def _measured(row: Any) -> Measured:
    return Measured(*(getattr(row, name) for name in _VALUES.split(", ")))


def insert_plan(connection: Connection, recording_id: int, plan: Plan) -> None:
    """The plan that a recording was given; its kernels are there already."""
    query = text(
        "insert into plan_schedules (recording_id, kernel_id, packed, schedule)"
        " select :recording, id, :packed, :schedule from kernels where digest = :kernel"
    )
    for p in plan:
        row = {"recording": recording_id, "packed": int(p.packed), "schedule": p.schedule.text, "kernel": p.kernel}
        connection.execute(query, row)


def read_plan_of(engine: Engine, recording_id: int) -> Plan:
    """The plan that the recording was given."""
    query = text(
        "select k.digest, p.schedule from plan_schedules p join kernels k on k.id = p.kernel_id"
        " where p.recording_id = :recording order by k.digest, p.packed"
    )
    with reading(engine) as connection:
        rows = connection.execute(query, {"recording": recording_id}).all()
    return tuple(Planned(digest, parse_schedule(schedule)) for digest, schedule in rows)


def check_importable(plan: Plan, place: str) -> None:
    """Raises PlanBad (E3005) where a schedule comes without a measurement: the database keeps what was measured."""
    for number, p in enumerate(plan):
        if not p.measured:
            raise PlanBad(
                "measured is missing or empty; 'presk record --plan' needs none", f"{place} kernels[{number}]"
            )


def check_measured(engine: Engine, recording: StoredRecording) -> None:
    """Raises PlanMissing (E3006) where nothing was measured for this recording."""
    if not measured_plan(engine, recording.id):
        raise PlanMissing(f"nothing was measured: run 'presk plan {recording.name}' first", recording.name)
