"""docs/database.md has every table and view with its columns in order, and its queries run."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine
from synthetic import recording, transformer

from presk_db.store.columns import METADATA
from presk_db.store.dump import LOCAL
from presk_db.store.engine import reading
from presk_db.store.ingest import write_recording

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")


def described() -> dict[str, list[str]]:
    found = {}
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        body = section.split("\n## ")[0]
        found[section.split("\n")[0]] = re.findall(r"^\| `(\w+)` \| \S.* \|$", body, flags=re.MULTILINE)
    return found


def test_the_page_has_every_column_in_order(engine: Engine) -> None:
    with reading(engine) as connection:
        query = "select name from pragma_table_list where schema = 'main' and name not like 'sqlite%' and name <> 'alembic_version'"
        names = [row[0] for row in connection.exec_driver_sql(query)]
        columns = {n: [r[1] for r in connection.exec_driver_sql(f"pragma table_info({n})")] for n in names}
    page = described()
    assert sorted(page) == sorted(columns)
    assert page == columns


def test_every_table_is_in_a_dump_or_local() -> None:
    """An archive holds what is no table of this machine: a new table must be one or the other."""
    (line,) = (line for line in PAGE.splitlines() if "but for the *local* tables" in line)
    assert sorted(re.findall(r"`(\w+)`", line.partition("measurements: ")[2])) == sorted(LOCAL)
    for name, table in METADATA.tables.items():
        dumped = {"recording_id", "kernel_id"} & set(table.columns.keys()) or name in ("recordings", "kernels")
        assert dumped or name in (*LOCAL, "presk_meta", "tensor_chunks"), name


QUERIES = [
    q for block in re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL) for q in block.split(";\n") if q.strip()
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_page_runs(stored: Engine, query: str) -> None:
    write_recording(stored, recording(transformer(odd=1)))
    with reading(stored) as connection:
        rows = connection.exec_driver_sql(query).all()
    assert rows or "duplicate_launches" in query or "is_affine" in query
