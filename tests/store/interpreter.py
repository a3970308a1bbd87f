"""Runs the stored structure as the emitted program would: forms call forms, loops step, everything lies in one arena."""

from collections import defaultdict
from typing import Any

import numpy as np
from sqlalchemy import Connection

from presk_db.kernels.launches import LaunchOrder

Address = tuple[int | None, int]
"""A buffer that is not in the arena, or None; an offset in bytes."""

SIZE = 4  # all elements here are f32


class Interpreter:
    """Executes a recording's forms; `reads` are what each launch found in its inputs, in order."""

    def __init__(self, connection: Connection, recording_id: int, order: LaunchOrder) -> None:
        self.order = order

        def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
            query = f"select {columns} from {table} where recording_id = :r order by 1, 2, 3"
            return [tuple(row) for row in connection.exec_driver_sql(query, {"r": recording_id})]

        self.items: defaultdict[int, list[Any]] = defaultdict(list)
        for form, *item in rows("form, number, kind, start, callee", "form_items"):
            self.items[form].append(item)
        self.arguments: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        for form, item, _, kind, slot, offset in rows(
            "form, item, position, slot_kind, slot, offset", "form_item_arguments"
        ):
            self.arguments[form, item].append((kind, slot, offset))
        self.slots = {(f, k, n): offset for f, k, n, offset in rows("form, kind, number, offset", "frame_slots")}
        self.loops = {(f, first): last for f, first, last in rows("form, first_item, last_item", "loops")}
        self.loop_arguments: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        columns = "form, first_item, position, kind, slot_kind, slot, offset, stride, base, distance, period, phase"
        for form, first, _, *argument in rows(columns, "loop_arguments"):
            self.loop_arguments[form, first].append(argument)
        self.kernels = [launch.kernel for launch in order.launches]
        (bytes_,) = connection.exec_driver_sql("select bytes from arenas where recording_id = ?", (recording_id,)).one()
        self.memory = {None: np.full(bytes_ // SIZE, -1)} | {
            b.id: np.arange(b.elements) + 10**9 * (b.id + 1) for b in order.buffers if b.role != "temp"
        }
        self.count = 0
        self.peak = 0
        self.reads: list[bytes] = []
        root = [(b, o * SIZE) for b, o in self.root(connection, recording_id)]
        (form,) = connection.exec_driver_sql(
            "select max(form) from call_forms where recording_id = ?", (recording_id,)
        ).one()
        if form is not None:
            self.run(form, 0, root)

    def root(self, connection: Connection, recording_id: int) -> list[tuple[int, int]]:
        query = "select buffer, offset from call_arguments where recording_id = ? and call = 0 order by position"
        return [(b, o) for b, o in connection.exec_driver_sql(query, (recording_id,))]

    def run(self, form: int, frame: int, arguments: list[Address]) -> None:
        until = -1
        for number, kind, _, callee in self.items[form]:
            if number <= until:
                continue
            given = [self.address(form, frame, arguments, *a) for a in self.arguments[form, number]]
            if kind == "launch":
                self.launch(given)
            elif (form, number) in self.loops:
                until = self.loops[form, number]
                for step in range(until - number + 1):
                    stepped = [
                        self.stepped(form, frame, arguments, step, *a) for a in self.loop_arguments[form, number]
                    ]
                    self.run(callee, frame + self.slots[form, "callee", number], stepped)
            else:
                self.run(callee, frame + self.slots[form, "callee", number], given)

    def address(self, form: int, frame: int, arguments: list[Address], kind: str, slot: int, offset: int) -> Address:
        space, base = (None, frame + self.slots[form, "local", slot]) if kind == "local" else arguments[slot]
        return space, base + offset * SIZE

    def stepped(
        self,
        form: int,
        frame: int,
        arguments: list[Address],
        step: int,
        kind: str,
        slot_kind: str,
        slot: int,
        *rest: Any,
    ) -> Address:
        offset, stride, base, distance, period, phase = rest
        if kind == "carried":
            return None, frame + base + (phase + step) % period * distance + offset * SIZE
        return self.address(form, frame, arguments, slot_kind, slot, offset + step * stride)

    def launch(self, given: list[Address]) -> None:
        number = self.count
        self.count += 1
        found = []
        for position, (array, (space, at)) in enumerate(zip(self.kernels[number].arrays, given, strict=True)):
            n = int(np.prod(array.shape))
            window = self.memory[space][at // SIZE : at // SIZE + n]
            assert len(window) == n and at % SIZE == 0
            if space is None:
                self.peak = max(self.peak, at + n * SIZE)
            if array.mode == "in":
                found.append(window.tobytes())
            else:
                window[:] = written(number, position, n)
        self.reads.append(b"".join(found))


def written(launch: int, position: int, n: int) -> Any:
    """What a launch writes: different from what any other writes."""
    return np.arange(n) + 1000 * (position + 20 * launch)


def straight(order: LaunchOrder) -> list[bytes]:
    """What each launch reads where every buffer has memory of its own."""
    memory = {
        b.id: np.full(b.elements, -1) if b.role == "temp" else np.arange(b.elements) + 10**9 * (b.id + 1)
        for b in order.buffers
    }
    reads = []
    for number, launch in enumerate(order.launches):
        found = []
        for position, (array, view) in enumerate(zip(launch.kernel.arrays, launch.arguments, strict=True)):
            n = int(np.prod(view.shape))
            window = memory[view.buffer][view.offset : view.offset + n]
            if array.mode == "in":
                found.append(window.tobytes())
            else:
                window[:] = written(number, position, n)
        reads.append(b"".join(found))
    return reads
