"""write_frames: the frame of every form, and the program's peak, from lifetimes that queries give.

A form is planned once, callees first, in operations counted from its own first one; all its calls have that layout.
What goes together is one piece (see `arena`): the locals that a loop hands on, with one, two or more places in turn;
the callee of a loop, at one place for all iterations.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection

from presk_db.store.arena import Rectangles, aligned, live_bytes, moved, pack, rectangles
from presk_db.store.chains import Chain, Local, LoopArgument, chains_of


@dataclass(frozen=True)
class Loop:
    """A loop of a form: the items from `first` to `last`, with the arguments that are handed on."""

    first: int
    last: int
    carried: tuple[LoopArgument, ...]


@dataclass(frozen=True)
class CalleeItem:
    """An item that calls: its place in the form, its first operation, the callee."""

    number: int
    start: int
    callee: int


@dataclass
class Form:
    """What the plan of a form's frame needs to know."""

    number: int
    bound: int = 0
    locals: list[Local] = field(default_factory=list)
    callees: list[CalleeItem] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)


@dataclass(frozen=True)
class Frame:
    """A planned frame: what its callers must keep free, and where everything lies."""

    bytes: int
    occupied: Rectangles
    slots: tuple[tuple[str, int, int, int], ...]  # kind, number, offset, bytes
    chains: tuple[tuple[Chain, int], ...]  # with their base
    broken: tuple[int, ...]  # first items of loops that no layout can serve


def write_frames(connection: Connection, recording_id: int) -> None:
    """Fills frames, frame_slots and arenas; gives carried arguments their places; drops the loops that have none."""
    frames: dict[int, Frame] = {}
    found = _forms(connection, recording_id)
    for form in found:
        frames[form.number] = plan(form, frames)
        _write(connection, recording_id, form, frames[form.number])
    root = frames[found[-1].number].bytes if found else 0
    query = "select operation, live_bytes from arena_timeline where recording_id = :r order by live_bytes desc, operation limit 1"
    peak = connection.exec_driver_sql(query, {"r": recording_id}).first()
    operation, live = tuple(peak) if peak else (None, 0)
    connection.exec_driver_sql("insert into arenas values (?, ?, ?, ?)", (recording_id, root, live, operation))


def plan(form: Form, frames: dict[int, Frame]) -> Frame:
    """The frame of a form whose callees are planned."""
    by_number = {local.number: local for local in form.locals}
    found = chains_of([(loop.first, loop.carried) for loop in form.loops], by_number)
    pieces: list[Rectangles] = []
    members: list[list[tuple[str, int, int, int]]] = []  # of each piece: kind, number, offset in it, bytes
    for group in _groups(form.locals, found.placed):
        pieces.append(rectangles([(l.first, l.last, at, at + aligned(l.bytes)) for l, at in group]))
        members.append([("local", l.number, at, l.bytes) for l, at in group])
    together = {
        n: loop.first for loop in form.loops for n in range(loop.first, loop.last + 1) if loop.first not in found.broken
    }
    callees: defaultdict[int, list[CalleeItem]] = defaultdict(list)
    for item in form.callees:
        callees[together.get(item.number, item.number)].append(item)
    for items in callees.values():
        frame = frames[items[0].callee]
        pieces.append(np.concatenate([moved(frame.occupied, item.start, 0) for item in items]))
        members.append([("callee", item.number, 0, frame.bytes) for item in items])
    packing = pack(pieces, form.bound)
    slots = [
        (kind, number, packing.offsets[n] + at, size)
        for n, group in enumerate(members)
        for kind, number, at, size in group
    ]
    offsets = {number: offset for kind, number, offset, _ in slots if kind == "local"}
    based = [(chain, offsets[chain.locals[0]] - chain.offset_of(0)) for chain in found.chains]
    occupied = _joined([moved(p, 0, offset) for p, offset in zip(pieces, packing.offsets, strict=True)])
    return Frame(packing.bytes, occupied, tuple(sorted(slots)), tuple(based), tuple(sorted(found.broken)))


def _groups(found: list[Local], placed: dict[int, tuple[int, int]]) -> list[list[tuple[Local, int]]]:
    """The locals that move together, with their offsets from the lowest: those of chains that meet, or one alone."""
    groups: defaultdict[tuple[bool, int], list[tuple[Local, int]]] = defaultdict(list)
    for local in found:
        group, at = placed.get(local.number, (local.number, 0))
        groups[local.number in placed, group].append((local, at))
    return [
        [(local, at - low) for local, at in group] for group in groups.values() for low in [min(at for _, at in group)]
    ]


