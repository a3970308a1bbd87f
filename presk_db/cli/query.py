"""Texts of a query's answer: a table, CSV, or JSON."""

import csv
import io
import json
import math
from collections import Counter

from presk_db.cli.show import table_text
from presk_db.errors import QueryBad
from presk_db.store.query import Answer, datasette_metadata, query_names


def names_text() -> str:
    """The named queries and what each gives."""
    return table_text(("query", "gives"), list(query_names().items()))


def answer_text(answer: Answer) -> str:
    """Columns side by side, a line a row: a line break in a text is shown as \\n."""
    return table_text([str(_cell(c)) for c in answer.columns], [list(map(_cell, row)) for row in answer.rows])


def answer_csv(answer: Answer) -> str:
    """A line of names and a line a row; NULL is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(v) for v in row] for row in answer.rows)
    return text.getvalue().removesuffix("\n")


def answer_json(answer: Answer) -> str:
    """A list with one object a row. Raises QueryBad (E5006) where two columns have one name."""
    twice = sorted(name for name, times in Counter(answer.columns).items() if times > 1)
    if twice:
        raise QueryBad(f"two columns are named {twice[0]}: name one of them with 'as', or ask for --csv", "SQL")
    found = [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]
    return json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False)


def metadata_json(target: str) -> str:
    """Datasette's metadata for the database."""
    return json.dumps(datasette_metadata(target), ensure_ascii=False, indent=1)


def _plain(value: object) -> object:
    """The value; bytes as hexadecimal digits, and an infinite number, which JSON has not, as a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def _cell(value: object) -> object:
    """What stands in a table."""
    if isinstance(value, str):
        return value.replace("\r", "\\r").replace("\n", "\\n")
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else _plain(value)
