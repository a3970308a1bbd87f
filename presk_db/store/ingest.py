"""write_recording: a recording becomes rows, in one transaction."""

import math
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, insert, select, text

from presk_db.kernels.ir import Kernel
from presk_db.kernels.launches import LaunchOrder, View, WeightPart
from presk_db.kernels.routines import operation_kind
from presk_db.recording.events import Launched, Recording
from presk_db.store import tables
from presk_db.store.digest import float_bits, recording_digest, signed
from presk_db.store.engine import writing
from presk_db.store.frames import write_frames
from presk_db.store.kernel_rows import Row, access_rows, loop_rows, parameter_rows, shape_text, statement_rows
from presk_db.store.order import check_order, spans
from presk_db.store.plans import insert_plan
from presk_db.store.recordings import StoredRecording, stored_recording
from presk_db.store.structure import write_structure, write_totals
from presk_db.store.tensors import insert_tensors
from presk_db.store.tokenizers import insert_tokenizer


def write_recording(engine: Engine, recording: Recording) -> StoredRecording:
    """Writes a recording and what queries compute from it; all of it, or nothing.

    Raises:
        DatabaseWriteFailed: E5004, where the database is locked, read-only or full.
        DatabaseDamaged: E5005, where the recording contradicts itself.
    """
    with writing(engine) as connection:
        return insert_recording(connection, recording)


def insert_recording(connection: Connection, recording: Recording) -> StoredRecording:
    """The same inside a transaction."""
    order = recording.order
    check_order(order)
    views: dict[View, int] = {}
    for launch in order.launches:
        for view in launch.arguments:
            views.setdefault(view, len(views))
    highest = select(func.coalesce(func.max(tables.recordings.c.id), 0))
    recording_id = int(connection.execute(highest).scalar_one()) + 1
    if recording_id == 1:  # the tables are empty: their indexes are made after the load
        for index in tables.LATE_INDEXES:
            index.drop(connection)
    _insert_recording(connection, recording, recording_id, recording_digest(recording, views))
    _insert_what_there_is(connection, order, recording_id, views)
    _insert_what_happened(connection, order, recording_id, views)
    insert_plan(connection, recording_id, recording.plan)
    _insert_events(connection, recording, recording_id)
    insert_tensors(connection, recording_id, recording.tensors)
    insert_tokenizer(connection, recording_id, recording.tokenizer)
    if recording_id == 1:
        for index in tables.LATE_INDEXES:
            index.create(connection)
    connection.exec_driver_sql("pragma analysis_limit = 1000")
    connection.exec_driver_sql("analyze")  # without statistics, queries over one large recording take hours
    write_structure(connection, recording_id)
    write_frames(connection, recording_id)
    write_totals(connection, recording_id)
    connection.exec_driver_sql("analyze")
    return stored_recording(connection, recording_id)


