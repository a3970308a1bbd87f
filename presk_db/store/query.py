"""rows and answer: queries for one recording, presk's own and a user's."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, ResourceClosedError

from presk_db.errors import QueryBad
from presk_db.store.engine import reading

_QUERIES = Path(__file__).resolve().parent / "queries"
_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


@dataclass(frozen=True)
class Answer:
    """The columns and rows that a query gives."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def rows(engine: Engine, sql: str, recording_id: int) -> Sequence[Any]:
    """The rows of a query with the bind `:recording`."""
    with reading(engine) as connection:
        return connection.execute(text(sql), {"recording": recording_id}).all()


def query_names() -> dict[str, str]:
    """The named queries, with what each says in its first line."""
    files = sorted(_QUERIES.glob("*.sql"))
    return {f.stem: f.read_text(encoding="utf-8").partition("\n")[0].removeprefix("-- ") for f in files}


def query_sql(name: str) -> str:
    """The text of a named query; a text with a space in it is SQL itself. Raises QueryBad (E5006) for an unknown name."""
    if len(name.split()) > 1:
        return name
    if name not in query_names():
        raise QueryBad(f"there is no such query; there are {', '.join(query_names())}, or give SQL", name)
    return _INCLUDE.sub(_shared, (_QUERIES / f"{name}.sql").read_text(encoding="utf-8"))


def _shared(line: re.Match[str]) -> str:
    """The text that several queries begin with, without its first line, which says what it is."""
    return (_QUERIES / "shared" / f"{line[1]}.sql").read_text(encoding="utf-8").partition("\n")[2]


LATEST = "coalesce(nullif(cast(:recording as integer), 0), (select max(id) from recordings))"
"""The recording of a form's field, which is text; the latest where it is empty."""


def datasette_metadata(target: str) -> dict[str, Any]:
    """Datasette's metadata for a database file: each named query as a canned query on a recording's id."""
    queries = {
        name: {"sql": re.sub(r":recording\b", LATEST, query_sql(name)), "title": name, "description": description}
        for name, description in query_names().items()
    }
    return {
        "title": "presk",
        "description": "Recordings of neural networks. A query without a recording's id is about the latest.",
        "databases": {Path(target).stem: {"queries": queries}},
    }


def answer(engine: Engine, sql: str, recording_id: int | None) -> Answer:
    """What a query gives, which may only read: `:recording` is bound. Raises QueryBad (E5006) for one that fails."""
    with reading(engine) as connection:
        driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]  # SQLite's own
        driver.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY)
        try:
            return _answer(connection, sql, {} if recording_id is None else {"recording": recording_id})
        finally:
            driver.set_authorizer(None)


def _answer(connection: Connection, sql: str, binds: dict[str, int]) -> Answer:
    try:
        result = connection.exec_driver_sql(sql, binds)
        return Answer(tuple(result.keys()), tuple(tuple(row) for row in result))
    except ResourceClosedError:
        raise QueryBad("it gives no rows: a query is a select", "SQL") from None
    except DBAPIError as e:
        raise QueryBad(_reason(e), "SQL") from None
    except sqlite3.Warning as e:
        raise QueryBad(str(e), "SQL") from None


def _reason(e: DBAPIError) -> str:
    if getattr(e.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_AUTH:
        return "it does more than read: presk query is for select alone"
    return str(e.orig)
