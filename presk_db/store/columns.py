"""How a table is written down: a line of columns, a key, and what refers to what."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

METADATA = MetaData()

_KINDS: dict[str, Any] = {
    "": BigInteger().with_variant(Integer, "sqlite"),  # a STRICT table knows INTEGER, not BIGINT
    "text": Text(),
    "blob": LargeBinary(),
}


def table(name: str, columns: str, key: str, *constraints: Any, rowid: bool = False) -> Table:
    """A STRICT table, clustered by its primary key unless `rowid`.

    `columns` lists names: integers unless `:text` or `:blob` follows, not null unless `?` follows. A table that has a
    column `recording_id` refers to its recording.
    """
    parts: list[Any] = [column(word) for word in columns.split()]
    if columns.startswith("recording_id "):
        parts.append(ForeignKeyConstraint(["recording_id"], ["recordings.id"]))
    parts.append(PrimaryKeyConstraint(*key.split()))
    return Table(name, METADATA, *parts, *constraints, sqlite_strict=True, sqlite_with_rowid=rowid)


def column(word: str) -> Column[Any]:
    """The column that `name`, `name:text` or `name:blob` describes, with `?` behind where it may be null."""
    name, _, kind = word.removesuffix("?").partition(":")
    return Column(name, _KINDS[kind], nullable=word.endswith("?"))


def refers(columns: str, target: str, *, deferred: bool = False) -> ForeignKeyConstraint:
    """A foreign key: columns of this table, and `table.column …` of the other."""
    late: dict[str, Any] = {"deferrable": True, "initially": "DEFERRED"} if deferred else {}
    other, _, names = target.partition(".")
    return ForeignKeyConstraint(columns.split(), [f"{other}.{name}" for name in names.split()], **late)


def within(column: str, target: str, *, deferred: bool = False) -> ForeignKeyConstraint:
    """A reference to a row of the same recording: `column` holds the number that `table.column` has."""
    other, _, name = target.partition(".")
    return refers(f"recording_id {column}", f"{other}.recording_id {name or 'number'}", deferred=deferred)


def one_of(column: str, words: str) -> CheckConstraint:
    """A check that a column holds one of these words."""
    return CheckConstraint(f"{column} in ({', '.join(repr(w) for w in words.split())})")


def flag(column: str) -> CheckConstraint:
    """A check that a column holds 0 or 1."""
    return CheckConstraint(f"{column} in (0, 1)")