def _joined(pieces: list[Rectangles]) -> Rectangles:
    """All rectangles, those of one piece at the same bytes made one: a loop's iterations count once for the callers."""
    joined = [rectangles([])]
    for piece in pieces:
        ranges, which = np.unique(piece[:, 2:], axis=0, return_inverse=True)
        first = np.full(len(ranges), np.iinfo(np.int64).max)
        last = np.full(len(ranges), -1)
        np.minimum.at(first, which.reshape(-1), piece[:, 0])
        np.maximum.at(last, which.reshape(-1), piece[:, 1])
        joined.append(np.column_stack([first, last, ranges]))
    return np.concatenate(joined)


def _forms(connection: Connection, recording_id: int) -> list[Form]:
    """All forms of a recording, callees before callers."""

    def rows(query: str) -> Sequence[Any]:
        return connection.exec_driver_sql(query, {"r": recording_id}).all()

    query = (
        "select f.number, c.first_operation, c.last_operation from forms f"
        " join calls c on c.recording_id = f.recording_id and c.number = f.call"
        " where f.recording_id = :r order by f.number"
    )
    spans = {number: (first, last) for number, first, last in rows(query)}
    forms = {number: Form(number) for number in spans}
    query = (
        "select f.number, l.number, l.first_operation, l.last_operation, b.bytes from forms f"
        " join call_locals l on l.recording_id = f.recording_id and l.call = f.call"
        " join buffers b on b.recording_id = l.recording_id and b.number = l.buffer"
        " where f.recording_id = :r order by f.number, l.number"
    )
    for form, number, first, last, size in rows(query):
        start = spans[form][0]
        forms[form].locals.append(Local(number, first - start, last - start, size))
    query = "select form, number, start, callee from form_items where recording_id = :r and kind = 'call' order by form, number"
    for form, *item in rows(query):
        forms[form].callees.append(CalleeItem(*item))
    for form, loop in _loops(connection, recording_id):
        forms[form].loops.append(loop)
    query = (
        "select l.first_operation, l.last_operation, b.bytes from call_locals l"
        " join buffers b on b.recording_id = l.recording_id and b.number = l.buffer"
        " where l.recording_id = :r order by l.first_operation"
    )
    lives = rectangles([(first, last, 0, aligned(size)) for first, last, size in rows(query)])
    for number, (first, last) in spans.items():
        inside = lives[(lives[:, 0] >= first) & (lives[:, 1] <= last)]
        forms[number].bound = live_bytes(moved(inside, -first, 0))
    return list(forms.values())


def _loops(connection: Connection, recording_id: int) -> list[tuple[int, Loop]]:
    """The loops with what each carried argument is given in every iteration."""
    query = (
        "select l.form, l.first_item, l.last_item, a.position, a.source, x.slot"
        " from loops l"
        " left join loop_arguments a on a.recording_id = l.recording_id and a.form = l.form"
        " and a.first_item = l.first_item and a.kind = 'carried'"
        " left join form_item_arguments x on x.recording_id = l.recording_id and x.form = l.form"
        " and x.item between l.first_item and l.last_item and x.position = a.position"
        " where l.recording_id = :r order by l.form, l.first_item, a.position, x.item"
    )
    found: dict[tuple[int, int, int], dict[int, tuple[int | None, list[int]]]] = {}
    for form, first, last, position, source, slot in connection.exec_driver_sql(query, {"r": recording_id}):
        carried = found.setdefault((form, first, last), {})
        if position is not None:
            carried.setdefault(position, (source, []))[1].append(slot)
    return [
        (
            form,
            Loop(first, last, tuple(LoopArgument(p, source, tuple(slots)) for p, (source, slots) in carried.items())),
        )
        for (form, first, last), carried in found.items()
    ]


def _write(connection: Connection, recording_id: int, form: Form, frame: Frame) -> None:
    run = connection.exec_driver_sql
    run("insert into frames values (?, ?, ?, ?)", (recording_id, form.number, frame.bytes, form.bound))
    slots = [(recording_id, form.number, *slot) for slot in frame.slots]
    if slots:
        run("insert into frame_slots values (?, ?, ?, ?, ?, ?)", slots)
    where = "recording_id = ? and form = ? and first_item = ?"
    for first in frame.broken:
        run(f"delete from loop_arguments where {where}", (recording_id, form.number, first))
        run(f"delete from loops where {where}", (recording_id, form.number, first))
    for chain, base in frame.chains:
        for loop, position, phase in chain.users:
            values = (base, chain.distance, chain.period, phase % chain.period)
            query = f"update loop_arguments set base = ?, distance = ?, period = ?, phase = ? where {where} and position = ?"
            run(query, (*values, recording_id, form.number, loop, position))
