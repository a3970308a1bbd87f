"""A recording's tokenizer: one row, and its compact file among the contents that digests name."""

import hashlib

from sqlalchemy import Connection, Engine, insert, select

from presk_db.errors import DatabaseDamaged
from presk_db.recording.events import RecordedTokenizer
from presk_db.store.engine import reading
from presk_db.store.tables import tokenizers
from presk_db.store.tensors import contents, insert_contents


def insert_tokenizer(connection: Connection, recording_id: int, tokenizer: RecordedTokenizer | None) -> None:
    """Writes it, where there is one."""
    if tokenizer is None:
        return
    row = {name: getattr(tokenizer, name) for name in ("digest", "pre_tokenizer", "tokens", "merges", "no_chat")}
    connection.execute(insert(tokenizers), [{"recording_id": recording_id, **row}])
    insert_contents(connection, tokenizer.digest, tokenizer.content)


def tokenizer_in(connection: Connection, recording_id: int) -> RecordedTokenizer | None:
    """The recording's tokenizer, or None. Errors: DatabaseDamaged (E5005)."""
    row = connection.execute(select(tokenizers).where(tokenizers.c.recording_id == recording_id)).first()
    if row is None:
        return None
    content = contents(connection, row.digest)
    if content is None or hashlib.sha256(content).hexdigest() != row.digest:
        raise DatabaseDamaged("the contents do not have the digest", f"the tokenizer of recording {recording_id}")
    return RecordedTokenizer(row.digest, row.pre_tokenizer, row.tokens, row.merges, row.no_chat, content)


def read_tokenizer(engine: Engine, recording_id: int) -> RecordedTokenizer | None:
    """The same from an engine."""
    with reading(engine) as connection:
        return tokenizer_in(connection, recording_id)
