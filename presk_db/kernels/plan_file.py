"""Plan: a schedule for each of some kernels, and its JSON text.

    {"format": "presk plan 1",
     "kernels": [{"kernel": "SHA-256 of the kernel's text", "schedule": ["product rows=12 …"],
                  "measured": [{"nanoseconds": 1, "default_nanoseconds": 2, "runs": 9,
                                "compiler": "gcc 12", "flags": "-O3", "cpu": "…"}]}]}

`schedule` holds the lines of the schedule's text, none for the nest as written. `measured` may be left out where a plan
is only used; who adds a plan to a database's measurements needs it. A kernel may stand there twice: with a schedule that
reads its right operand packed at load, and with one that does not.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from presk_db.errors import PlanBad, ScheduleIllegal
from presk_db.kernels.ir import Kernel
from presk_db.kernels.legality import check_schedule
from presk_db.kernels.schedule import Schedule, parse_schedule

FORMAT = "presk plan 1"


@dataclass(frozen=True)
class Measured:
    """One measurement of a schedule: medians beside the default schedule, in one run of so many interleaved rounds."""

    nanoseconds: int
    default_nanoseconds: int
    runs: int
    compiler: str
    flags: str
    cpu: str


@dataclass(frozen=True)
class Planned:
    """A kernel's digest, its schedule, and what was measured of it."""

    kernel: str
    schedule: Schedule
    measured: tuple[Measured, ...] = ()

    @property
    def packed(self) -> bool:
        """Whether the schedule reads the right operand packed at load."""
        return is_packed(self.schedule)


Plan = tuple[Planned, ...]


def is_packed(schedule: Schedule) -> bool:
    """Whether the schedule reads the right operand of a product packed at load."""
    return schedule.product is not None and schedule.product.right == "packed"


def plan_text(plan: Iterable[Planned]) -> str:
    """The plan's JSON, a line a kernel and a measurement, sorted by kernel; `parse_plan` gives the plan back."""
    entries = []
    for p in sorted(plan, key=lambda p: (p.kernel, p.schedule.text)):
        measured = ",\n   ".join(json.dumps(vars(m), ensure_ascii=False) for m in p.measured)
        lines = json.dumps(p.schedule.text.splitlines())
        entries.append(f' {{"kernel": "{p.kernel}",\n  "schedule": {lines},\n  "measured": [{measured}]}}')
    return f'{{"format": "{FORMAT}",\n "kernels": [\n' + ",\n".join(entries) + "\n]}\n"


def read_plan(path: str) -> Plan:
    """The plan in a file. Raises PlanBad (E3005) with the place for one that cannot be read or is no plan."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise PlanBad(f"cannot read the plan: {reason}", path) from None
    return parse_plan(text, path)


def parse_plan(text: str, place: str) -> Plan:
    """The plan whose JSON this is. Raises PlanBad (E3005) with the place."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise PlanBad(f"this is no JSON: {e}", place) from None
    _check_keys(document, {"format": str, "kernels": list}, set(), place)
    if document["format"] != FORMAT:
        raise PlanBad(f"the format is not '{FORMAT}'", f"{place} format")
    plan = tuple(_planned(entry, f"{place} kernels[{n}]") for n, entry in enumerate(document["kernels"]))
    seen = set[tuple[str, bool]]()
    for number, p in enumerate(plan):
        if (p.kernel, p.packed) in seen:
            raise PlanBad("this kernel has a schedule already", f"{place} kernels[{number}]")
        seen.add((p.kernel, p.packed))
    return plan


def check_plan(plan: Plan, kernels: Mapping[str, Kernel], place: str) -> None:
    """Raises PlanBad (E3005) where a kernel, by digest, is not among `kernels`, or its schedule is not legal."""
    for number, p in enumerate(plan):
        at = f"{place} kernels[{number}]"
        if p.kernel not in kernels:
            raise PlanBad(f"there is no kernel {p.kernel[:16]} here: the plan is another recording's", f"{at}.kernel")
        try:
            check_schedule(kernels[p.kernel], p.schedule)
        except ScheduleIllegal as e:
            raise PlanBad(e.message, f"{at}.schedule") from None


def _planned(entry: Any, place: str) -> Planned:
    _check_keys(entry, {"kernel": str, "schedule": list, "measured": list}, {"measured"}, place)
    digest, lines = entry["kernel"], entry["schedule"]
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise PlanBad("a kernel is named by the 64 digits of its SHA-256", f"{place}.kernel")
    if not all(isinstance(line, str) and line and "\n" not in line for line in lines):
        raise PlanBad("a schedule is a list of lines", f"{place}.schedule")
    try:
        schedule = parse_schedule("".join(f"{line}\n" for line in lines))
    except ScheduleIllegal as e:
        raise PlanBad(e.message, f"{place}.schedule {e.place}") from None
    measured = entry.get("measured", [])
    return Planned(digest, schedule, tuple(_measured(m, f"{place}.measured[{n}]") for n, m in enumerate(measured)))


def _measured(entry: Any, place: str) -> Measured:
    _check_keys(entry, {f.name: f.type for f in fields(Measured)}, set(), place)  # type: ignore[misc]  # types, not texts
    for key in ("nanoseconds", "default_nanoseconds", "runs"):
        if not 0 < entry[key] < 2**62:
            raise PlanBad("must be a positive number", f"{place}.{key}")
    return Measured(**entry)


def _check_keys(entry: Any, wanted: Mapping[str, type], optional: set[str], place: str) -> None:
    """Raises PlanBad unless `entry` is an object with these keys, each of its type."""
    if not isinstance(entry, dict):
        raise PlanBad(f"must be an object with {', '.join(wanted)}", place)
    for key in entry:
        if key not in wanted:
            raise PlanBad(f"unknown key {key[:40]!a}; there are {', '.join(wanted)}", place)
    for key, type_ in wanted.items():
        if key not in entry and key in optional:
            continue
        if key not in entry:
            raise PlanBad(f"{key} is missing", place)
        if type(entry[key]) is not type_:
            names = {str: "a text", list: "a list", int: "an integer"}
            raise PlanBad(f"must be {names[type_]}", f"{place}{'.' if '[' in place else ' '}{key}")