def _put(connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Inserts rows whose values stand in the order of the table's columns."""
    values = list(rows)
    if values:  # past SQLAlchemy's parameters, which take twice as long as the database itself
        marks = ", ".join("?" * len(table.columns))
        connection.exec_driver_sql(f"insert into {table.name} values ({marks})", values)


def _insert_recording(connection: Connection, recording: Recording, recording_id: int, digest: str) -> None:
    weights = recording.weights
    seed = None if weights.seed is None else str(weights.seed)
    what = (recording.name, digest, recording.entry, recording.family, recording.spec, recording.graph)
    _put(connection, tables.recordings, [(recording_id, *what, weights.kind, seed, weights.digest)])
    if recording.nanoseconds is not None:
        _put(connection, tables.native_runs, [(recording_id, int(recording.nanoseconds))])
    if weights.path is not None:
        _put(connection, tables.weight_files, [(recording_id, weights.path)])


def _insert_events(connection: Connection, recording: Recording, recording_id: int) -> None:
    """What each launch took, and the hashes of what it wrote."""
    launched = {event.launch: event for event in recording.events if isinstance(event, Launched)}
    taken = ((n, launched[n].nanoseconds) for n in sorted(launched))
    _put(connection, tables.launch_times, ((recording_id, n, int(t)) for n, t in taken if t is not None))
    written = {k.digest: [n for n, a in enumerate(k.arrays) if a.mode == "out"] for k in recording.order.kernels()}
    hashes = (
        (recording_id, n, position, signed(value))
        for n in sorted(launched)
        if launched[n].hashes
        for position, value in zip(written[recording.order.launches[n].kernel.digest], launched[n].hashes, strict=True)
    )
    _put(connection, tables.launch_hashes, hashes)


def _insert_what_there_is(connection: Connection, order: LaunchOrder, r: int, views: dict[View, int]) -> None:
    functions = ((r, n, f.name, f.source) for n, f in enumerate(order.functions))
    _put(connection, tables.functions, functions)
    calls, depths, paths = [], list[int](), list[str]()
    for c, span in zip(order.calls, spans(order), strict=True):
        name = order.functions[c.function].name + ("" if c.iteration is None else f"[{c.iteration}]")
        depths.append(0 if c.parent is None else depths[c.parent] + 1)
        paths.append(name if c.parent is None else f"{paths[c.parent]}/{name}")
        calls.append((r, c.id, c.parent, c.function, c.label, c.fold, c.iteration, depths[-1], paths[-1], *span))
    _put(connection, tables.calls, calls)
    folds = ((r, f.id, f.call, f.function, f.label, f.length, int(f.descending)) for f in order.folds)
    _put(connection, tables.folds, folds)
    buffers = (
        (r, b.id, b.role, b.name, b.type, shape_text(b.shape), b.elements, b.bytes, b.limit) for b in order.buffers
    )
    _put(connection, tables.buffers, buffers)
    _put(connection, tables.states, ((r, b.id) for b in order.buffers if b.given))
    windows = ((r, n, v.buffer, v.offset, shape_text(v.shape), math.prod(v.shape)) for v, n in views.items())
    _put(connection, tables.views, windows)
    parts = (
        (r, n, p.buffer, p.offset, p.tensor, shape_text(p.shape), int(p.transposed), *_bounds(p))
        for n, p in enumerate(order.weights)
    )
    _put(connection, tables.weight_parts, parts)
    _put(connection, tables.updates, ((r, u.output, u.state) for u in order.updates))


def _bounds(part: WeightPart) -> tuple[int, int]:
    return float_bits(part.low), float_bits(part.high)


def _insert_what_happened(connection: Connection, order: LaunchOrder, r: int, views: dict[View, int]) -> None:
    launches = list(enumerate(order.launches))
    kernels = {kernel.digest: kernel for kernel in order.kernels()}
    ids = _kernel_ids(connection, kernels)
    modes = {digest: tuple(a.mode for a in kernel.arrays) for digest, kernel in kernels.items()}
    kinds = {digest: operation_kind(kernel) for digest, kernel in kernels.items()}
    _put(
        connection, tables.operations, ((r, n, x.call, kinds[x.kernel.digest], x.label, x.source) for n, x in launches)
    )
    _put(connection, tables.launches, ((r, n, ids[x.kernel.digest]) for n, x in launches))
    arguments = (
        (r, n, position, mode, views[view])
        for n, x in launches
        for position, (mode, view) in enumerate(zip(modes[x.kernel.digest], x.arguments, strict=True))
    )
    _put(connection, tables.launch_arguments, arguments)
    scalars = ((r, n, position, name) for n, x in launches for position, name in enumerate(x.scalars))
    _put(connection, tables.launch_scalars, scalars)


def _kernel_ids(connection: Connection, kernels: dict[str, Kernel]) -> dict[str, int]:
    """The ids of these kernels: a query finds which texts the database does not have yet, and adds those."""
    run = connection.exec_driver_sql
    run("create temp table staged_kernels (number integer primary key, digest text, text text)")
    staged = [(digest, kernel.text) for digest, kernel in kernels.items()]
    if staged:
        run("insert into staged_kernels (digest, text) values (?, ?)", staged)
    added = run(
        "insert into kernels (digest, text) select s.digest, s.text from staged_kernels s"
        " where not exists (select 1 from kernels k where k.digest = s.digest) order by s.number"
        " returning id, digest"
    ).all()
    for kernel_id, digest in added:
        kernel = kernels[digest]
        _insert_rows(connection, tables.kernel_parameters, kernel_id, parameter_rows(kernel))
        _insert_rows(connection, tables.kernel_statements, kernel_id, statement_rows(kernel))
        _insert_rows(connection, tables.kernel_loops, kernel_id, loop_rows(kernel))
        _insert_rows(connection, tables.kernel_accesses, kernel_id, access_rows(kernel))
    known = connection.execute(
        text("select k.digest, k.id from kernels k join staged_kernels s on s.digest = k.digest")
    )
    ids = {digest: kernel_id for digest, kernel_id in known}
    run("drop table staged_kernels")
    return ids


def _insert_rows(connection: Connection, table: Table, kernel_id: int, rows: Iterable[Row]) -> None:
    values = [{"kernel_id": kernel_id, **row} for row in rows]
    if values:
        connection.execute(insert(table), values)
