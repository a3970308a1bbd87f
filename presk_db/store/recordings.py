"""Which recordings a database holds: find, list, summarize."""

import re
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Engine, Row, text

from presk_db.errors import RecordingUnknown
from presk_db.store.engine import reading

_COLUMNS = "id, name, digest, entry, family, spec, weights_kind, weights_seed, weights_digest"


@dataclass(frozen=True)
class StoredRecording:
    """What identifies a recording, and what was asked for. `spec` is JSON; `weights_kind` is seed, file or none."""

    id: int
    name: str
    digest: str
    entry: str
    family: str
    spec: str
    weights_kind: str
    weights_seed: int | None
    weights_digest: str | None


@dataclass(frozen=True)
class Summary:
    """Counts and sizes of a recording, as the view recording_summary has them."""

    functions: int
    calls: int
    kernels: int
    launches: int
    operations: int
    forms: int
    loops: int
    temp_bytes: int
    weight_bytes: int
    arena_bytes: int | None
    live_bytes: int | None
    nanoseconds: int | None


def stored_recording(connection: Connection, recording_id: int) -> StoredRecording:
    """The recording with this id; E5003 where there is none."""
    row = connection.execute(text(f"select {_COLUMNS} from recordings where id = :id"), {"id": recording_id}).first()
    if row is None:
        raise RecordingUnknown("the database has no such recording", f"recording {recording_id}")
    return _stored(row)


def _stored(row: Row[Any]) -> StoredRecording:
    values = dict(row._mapping)
    seed = values.pop("weights_seed")
    return StoredRecording(**values, weights_seed=None if seed is None else int(seed))


def find_recording(engine: Engine, selector: str) -> StoredRecording:
    """The recording that `selector` names: `latest`, a name (the newest of that name), or a digest's first digits.

    Raises:
        RecordingUnknown: E5003, where there is none, or where the digits begin the digests of several.
    """
    order = "order by id desc"
    with reading(engine) as connection:
        if selector == "latest":
            rows = connection.execute(text(f"select {_COLUMNS} from recordings {order} limit 1")).all()
        else:
            query = text(f"select {_COLUMNS} from recordings where name = :name {order} limit 1")
            rows = connection.execute(query, {"name": selector}).all()
            if not rows and re.fullmatch("[0-9a-f]{4,64}", selector):
                query = text(f"select {_COLUMNS} from recordings where digest like :digits {order}")
                rows = connection.execute(query, {"digits": f"{selector}%"}).all()
        if not rows:
            raise RecordingUnknown(_none(connection, selector), selector)
        digests = sorted({row.digest for row in rows})
        if len(digests) > 1:
            shown = ", ".join(digest[:16] for digest in digests[:4])
            raise RecordingUnknown(
                f"{len(digests)} recordings have a digest that begins so ({shown}); give more digits", selector
            )
        return _stored(rows[0])


def _none(connection: Connection, selector: str) -> str:
    names = connection.execute(
        text("select name from recordings group by name order by max(id) desc limit 5")
    ).scalars()
    known = ", ".join(names)
    if not known:
        return "the database holds no recording yet; 'presk record' makes one"
    return f"no recording has this name or digest; there are {known}; 'presk list' shows all"


def list_recordings(engine: Engine) -> tuple[StoredRecording, ...]:
    """All recordings, the oldest first."""
    with reading(engine) as connection:
        return tuple(_stored(row) for row in connection.execute(text(f"select {_COLUMNS} from recordings order by id")))


def summary(engine: Engine, recording_id: int) -> Summary:
    """Counts and sizes of a recording."""
    names = ", ".join(field.name for field in fields(Summary))
    with reading(engine) as connection:
        query = text(f"select {names} from recording_summary where recording_id = :id")
        row = connection.execute(query, {"id": recording_id}).first()
    if row is None:
        raise RecordingUnknown("the database has no such recording", f"recording {recording_id}")
    return Summary(*row)


def read_graph(engine: Engine, recording_id: int) -> str:
    """The text of the recording's graph."""
    with reading(engine) as connection:
        graph = connection.execute(text("select graph from recordings where id = :id"), {"id": recording_id}).scalar()
    if graph is None:
        raise RecordingUnknown("the database has no such recording", f"recording {recording_id}")
    return str(graph)


def weights_path(engine: Engine, recording_id: int) -> str | None:
    """Where the weights' file was on the recording machine, if they came from one; for checks, never for an emission."""
    with reading(engine) as connection:
        query = text("select path from weight_files where recording_id = :id")
        path = connection.execute(query, {"id": recording_id}).scalar()
    return None if path is None else str(path)
