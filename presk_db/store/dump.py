"""A recording's rows as text, the same wherever and after whatever it was ingested."""

from collections.abc import Iterator

from sqlalchemy import Connection

from presk_db.store.columns import METADATA

LOCAL = (
    "native_runs", "launch_times", "weight_files", "measurements", "benchmarks", "benchmark_launches", "benchmark_rivals"
)  # fmt: skip
"""The tables of what stays on the recording machine."""


def canonical_dump(connection: Connection, recording_id: int) -> list[str]:
    """Every row of the recording and of its kernels, a line each, in order of the tables' names and keys.

    The recording's id and name are left out, and a kernel stands as its digest: these depend on what else the database
    holds. The local tables and the tensors' contents (their digests are there) are left out too.
    """
    return [
        line for name in sorted(METADATA.tables) if name not in LOCAL for line in _lines(connection, name, recording_id)
    ]


def _lines(connection: Connection, name: str, recording_id: int) -> Iterator[str]:
    table = METADATA.tables[name]
    columns = [column.name for column in table.columns]
    if name == "recordings":
        source, columns = "recordings t where t.id = :id", [c for c in columns if c not in ("id", "name")]
    elif "recording_id" in columns:
        source = f"{name} t where t.recording_id = :id"
    elif "kernel_id" in columns or name == "kernels":
        key = "kernel_id" if "kernel_id" in columns else "id"
        source = f"{name} t where t.{key} in (select kernel_id from launches where recording_id = :id)"
    else:
        return
    shown = [_shown(column) for column in columns if column not in ("recording_id", "id")]
    order = [_shown(column.name) for column in table.primary_key.columns if column.name not in ("recording_id", "id")]
    query = f"select {', '.join(shown)} from {source} order by {', '.join(order or shown)}"
    for row in connection.exec_driver_sql(query, {"id": recording_id}):
        yield f"{name} {tuple(row)!r}"


def _shown(column: str) -> str:
    if column == "kernel_id":
        return "(select k.digest from kernels k where k.id = t.kernel_id)"
    return f't."{column}"'
