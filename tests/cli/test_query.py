"""presk query: named queries and SQL, as a table, CSV and JSON; nothing but reading."""

import csv
import io
import json
from pathlib import Path

import pytest
from pipeline import FIXTURES, Presk

from presk_db.cli.query import answer_csv, answer_json, answer_text
from presk_db.errors import QueryBad
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.engine import Engine, open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.query import answer, query_names, query_sql
from presk_db.store.recordings import find_recording


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A database with one recording of the user's example."""
    engine = open_database(str(tmp_path_factory.mktemp("query") / "presk.db"), create=True)
    write_recording(engine, recorded(spec_from(f"{FIXTURES / 'user' / 'mlp.py'}:forward", {})))
    return engine


@pytest.mark.parametrize("name", query_names())
def test_each_named_query_answers(engine: Engine, name: str) -> None:
    found = answer(engine, query_sql(name), 1)
    assert found.columns
    assert all(len(row) == len(found.columns) for row in found.rows)


def test_kernels_by_time_counts_every_launch(engine: Engine) -> None:
    found = answer(engine, query_sql("kernels_by_time"), 1)
    at = found.columns.index("launches")
    total = answer(engine, "select count(*) as n from launches where recording_id = :recording", 1)
    assert sum(row[at] for row in found.rows) == total.rows[0][0] == 4


@pytest.mark.parametrize(
    ("name", "key"), [("time", "milliseconds"), ("bytes", "bytes_read"), ("operations", "arithmetic")]
)
def test_kernels_by_are_one_list_in_three_orders(engine: Engine, name: str, key: str) -> None:
    found = answer(engine, query_sql(f"kernels_by_{name}"), 1)
    assert sorted(found.rows) == sorted(answer(engine, query_sql("kernels_by_time"), 1).rows)
    at = found.columns.index(key)
    sizes = [row[at] + (row[at + 1] if name == "bytes" else 0) for row in found.rows]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "sql",
    [
        "delete from calls",
        "update calls set label = 'x'",
        "insert into presk_meta values ('a', 'b')",
        "drop table calls",
        "create table x (a)",
        "pragma journal_mode = wal",
        "attach database ':memory:' as other",
        "with x as (select 1) delete from calls",
        "vacuum into 'copy.db'",
        "begin immediate",
        "select 1; delete from calls",
        "select nothing from nowhere",
        "selec 1 2",
        "-- only a comment",
    ],
)
def test_sql_that_is_no_select_is_refused_and_changes_nothing(engine: Engine, sql: str) -> None:
    before = answer(engine, "select count(*) from calls", None).rows
    with pytest.raises(QueryBad, match="E5006"):
        answer(engine, sql, None)
    assert answer(engine, "select count(*) from calls", None).rows == before


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(QueryBad, match=r"E5006 nonsense: .*peak_memory"):
        query_sql("nonsense")


def test_csv_and_json_hold_the_same_rows(engine: Engine) -> None:
    found = answer(engine, query_sql("forms_by_use"), 1)
    assert json.loads(answer_json(found)) == [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    lines = list(csv.reader(io.StringIO(answer_csv(found))))
    assert lines == [list(found.columns), *([str(v) for v in row] for row in found.rows)]


def test_values_of_every_kind(engine: Engine) -> None:
    sql = "select x'00ff' as bytes, null as n, 9e999 as large, -9e999 as small, 'a' || char(10) || 'b' as text, 0.5 as half"
    found = answer(engine, sql, None)
    row = {"bytes": "00ff", "n": None, "large": "inf", "small": "-inf", "text": "a\nb", "half": 0.5}
    assert json.loads(answer_json(found), parse_constant=pytest.fail) == [row]
    assert list(csv.reader(io.StringIO(answer_csv(found))))[1] == ["00ff", "", "inf", "-inf", "a\nb", "0.5"]
    assert answer_text(found).splitlines()[1].split() == ["00ff", "inf", "-inf", "a\\nb", "0.5"]


def test_json_refuses_two_columns_of_one_name(engine: Engine) -> None:
    found = answer(engine, "select 1 as x, 2 as x", None)
    with pytest.raises(QueryBad, match="E5006 SQL: two columns are named x"):
        answer_json(found)
    assert answer_csv(found) == "x,x\n1,2"


DEAD = """
from presk_db import language as L

def parameters(dims):
    return L.Record(w=L.parameter("w", 4, 3, 3))

def inputs(dims):
    return {"x": L.real_input(3, 3)}

def layer(x, p):
    y = L.linear(x, p)
    return y, y @ p

def added(total, y):
    return total + y

def last(p, x):
    _, kept = L.fold(layer, x, p.w, collect=True)
    return L.fold(added, x, kept[2:4])
"""


def test_why_launches_are_dead(engine: Engine, tmp_path: Path) -> None:
    """A fold collects what every layer gives, and the entry adds the last two."""
    (tmp_path / "dead.py").write_text(DEAD)
    recording = write_recording(engine, recorded(spec_from(f"{tmp_path / 'dead.py'}:last", {})))
    found = answer(engine, query_sql("dead_launches"), recording.id)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [row["operation"] for row in rows] == [1, 3]
    assert {row["reason"] for row in rows} == {"a fold collects it with other layers, and only theirs are read"}
    assert answer(engine, query_sql("dead_launches"), 1).rows == ()


def test_metadata_has_each_named_query_for_datasette(presk: Presk, engine: Engine) -> None:
    """The canned queries run as Datasette runs them: a parameter is text, empty until it is filled in."""
    said = presk("query", "--metadata", "--db", "runs/nets.db")
    assert said.status == 0
    metadata = json.loads(said.out)
    assert list(metadata["databases"]) == ["nets"]
    canned = metadata["databases"]["nets"]["queries"]
    assert list(canned) == list(query_names())
    for name, query in canned.items():
        assert query["title"] == name
        assert query["description"] == query_names()[name]
        latest = find_recording(engine, "latest").id
        for given, meant in (("", latest), ("1", 1), (None, latest)):
            expected = answer(engine, query_sql(name), meant)
            with reading(engine) as connection:
                result = connection.exec_driver_sql(query["sql"], {"recording": given})
                assert tuple(result.keys()) == expected.columns
                assert tuple(tuple(row) for row in result) == expected.rows, name
        with reading(engine) as connection:
            assert connection.exec_driver_sql(query["sql"], {"recording": "77"}).all() == []
