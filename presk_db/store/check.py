"""check_database: what is wrong with a database, a line a problem."""

import re

from sqlalchemy import Connection, Engine, text

from presk_db.errors import DatabaseDamaged, PreskError
from presk_db.store.arena import overlapping, rectangles
from presk_db.store.engine import open_database, reading
from presk_db.store.read import read_kernel
from presk_db.store.tensors import damaged_tensors


def check_database(target: str) -> list[str]:
    """The problems of the database `target`, none where it is sound.

    Checked: SQLite's own integrity, foreign keys, the schema against a freshly made one, kernels rebuilt from their
    rows against text and digest, tensors against their digests, the arena against lifetimes.

    Raises:
        DatabaseUnreadable: E5001.
        SchemaVersionOther: E5002.
    """
    try:
        with reading(open_database(target)) as connection:
            return _problems(connection)
    except DatabaseDamaged as e:
        return [e.message]


def _problems(connection: Connection) -> list[str]:
    problems = [str(row[0]) for row in connection.execute(text("pragma integrity_check")) if row[0] != "ok"]
    if problems:
        return [f"the file is damaged: {problem}" for problem in problems]
    for table, row, other, _ in connection.execute(text("pragma foreign_key_check")):
        problems.append(f"{table}: row {row} refers to no row of {other}")
    problems += different_schema(connection)
    if not problems:
        problems += _damaged_kernels(connection)
        problems += damaged_tensors(connection)
        problems += _overlapping_temps(connection)
    return problems


def schema(connection: Connection) -> dict[str, str]:
    """What the database says of its tables, indexes and views: the definition by name, spaces made equal."""
    query = text(
        "select type || ' ' || name, coalesce(sql, '') from sqlite_schema where name not like 'sqlite\\_%' escape '\\'"
    )
    found = connection.execute(query).all()
    return {name: re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)).strip() for name, sql in sorted(map(tuple, found))}


def different_schema(connection: Connection) -> list[str]:
    """A line for each table, index or view that is not as a new database has it."""
    with reading(_new()) as fresh:
        right = schema(fresh)
    here = schema(connection)
    problems = [f"{name} is missing" for name in right if name not in here]
    problems += [f"{name} is not presk's" for name in here if name not in right]
    problems += [f"{name} is not as presk makes it" for name in right if name in here and here[name] != right[name]]
    return sorted(problems)


def _new() -> Engine:
    return open_database("sqlite://", create=True)


def _damaged_kernels(connection: Connection) -> list[str]:
    problems = []
    for kernel_id, digest, written in connection.execute(
        text("select id, digest, text from kernels order by id")
    ).all():
        try:
            kernel = read_kernel(connection, kernel_id)
        except PreskError as e:
            problems.append(f"kernel {kernel_id}: {e.message}")
            continue
        if kernel.text != written or kernel.digest != digest:
            problems.append(f"kernel {kernel_id}: its statements do not have its text and digest")
    return problems


def _overlapping_temps(connection: Connection) -> list[str]:
    """A line for every recording in whose arena two temps share memory while both are alive, or leave it."""
    problems = []
    for recording, size in connection.execute(
        text("select recording_id, bytes from arenas order by recording_id")
    ).all():
        query = text(
            "select buffer, first_use, last_use, offset, bytes from arena_map where recording_id = :id order by buffer"
        )
        places = connection.execute(query, {"id": recording}).all()
        pieces = [rectangles([(first, last, 0, length)]) for _, first, last, _, length in places]
        for a, b in overlapping(pieces, [place.offset for place in places])[:1]:
            problems.append(f"recording {recording}: buffers {places[a].buffer} and {places[b].buffer} share memory")
        if any(place.offset + place.bytes > size for place in places):
            problems.append(f"recording {recording}: a buffer lies outside the arena")
    return problems
