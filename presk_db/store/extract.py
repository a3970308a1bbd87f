"""extracted: a recording from its dump; restored: into a database, where its dump must be the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Engine, Table, insert

from presk_db.errors import DatabaseDamaged
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.launches import check_launches
from presk_db.kernels.plan_file import check_plan
from presk_db.store import structure_tables, tables
from presk_db.store.columns import METADATA
from presk_db.store.dump import Rows, canonical_dump, dumped_rows
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.ingest import insert_recording
from presk_db.store.read import read_recording
from presk_db.store.recordings import StoredRecording, stored_recording
from presk_db.store.tensors import contents, insert_contents

_LATER = ("exact_runs", "exact_errors", "exact_bounds", "ulp_histogram")
"""The tables of what is added to a recording after its run."""

_COMPUTED = {t.name for t in vars(structure_tables).values() if isinstance(t, Table)}


def restored(
    engine: Engine,
    name: str,
    dump: Sequence[str],
    held: Mapping[str, bytes],
    *,
    digest: str,
    same: bool,
    weights: str | None = None,
) -> StoredRecording:
    """Writes the recording that a dump describes under a name; all of it, or nothing.

    Args:
        engine: the database.
        name: the recording's name.
        dump: the lines of `canonical_dump`.
        held: the contents of inputs, outputs and bounds, by their SHA-256.
        digest: what the recording's digest must be.
        same: whether the dump must come out the same, as it does of this presk's schema version.
        weights: where the weights' file lies on this machine.

    Raises:
        DatabaseDamaged: E5005, where the rows contradict each other, or the digest that they state.
        DatabaseWriteFailed: E5004.
    """
    rows = dumped_rows(dump)
    staging = _staged(name, rows, held)
    recording = read_recording(staging, 1)
    for kernel in recording.order.kernels():
        check_kernel(kernel)
    check_launches(recording.order)
    check_plan(recording.plan, {kernel.digest: kernel for kernel in recording.order.kernels()}, "plan")
    recording = replace(recording, weights=replace(recording.weights, path=weights))
    with writing(engine) as connection:
        stored = insert_recording(connection, recording)
        if stored.digest != digest or rows["recordings"][0]["digest"] != digest:
            raise DatabaseDamaged(f"its rows have the digest {stored.digest[:16]}, not {digest[:16]}")
        _add_later(connection, stored.id, rows, held)
        if same:
            _check_same(dump, canonical_dump(connection, stored.id))
    return stored


def _check_same(dump: Sequence[str], again: Sequence[str]) -> None:
    for number, (line, other) in enumerate(zip(dump, again, strict=False), 1):
        if line != other:
            raise DatabaseDamaged("this row does not follow from the others", f"line {number}")
    if len(dump) != len(again):
        raise DatabaseDamaged(f"it has {len(dump)} lines, and {len(again)} follow from them")


def copied(source: Engine, recording_id: int, target: Engine) -> StoredRecording:
    """The recording of another database, with what was added to it, in this one."""
    with reading(source) as connection:
        dump = canonical_dump(connection, recording_id)
        stored = stored_recording(connection, recording_id)
        rows = dumped_rows(dump)
        wanted = {row["digest"] for name in ("tensors", "exact_bounds", "tokenizers") for row in rows.get(name, ())}
        found = {d: raw for d in sorted(wanted) if (raw := contents(connection, d)) is not None}
    return restored(target, stored.name, dump, found, digest=stored.digest, same=False)


def _staged(name: str, rows: Rows, held: Mapping[str, bytes]) -> Engine:
    """A database in memory with the rows as they are, but for what queries compute from them."""
    if len(rows.get("recordings", ())) != 1:
        raise DatabaseDamaged("a dump has one row of recordings")
    staging = open_database("sqlite://", create=True)
    kernels = {row.get("digest"): number for number, row in enumerate(rows.get("kernels", ()), 1)}
    with writing(staging) as connection:
        connection.exec_driver_sql("pragma defer_foreign_keys = on")
        for _, table in sorted(METADATA.tables.items()):
            if table.name in rows and table.name not in _COMPUTED and table.name not in _LATER:
                _insert(connection, table, rows[table.name], kernels, {"id": 1, "name": name, "recording_id": 1})
        for digest, raw in held.items():
            insert_contents(connection, digest, raw)
    return staging


def _insert(
    connection: Connection,
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    kernels: Mapping[Any, int],
    given: Mapping[str, Any],
) -> None:
    """Inserts rows of a dump, with the values that a dump leaves out; kernels by their digests' numbers."""
    columns = {column.name for column in table.columns}
    shared = {k: v for k, v in given.items() if k in columns and (k != "id" or table is tables.recordings)}
    values = []
    for row in rows:
        full = shared | dict(row)
        if table is tables.kernels:
            full["id"] = kernels[full.get("digest")]
        if full.get("kernel_id") is not None:
            if full["kernel_id"] not in kernels:
                raise DatabaseDamaged(f"a row of {table.name} names a kernel that is not there")
            full["kernel_id"] = kernels[full["kernel_id"]]
        values.append(full)
    if values:
        connection.execute(insert(table), values)


def _add_later(connection: Connection, recording_id: int, rows: Rows, held: Mapping[str, bytes]) -> None:
    """What the exact computation said: its tables, its tensors, and their contents."""
    exact = [row for row in rows.get("tensors", ()) if row.get("role") == "exact_output"]
    later = {"tensors": exact, **{name: rows.get(name, []) for name in _LATER}}
    for name in ("exact_runs", "exact_errors", "exact_bounds", "ulp_histogram", "tensors"):
        _insert(connection, METADATA.tables[name], later[name], {}, {"recording_id": recording_id})
    for row in [*exact, *later["exact_bounds"]]:
        digest = row["digest"]
        if digest not in held:
            raise DatabaseDamaged("the contents of an exact output are missing", str(digest)[:16])
        insert_contents(connection, digest, held[digest])
