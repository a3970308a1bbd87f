"""A recording's rows as text, the same wherever and after whatever it was ingested; and the rows of such a text.

A line `table NAME: COLUMN ...` begins each table that has rows; a row is a JSON list. Tables stand in the order of their
names, rows in that of their keys. Kernels are named by their digests.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection

from presk_db.errors import DatabaseDamaged
from presk_db.store.columns import METADATA

LOCAL = (
    "native_runs", "launch_times", "weight_files", "measurements", "benchmarks", "benchmark_launches", "benchmark_rivals",
    "benchmark_kernels",
    "kernel_verdicts",
    "kernel_totals",
    "line_totals",
    "layer_totals",
)  # fmt: skip
"""The tables of what stays on the recording machine."""

Rows = dict[str, list[dict[str, Any]]]
"""The rows of each table, by column."""


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
    columns = [column for column in columns if column not in ("recording_id", "id")]
    shown = [_shown(column) for column in columns]
    order = [_shown(column.name) for column in table.primary_key.columns if column.name not in ("recording_id", "id")]
    query = f"select {', '.join(shown)} from {source} order by {', '.join(order or shown)}"
    is_first = True
    for row in connection.exec_driver_sql(query, {"id": recording_id}):
        if is_first:
            yield f"table {name}: {' '.join(columns)}"
            is_first = False
        yield json.dumps(list(row), separators=(",", ":"))


def _shown(column: str) -> str:
    if column == "kernel_id":
        return "(select k.digest from kernels k where k.id = t.kernel_id)"
    return f't."{column}"'


def dumped_rows(lines: Iterable[str]) -> Rows:
    """The rows of a dump. Raises DatabaseDamaged (E5005) with the line that is none of a dump."""
    found: Rows = {}
    columns: list[str] = []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        place = f"line {number}"
        if line.startswith("table "):
            name, _, names = line.removeprefix("table ").partition(": ")
            columns, rows = names.split(" "), []
            known = {column.name for column in METADATA.tables[name].columns} if name in METADATA.tables else set()
            if name in LOCAL or name in found or not set(columns) <= known or len(set(columns)) != len(columns):
                raise DatabaseDamaged("this is no table of a recording, or it has other columns", place)
            found[name] = rows
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise DatabaseDamaged("this is no row of a dump", place) from None
        if not isinstance(values, list) or len(values) != len(columns) or not all(map(_is_plain, values)):
            raise DatabaseDamaged(f"this is no row of {len(columns)} columns", place)
        rows.append(dict(zip(columns, values, strict=True)))
    return found


def _is_plain(value: object) -> bool:
    """Whether SQLite holds the value: a 64-bit integer, a text of Unicode, or nothing."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
    return value is None or (type(value) is int and -(2**63) <= value < 2**63)
