"""EmissionReader: the one window that an emission has on the database: queries of a generator, and tensors."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import StatementError

from presk_db.errors import ChunksOther, GeneratorBad
from presk_db.recording.events import ObservedTensor
from presk_db.store.engine import reading
from presk_db.store.exact import Enclosure, read_enclosures
from presk_db.store.read import read_launch_order
from presk_db.store.recordings import StoredRecording
from presk_db.store.tensors import tensors_of
from presk_db.store.tokenizers import tokenizer_in

STEP = ("tokens", "pos", "logits")
"""What a recorded step takes and gives, besides its caches."""

NO_STEP = "nothing fixes how long a text may become: record a model's step, --entry decode with B=1 and C=1"
"""Why a recording is no step of one token."""


def chunk_of(engine: Engine, step: StoredRecording, chunk: StoredRecording) -> int:
    """The tokens C of a step that goes with a step of one token: all but C is equal, and both are of one sequence.

    Raises ChunksOther (E8010).
    """
    orders = [read_launch_order(engine, r.id) for r in (step, chunk)]
    place = f"recording {chunk.name}"
    given: list[dict[str, Any]] = []
    for r, order in zip((step, chunk), orders, strict=True):
        spec = json.loads(r.spec)
        buffers = {(b.role, b.name, b.type, b.shape) for b in order.buffers if b.role == "weight" or b.given}
        dims = {n: d for n, d in spec["dims"].items() if n != "C"}
        given.append({"entry": r.entry, **{n: spec[n] for n in _ALIKE}, "dims": dims, "weights and caches": buffers})
    for what, value in given[0].items():
        if given[1][what] != value:
            raise ChunksOther(f"its {what} are not those of {step.name}", place)
    tokens = next((b.shape for b in orders[1].buffers if (b.role, b.name) == ("input", "tokens")), ())
    if len(tokens) != 2 or tokens[0] != 1 or tokens[1] < 2:
        raise ChunksOther("it is no step of several tokens: record one with --dim C=16, or another C", place)
    return tokens[1]


_ALIKE = ("model", "realization", "weights")
"""What the specs of two steps of one program share."""

_NAMES = "namespace text, number integer, name text"


class EmissionReader:
    """Runs queries for one recording: `:recording` is bound to its id, and the temporary table `names` is there."""

    def __init__(self, connection: Connection, recording_id: int) -> None:
        self.connection = connection
        self.recording_id = recording_id

    def set_names(self, names: Sequence[tuple[str, int, str]]) -> None:
        """Fills the temporary table `names` (namespace, number, name) anew."""
        self.fill("names", _NAMES, names)

    def fill(self, table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Fills a temporary table anew; `columns` is its definition, whose names do not hold commas."""
        self.connection.execute(text(f"drop table if exists temp.{table}"))
        self.connection.execute(text(f"create temporary table {table} ({columns})"))
        names = [column.split()[0] for column in columns.split(",")]
        if rows:
            insert = f"insert into temp.{table} values ({', '.join(f':{n}' for n in names)})"
            self.connection.execute(text(insert), [dict(zip(names, row, strict=True)) for row in rows])

    def fill_by(self, table: str, sql: str, binds: Mapping[str, int | str]) -> None:
        """Makes a temporary table anew from a query's rows and columns."""
        self.connection.execute(text(f"drop table if exists temp.{table}"))
        self._result(f"create temporary table {table} as\n{sql}", binds)

    def rows(self, sql: str, binds: Mapping[str, int | str]) -> list[tuple[Any, ...]]:
        """The rows of a query as tuples."""
        return [tuple(row) for row in self._result(sql, binds)]

    def mappings(self, sql: str, binds: Mapping[str, int | str]) -> list[dict[str, Any]]:
        """The rows of a query by column."""
        return [dict(row) for row in self._result(sql, binds).mappings()]

    def tensors(self, role: str) -> tuple[ObservedTensor, ...]:
        """The recording's tensors in a role of the table: input, native_output, exact_output."""
        return tensors_of(self.connection, self.recording_id, role)

    def is_step(self) -> bool:
        """Whether the recording is a step of one token of one sequence, with a position and logits."""
        sql = (
            "select count(*) from buffers where recording_id = :recording and (role, name, shape) in"
            " (values ('input', 'tokens', '[1,1]'), ('input', 'pos', '[]'))"
            " or recording_id = :recording and role = 'output' and name = 'logits' and shape like '[1,1,%]'"
        )
        ((count,),) = self.rows(sql, {})
        return bool(count == len(STEP))

    def enclosures(self) -> tuple[Enclosure, ...]:
        """The bounds of the exact outputs, by name; none where they were not computed."""
        return read_enclosures(self.connection, self.recording_id)

    def tokenizer(self) -> bytes | None:
        """The compact file of the recording's tokenizer; None where it has none."""
        found = tokenizer_in(self.connection, self.recording_id)
        return None if found is None else found.content

    def _result(self, sql: str, binds: Mapping[str, int | str]) -> Any:
        given = {**binds, "recording": self.recording_id}
        bound = {n: v for n, v in given.items() if re.search(rf":{n}\b", sql)}
        try:
            return self.connection.execute(text(sql), bound)
        except StatementError as e:
            if getattr(e.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
                raise GeneratorBad(f"the query fails: {e.orig}") from None
            raise


@contextmanager
def emission_reader(engine: Engine, recording_id: int) -> Iterator[EmissionReader]:
    """A reader on one state of the database."""
    with reading(engine) as connection:
        yield EmissionReader(connection, recording_id)
