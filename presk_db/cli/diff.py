"""The command diff: what changed between two recordings."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from presk_db.cli.query import answer_json, answer_text
from presk_db.store.differences import Section, differences
from presk_db.store.engine import Engine, open_database
from presk_db.store.extract import copied
from presk_db.store.query import Answer
from presk_db.store.recordings import find_recording


def diff_command(cli: click.Group, db_option: Callable[..., Any]) -> None:
    """Adds the command to `presk`."""

    @cli.command()
    @click.argument("a")
    @click.argument("b")
    @click.option("--db2", help="The database of B, where it is another one.")
    @click.option("--json", "as_json", is_flag=True, help="An object with a list of rows for each section.")
    @click.option(
        "--rows", type=click.IntRange(0), default=20, show_default=True, help="The most rows of a section; 0 for all."
    )
    @db_option
    def diff(a: str, b: str, db2: str | None, as_json: bool, rows: int, db: str) -> None:
        """Tells what changed from recording A to B: spec, functions, kernels, launches, arena, outputs."""
        engine, first, second = _both(a, b, db, db2)
        found = differences(engine, first, second)
        if as_json:
            click.echo(json.dumps({s.name: json.loads(answer_json(s.answer)) for s in found}, indent=1))
        else:
            click.echo(sections_text(found, rows) if found else f"{a} and {b} do not differ")


def _both(a: str, b: str, db: str, db2: str | None) -> tuple[Engine, int, int]:
    """A database that holds both recordings, and their ids in it."""
    engine = open_database(db)
    first = find_recording(engine, a).id
    if db2 is None:
        return engine, first, find_recording(engine, b).id
    other = open_database(db2)
    second = find_recording(other, b).id
    both = open_database("sqlite://", create=True)
    return both, copied(engine, first, both).id, copied(other, second, both).id


def sections_text(sections: Sequence[Section], rows: int) -> str:
    """Each section's title and table, with at most so many rows (0: all)."""
    texts = []
    for s in sections:
        shown = s.answer.rows if rows == 0 else s.answer.rows[:rows]
        more = len(s.answer.rows) - len(shown)
        rest = f"\n… and {more} more; --rows 0 shows all" if more else ""
        texts.append(f"{s.name}: {s.title}\n{answer_text(Answer(s.answer.columns, shown))}{rest}")
    return "\n\n".join(texts)
