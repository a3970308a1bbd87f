"""A recording back from its rows: kernels from their statements, and the launch order."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Engine, Table, select, text

from presk_db.errors import DatabaseDamaged
from presk_db.kernels.ir import Kernel
from presk_db.kernels.launches import (
    Buffer,
    Call,
    FoldInfo,
    FunctionInfo,
    Launch,
    LaunchOrder,
    Update,
    View,
    WeightPart,
)
from presk_db.recording.events import Launched, Recording, WeightsReference
from presk_db.store import tables
from presk_db.store.digest import float_from_bits
from presk_db.store.engine import reading
from presk_db.store.kernel_rows import kernel_from_rows, shape_from_text
from presk_db.store.plans import read_plan_of
from presk_db.store.recordings import read_graph, stored_recording
from presk_db.store.tensors import read_tensors
from presk_db.store.tokenizers import read_tokenizer

_KINDS: dict[str, Literal["seed", "file", "none"]] = {"seed": "seed", "file": "file", "none": "none"}


def read_kernels(engine: Engine, recording_id: int) -> tuple[Kernel, ...]:
    """The distinct kernels of a recording in order of first launch, rebuilt from their statements' rows.

    Raises:
        DatabaseDamaged: E5005, where a rebuilt kernel does not have its digest.
    """
    with reading(engine) as connection:
        stored_recording(connection, recording_id)
        return tuple(_kernels(connection, recording_id).values())


def _kernels(connection: Connection, recording_id: int) -> dict[int, Kernel]:
    query = text(
        "select k.id, k.digest from launches l join kernels k on k.id = l.kernel_id"
        " where l.recording_id = :id group by k.id, k.digest order by min(l.operation)"
    )
    found = {}
    for kernel_id, digest in connection.execute(query, {"id": recording_id}).all():
        found[kernel_id] = read_kernel(connection, kernel_id)
        if found[kernel_id].digest != digest:
            raise DatabaseDamaged("its statements do not have its digest", f"kernel {kernel_id}")
    return found


def read_kernel(connection: Connection, kernel_id: int) -> Kernel:
    """The kernel that the rows of its parameters and statements describe."""

    def rows(table: Table, place: str) -> Sequence[Any]:
        query = select(table).where(table.c.kernel_id == kernel_id).order_by(table.c[place])
        return connection.execute(query).mappings().all()

    return kernel_from_rows(rows(tables.kernel_parameters, "position"), rows(tables.kernel_statements, "number"))


def read_recording(engine: Engine, recording_id: int) -> Recording:
    """The recording that was ingested, but for what is local: times, and where the weights were.

    Raises:
        RecordingUnknown: E5003.
        DatabaseDamaged: E5005.
    """
    order = read_launch_order(engine, recording_id)
    with reading(engine) as connection:
        r = stored_recording(connection, recording_id)
        hashes: defaultdict[int, list[int]] = defaultdict(list)
        query = "select operation, hash from launch_hashes where recording_id = :id order by operation, position"
        for operation, value in connection.execute(text(query), {"id": recording_id}):
            hashes[operation].append(value % 2**64)
    return Recording(
        name=r.name,
        entry=r.entry,
        family=r.family,
        spec=r.spec,
        graph=read_graph(engine, recording_id),
        order=order,
        events=tuple(Launched(n, None, tuple(hashes[n])) for n in range(len(order.launches))),
        tensors=read_tensors(engine, recording_id),
        weights=WeightsReference(_KINDS[r.weights_kind], r.weights_seed, r.weights_digest, None),
        nanoseconds=None,
        plan=read_plan_of(engine, recording_id),
        tokenizer=read_tokenizer(engine, recording_id),
    )


def read_launch_order(engine: Engine, recording_id: int) -> LaunchOrder:
    """The launch order that was ingested.

    Raises:
        RecordingUnknown: E5003.
        DatabaseDamaged: E5005.
    """
    with reading(engine) as connection:
        stored_recording(connection, recording_id)

        def rows(table: Table, *keys: str) -> Sequence[Any]:
            query = select(table).where(table.c.recording_id == recording_id)
            return connection.execute(query.order_by(*(table.c[k] for k in keys))).all()

        states = {s.buffer for s in rows(tables.states, "buffer")}
        shapes: dict[str, tuple[int, ...]] = {}

        def shape(written: str) -> tuple[int, ...]:
            if written not in shapes:
                shapes[written] = shape_from_text(written)
            return shapes[written]

        return LaunchOrder(
            tuple(FunctionInfo(f.name, f.source) for f in rows(tables.functions, "number")),
            tuple(
                Call(c.number, c.parent, c.function, c.label, c.fold, c.iteration) for c in rows(tables.calls, "number")
            ),
            tuple(
                FoldInfo(f.number, f.call, f.function, f.label, f.length, bool(f.descending))
                for f in rows(tables.folds, "number")
            ),
            tuple(
                Buffer(b.number, b.role, b.name, b.type, shape(b.shape), b.int_limit, b.number in states)
                for b in rows(tables.buffers, "number")
            ),
            tuple(
                WeightPart(
                    *(p.buffer, p.offset, p.tensor, shape(p.shape), bool(p.transposed)),
                    *(float_from_bits(p.low_bits), float_from_bits(p.high_bits)),
                )
                for p in rows(tables.weight_parts, "number")
            ),
            _launches(
                connection,
                recording_id,
                [View(v.buffer, v.offset, shape(v.shape)) for v in rows(tables.views, "number")],
            ),
            tuple(Update(u.output, u.state) for u in rows(tables.updates, "output")),
        )


def _launches(connection: Connection, recording_id: int, views: list[View]) -> tuple[Launch, ...]:
    kernels = _kernels(connection, recording_id)
    here = {"id": recording_id}
    arguments: defaultdict[int, list[View]] = defaultdict(list)
    query = "select operation, view from launch_arguments where recording_id = :id order by operation, position"
    for operation, view in connection.execute(text(query), here):
        arguments[operation].append(views[view])
    scalars: defaultdict[int, list[str]] = defaultdict(list)
    query = "select operation, name from launch_scalars where recording_id = :id order by operation, position"
    for operation, name in connection.execute(text(query), here):
        scalars[operation].append(name)
    query = (
        "select l.operation, l.kernel_id, o.call, o.label, o.source from launches l"
        " join operations o on o.recording_id = l.recording_id and o.number = l.operation"
        " where l.recording_id = :id order by l.operation"
    )
    return tuple(
        Launch(kernels[kernel], call, label, source, tuple(arguments[n]), tuple(scalars[n]))
        for n, kernel, call, label, source in connection.execute(text(query), here)
    )
