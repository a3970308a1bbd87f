"""Texts of a query's answer: a table, CSV, or JSON."""

import csv
import io
import json

from presk_db.cli.show import table_text
from presk_db.store.query import Answer, datasette_metadata, query_names


def names_text() -> str:
    """The named queries and what each gives."""
    return table_text(("query", "gives"), list(query_names().items()))


def answer_text(answer: Answer) -> str:
    """Columns side by side."""
    return table_text(answer.columns, [["" if v is None else _plain(v) for v in row] for row in answer.rows])


def answer_csv(answer: Answer) -> str:
    """A line of names and a line a row; NULL is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(v) for v in row] for row in answer.rows)
    return text.getvalue().removesuffix("\n")


def answer_json(answer: Answer) -> str:
    """A list with one object a row."""
    found = [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]
    return json.dumps(found, ensure_ascii=False, indent=1)


def metadata_json(target: str) -> str:
    """Datasette's metadata for the database."""
    return json.dumps(datasette_metadata(target), ensure_ascii=False, indent=1)


def _plain(value: object) -> object:
    """The value; bytes as hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value
