"""What the exact computation says of a recording's outputs: errors in ulp, histograms, enclosures.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def table(name: str, columns: str, key: str, *constraints: sa.Constraint) -> None:
    """Makes a STRICT table of a recording; columns are integers unless `:text` follows, not null unless `?` follows."""
    parts: list[sa.schema.SchemaItem] = []
    for word in columns.split():
        column, _, kind = word.removesuffix("?").partition(":")
        parts.append(sa.Column(column, sa.Text() if kind else _INTEGER, nullable=word.endswith("?")))
    parts += [sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]), sa.PrimaryKeyConstraint(*key.split())]
    op.create_table(name, *parts, *constraints, sqlite_strict=True, sqlite_with_rowid=False)


def within(target: str) -> sa.ForeignKeyConstraint:
    """A reference of `buffer` to a row of the same recording."""
    other, _, name = target.partition(".")
    return sa.ForeignKeyConstraint(["recording_id", "buffer"], [f"{other}.recording_id", f"{other}.{name}"])


def upgrade() -> None:
    """Makes the tables."""
    table("exact_runs", "recording_id precision", "recording_id")
    table(
        "exact_errors",
        "recording_id buffer max_ulp:text mean_ulp:text radius_ulp:text"
        " worst_element? native_bits? lower_bits? upper_bits? condition:text? agreeing differing",
        "recording_id buffer",
        within("buffers.number"),
    )
    table(
        "exact_bounds",
        "recording_id buffer bound:text digest:text",
        "recording_id buffer bound",
        within("exact_errors.buffer"),
        sa.CheckConstraint("bound in ('lower', 'upper')"),
    )
    table(
        "ulp_histogram",
        "recording_id buffer exponent elements",
        "recording_id buffer exponent",
        within("exact_errors.buffer"),
    )
    op.execute("update presk_meta set value = '0003' where key = 'schema_version'")


def downgrade() -> None:
    """Drops the tables."""
    for name in ("ulp_histogram", "exact_bounds", "exact_errors", "exact_runs"):
        op.drop_table(name)
    op.execute("update presk_meta set value = '0002' where key = 'schema_version'")
