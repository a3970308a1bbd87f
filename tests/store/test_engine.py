"""Opening, making, upgrading: every way in which it fails is one line with its code."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect
from synthetic import recording, transformer

from presk_db.errors import DatabaseUnreadable, DatabaseWriteFailed, SchemaVersionOther
from presk_db.resources import resource_folder
from presk_db.store import structure_tables, tables
from presk_db.store.check import check_database, schema
from presk_db.store.columns import METADATA
from presk_db.store.engine import open_database, reading, upgrade_database, writing
from presk_db.store.ingest import write_recording
from presk_db.store.migrate import migrate


def test_a_new_database_is_at_head_and_sound(database: Path) -> None:
    engine = open_database(str(database), create=True)
    with reading(engine) as connection:
        assert connection.exec_driver_sql("pragma foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("select value from presk_meta").scalar() == tables.SCHEMA_VERSION
        assert connection.exec_driver_sql("select version_num from alembic_version").scalar() == tables.SCHEMA_VERSION
        loose = "select name from pragma_table_list where schema = 'main' and type = 'table' and not strict"
        assert [row[0] for row in connection.exec_driver_sql(loose)] == ["sqlite_schema"]
    assert check_database(str(database)) == []
    assert os.listdir(database.parent) == ["presk.db"]


def test_the_head_is_the_version_that_the_code_expects() -> None:
    revisions = sorted(path.name[:4] for path in (resource_folder("migrations") / "versions").glob("0*.py"))
    assert revisions[-1] == tables.SCHEMA_VERSION


def test_making_a_database_prints_nothing(database: Path) -> None:
    code = f"from presk_db.store.engine import open_database; open_database({str(database)!r}, create=True)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_the_models_are_the_migrated_tables() -> None:
    assert structure_tables.forms.metadata is METADATA
    migrated = open_database("sqlite://", create=True)
    described = create_engine("sqlite://")
    METADATA.create_all(described)
    with described.connect() as ours, reading(migrated) as theirs:
        right = {name: sql for name, sql in schema(theirs).items() if not name.startswith("view ")}
        del right["table alembic_version"]
        assert schema(ours) == right
    assert set(inspect(described).get_table_names()) == set(METADATA.tables)


def test_migrations_go_down_and_up_again() -> None:
    engine = open_database("sqlite://", create=True)
    write_recording(engine, recording(transformer()))
    driver = engine.raw_connection().driver_connection
    assert driver is not None
    with writing(engine) as connection:
        before = schema(connection)
    driver.execute("pragma foreign_keys = off")
    with writing(engine) as connection:
        migrate(connection, "0001")
        assert connection.exec_driver_sql("select value from presk_meta").scalar() == "0001"
        assert not [name for name in schema(connection) if name.startswith("view ")]
        migrate(connection)
        assert schema(connection) == before
        assert connection.exec_driver_sql("select count(*) from launches").scalar() == 38
    with writing(engine) as connection:
        migrate(connection, "base")
        assert list(schema(connection)) == ["table alembic_version"]
        migrate(connection)
        assert schema(connection) == before


def test_a_path_or_a_url(database: Path) -> None:
    open_database(f"sqlite:///{database}", create=True)
    open_database(str(database))
    open_database(f"sqlite:///file:{database}?mode=ro&uri=true")


def test_no_database(database: Path) -> None:
    for make in (open_database, upgrade_database, check_database):
        with pytest.raises(DatabaseUnreadable, match=r"E5001 .*presk\.db: there is no database"):
            make(str(database))  # type: ignore[operator]
    assert not database.exists()
    with pytest.raises(DatabaseUnreadable, match="E5001"):
        open_database(str(database / "folder" / "presk.db"), create=True)


def test_an_empty_file_is_filled_only_on_request(database: Path) -> None:
    database.write_bytes(b"")
    with pytest.raises(DatabaseUnreadable, match="E5001"):
        open_database(str(database))
    open_database(str(database), create=True)


def test_another_file(database: Path) -> None:
    database.write_bytes(b"no database at all " * 100)
    for create in (False, True):
        with pytest.raises(DatabaseUnreadable, match=r"E5001 .*file is not a database"):
            open_database(str(database), create=create)
    assert database.read_bytes() == b"no database at all " * 100


def test_another_sqlite_database(database: Path) -> None:
    sqlite3.connect(database).execute("create table cats (name)")
    with pytest.raises(DatabaseUnreadable, match=r"E5001 .*no presk database"):
        open_database(str(database), create=True)


@pytest.mark.parametrize("target", ["postgresql://host/db", "sqlite+nothing://", "://", "no such scheme://x"])
def test_a_url_that_is_not_sqlite(target: str) -> None:
    with pytest.raises(DatabaseUnreadable, match="E5001"):
        open_database(target, create=True)


def _set_version(database: Path, version: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("update presk_meta set value = ?", (version,))
        connection.execute("update alembic_version set version_num = ?", (version,))
    connection.close()


def test_a_newer_database_is_refused(database: Path) -> None:
    open_database(str(database), create=True)
    _set_version(database, "9999")
    for opened in (open_database, upgrade_database, check_database):
        with pytest.raises(SchemaVersionOther, match=f"E5002 .*9999.*{tables.SCHEMA_VERSION}.*presk db upgrade"):
            opened(str(database))  # type: ignore[operator]


def test_an_older_database_is_upgraded_on_request(database: Path) -> None:
    engine = open_database(str(database), create=True)
    write_recording(engine, recording(transformer()))
    driver = sqlite3.connect(database, isolation_level=None)
    for (view,) in driver.execute("select name from sqlite_schema where type = 'view'").fetchall():
        driver.execute(f"drop view {view}")
    text = (resource_folder("migrations") / "versions" / "0001_tables.py").read_text()
    later = set(METADATA.tables) - set(re.findall(r'\btable\(\s*"(\w+)"', text))
    totals = {name: driver.execute(f"select * from {name}").fetchall() for name in sorted(later) if "totals" in name}
    assert len(totals) == 3
    assert all(totals.values())
    for table in later:
        driver.execute(f"drop table {table}")
    driver.execute("drop index views_buffer")
    driver.execute("create index views_buffer on views (recording_id, buffer)")
    driver.close()
    _set_version(database, "0001")
    with pytest.raises(SchemaVersionOther, match=f"E5002 .*0001.*{tables.SCHEMA_VERSION}.*presk db upgrade"):
        open_database(str(database))
    assert upgrade_database(str(database)) == ("0001", tables.SCHEMA_VERSION)
    assert upgrade_database(str(database)) == (tables.SCHEMA_VERSION, tables.SCHEMA_VERSION)
    assert check_database(str(database)) == []
    driver = sqlite3.connect(database)
    assert {name: driver.execute(f"select * from {name}").fetchall() for name in totals} == totals
    driver.close()


def test_a_locked_database(database: Path) -> None:
    engine = open_database(str(database), create=True, timeout=0.05)
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("begin exclusive")
    with pytest.raises(DatabaseWriteFailed, match=r"E5004 .*locked"):
        write_recording(engine, recording(transformer()))
    holder.execute("rollback")
    holder.close()
    assert write_recording(engine, recording(transformer())).id == 1


def test_a_read_only_database(database: Path) -> None:
    open_database(str(database), create=True)
    engine = open_database(f"sqlite:///file:{database}?mode=ro&uri=true")
    with pytest.raises(DatabaseWriteFailed, match=r"E5004 .*read-only"):
        write_recording(engine, recording(transformer()))
