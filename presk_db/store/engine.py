"""Opens, makes and upgrades databases; turns the driver's errors into one line each."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy import Engine as Engine  # for the annotations of layers that do not import sqlalchemy
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool, StaticPool

from presk_db.errors import DatabaseDamaged, DatabaseUnreadable, DatabaseWriteFailed, PreskError, SchemaVersionOther
from presk_db.store.migrate import migrate
from presk_db.store.structure import write_totals
from presk_db.store.tables import SCHEMA_VERSION

_WRITE_FAILED = {
    sqlite3.SQLITE_BUSY: "is locked by another process; try again when that one is done",
    sqlite3.SQLITE_LOCKED: "is locked by another process; try again when that one is done",
    sqlite3.SQLITE_READONLY: "is read-only; make it writable or name another with --db",
    sqlite3.SQLITE_PERM: "is not permitted; make it writable or name another with --db",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "cannot be written: the disk is full, over a limit, or failing",
}


def open_database(target: str, *, create: bool = False, timeout: float = 5.0) -> Engine:
    """An engine on the SQLite database `target`, a path or an SQLAlchemy URL, at this presk's schema version.

    Args:
        target: a path, or a URL such as `sqlite:///runs.db`; `sqlite://` is a new database in memory.
        create: makes the database where there is none, or an empty file.
        timeout: seconds to wait for another process' lock.

    Raises:
        DatabaseUnreadable: E5001, no such file, no SQLite file, no presk database, or not SQLite at all.
        SchemaVersionOther: E5002.
        DatabaseWriteFailed: E5004, where a new one cannot be written.
    """
    url = _url(target)
    engine = _engine(url, timeout)
    path = _path(url)
    if path is None and "mode" not in url.query:
        _migrate(engine, target)
    elif path is not None and _holds_nothing(engine, target, path):
        if not create:
            raise DatabaseUnreadable("there is no database; 'presk record' makes one", target)
        existed = path.exists()
        try:
            _migrate(engine, target)
        except PreskError:
            another = Path(f"{path}-journal").exists()  # of another process that makes it at this moment
            if not existed and path.exists() and path.stat().st_size == 0 and not another:
                path.unlink()
            raise
    _check_version(engine, target)
    return engine


def check_writable(target: str) -> None:
    """Raises, before a long run, what `open_database(target, create=True)` would; makes and changes nothing.

    Raises:
        DatabaseUnreadable: E5001.
        SchemaVersionOther: E5002.
        DatabaseWriteFailed: E5004.
    """
    path = _path(_url(target))
    if path is None:
        return
    if path.exists() and not _holds_nothing(_engine(_url(target), 5.0), target, path):
        open_database(target)
    folder = path.parent
    if not folder.is_dir():
        raise DatabaseWriteFailed("there is no such folder for the database; make it first", str(folder))
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise DatabaseWriteFailed(f"the database {_WRITE_FAILED[sqlite3.SQLITE_READONLY]}", target)


def upgrade_database(target: str) -> tuple[str, str]:
    """Brings an older database to this presk's schema version; the versions before and after.

    Raises:
        DatabaseUnreadable: E5001.
        SchemaVersionOther: E5002, where the database is newer than this presk.
        DatabaseWriteFailed: E5004.
    """
    url = _url(target)
    path = _path(url)
    if path is not None and not path.is_file():
        raise DatabaseUnreadable("there is no database; 'presk record' makes one", target)
    engine = _engine(url, 5.0)
    before = _version(engine, target)
    if before > SCHEMA_VERSION:
        raise SchemaVersionOther(_other_version(before), target)
    if before < SCHEMA_VERSION:
        _migrate(engine, target)
    return before, SCHEMA_VERSION


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection in one transaction that writes: committed at the end, or rolled back by any error (E5004, E5005)."""
    with store_errors(_name(engine)), engine.connect() as connection:
        connection.execution_options(presk_begin="begin immediate")
        with connection.begin():
            yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in one transaction that reads one state of the database."""
    with store_errors(_name(engine)), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def store_errors(place: str) -> Iterator[None]:
    """Turns an error of the driver into a PreskError of one line."""
    try:
        yield
    except DBAPIError as e:
        code = getattr(e.orig, "sqlite_errorcode", 0) & 0xFF
        if code in _WRITE_FAILED:
            raise DatabaseWriteFailed(f"the database {_WRITE_FAILED[code]}", place) from None
        if isinstance(e, IntegrityError) or code == sqlite3.SQLITE_CORRUPT:
            raise DatabaseDamaged(f"rows contradict each other: {e.orig}", place) from None
        raise DatabaseUnreadable(f"{e.orig}", place) from None


def _name(engine: Engine) -> str:
    return engine.url.database or "the database in memory"


def _url(target: str) -> URL:
    if not target or "\0" in target:
        raise DatabaseUnreadable("give a file or a database URL", target or "--db")
    if "://" not in target:
        return URL.create("sqlite", database=target)
    try:
        url = make_url(target)
    except ArgumentError:
        raise DatabaseUnreadable(
            "this is neither a path nor a database URL such as sqlite:///runs.db", target
        ) from None
    if url.get_backend_name() != "sqlite":
        raise DatabaseUnreadable(
            f"presk's queries are written for SQLite, not {url.get_backend_name()}; name a file",
            url.render_as_string(hide_password=True),
        )
    return url


def _path(url: URL) -> Path | None:
    """The file of the database; None for one in memory or a `file:` URI, which says itself how it is opened."""
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return None
    try:
        os.path.lexists(name)
        Path(name).exists()
    except (OSError, ValueError) as e:
        raise DatabaseUnreadable(f"cannot be opened: {getattr(e, 'strerror', None) or e}", name) from None
    return Path(name)


def _holds_nothing(engine: Engine, target: str, path: Path) -> bool:
    """Whether there is no file, or an empty one: also after what a killed process began is taken back."""
    if path.is_file() and path.stat().st_size > 0 and Path(f"{path}-journal").exists():
        with store_errors(target), engine.connect() as connection, connection.begin():
            connection.execute(text("select count(*) from sqlite_schema"))  # SQLite reads the journal now
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _engine(url: URL, timeout: float) -> Engine:
    memory = not url.database or url.database == ":memory:"
    try:
        engine = create_engine(
            url,
            poolclass=StaticPool if memory else NullPool,
            connect_args={"timeout": timeout, "cached_statements": 256},
        )
    except (ArgumentError, NoSuchModuleError) as e:
        raise DatabaseUnreadable(str(e), url.render_as_string(hide_password=True)) from None

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions do not cover a schema change
        for pragma in ("foreign_keys = on", "temp_store = memory", "cache_size = -65536"):
            connection.execute(f"pragma {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("presk_begin", "begin"))

    return engine


def _migrate(engine: Engine, target: str) -> None:
    with store_errors(target), engine.connect() as connection:
        connection.execution_options(presk_begin="begin immediate")
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("pragma foreign_keys = off")  # has no effect inside a transaction
        try:
            with connection.begin():
                migrate(connection)
                _fill_totals(connection)
        finally:
            driver.execute("pragma foreign_keys = on")


def _fill_totals(connection: Connection) -> None:
    """Computes the totals of recordings from before there were any."""
    query = (
        "select id from recordings r where not exists (select 1 from kernel_totals k where k.recording_id = r.id)"
        " and exists (select 1 from launches l where l.recording_id = r.id) order by id"
    )
    for (recording_id,) in connection.exec_driver_sql(query).all():
        write_totals(connection, recording_id)


def _version(engine: Engine, target: str) -> str:
    """The schema version that the database states."""
    with store_errors(target), engine.connect() as connection, connection.begin():
        has_meta = "select 1 from sqlite_schema where type = 'table' and name = 'presk_meta'"
        if connection.execute(text(has_meta)).first():
            row = connection.execute(text("select value from presk_meta where key = 'schema_version'")).first()
            if row:
                return str(row[0])
    raise DatabaseUnreadable("this SQLite file is no presk database; name another with --db", target)


def _check_version(engine: Engine, target: str) -> None:
    version = _version(engine, target)
    if version != SCHEMA_VERSION:
        raise SchemaVersionOther(_other_version(version), target)


def _other_version(version: str) -> str:
    remedy = (
        "'presk db upgrade' brings it up"
        if version < SCHEMA_VERSION
        else "upgrade presk: 'presk db upgrade' cannot go back"
    )
    return f"the database has schema version {version}, this presk has {SCHEMA_VERSION}; {remedy}"
