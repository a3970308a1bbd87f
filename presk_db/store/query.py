"""rows: a query for one recording."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, text

from presk_db.store.engine import reading


def rows(engine: Engine, sql: str, recording_id: int) -> Sequence[Any]:
    """The rows of a query with the bind `:recording`."""
    with reading(engine) as connection:
        return connection.execute(text(sql), {"recording": recording_id}).all()
