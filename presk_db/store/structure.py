"""write_structure: the structure of a recording, found by queries: arguments of calls, forms, loops.

The queries stand in the .sql files beside this module, each statement under a line that says what it finds.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, CursorResult

_HERE = Path(__file__).resolve().parent


def statements(name: str) -> list[str]:
    """The statements of `name`.sql, in order."""
    lines = (_HERE / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.startswith("--"))
    return [statement.strip() for statement in code.split(";\n") if statement.strip()]


def write_structure(connection: Connection, recording_id: int) -> None:
    """Fills call_locals, call_arguments, forms, call_forms, form_items, form_scalars, loops of a recording."""
    before = _temporary(connection)
    _run_all(connection, "structure", {"r": recording_id})
    highest = connection.exec_driver_sql("select max(height) from node").scalar()
    for height in range(-1 if highest is None else highest + 1):
        _run_all(connection, "level", {"r": recording_id, "height": height})
    _run_all(connection, "forms", {"r": recording_id})
    _run_all(connection, "loops", {"r": recording_id})
    _drop_all(connection, before)


def write_totals(connection: Connection, recording_id: int) -> None:
    """Fills kernel_totals, line_totals, layer_totals, idle_launches, repeated_launches of a recording."""
    before = _temporary(connection)
    _run_all(connection, "totals", {"r": recording_id})
    _drop_all(connection, before)


def _drop_all(connection: Connection, before: list[str]) -> None:
    """Drops the temporary tables that were not there before."""
    for table in _temporary(connection):
        if table not in before:
            connection.exec_driver_sql(f"drop table temp.{table}")


def _run_all(connection: Connection, name: str, parameters: dict[str, int]) -> None:
    for statement in statements(name):
        run(connection, statement, parameters)


def run(connection: Connection, statement: str, parameters: dict[str, int]) -> CursorResult[Any]:
    """The result of a statement, given those of the parameters that it names."""
    return connection.exec_driver_sql(statement, {k: v for k, v in parameters.items() if f":{k}" in statement})


def _temporary(connection: Connection) -> list[str]:
    query = "select name from sqlite_temp_schema where type = 'table' order by name"
    return [str(row[0]) for row in connection.exec_driver_sql(query)]
