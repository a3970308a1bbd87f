"""States: buffers whose contents the caller gives, and which the entry changes in place.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "states",
        sa.Column("recording_id", _INTEGER, nullable=False),
        sa.Column("buffer", _INTEGER, nullable=False),
        sa.ForeignKeyConstraint(["recording_id", "buffer"], ["buffers.recording_id", "buffers.number"]),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]),
        sa.PrimaryKeyConstraint("recording_id", "buffer"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute("update presk_meta set value = '0006' where key = 'schema_version'")


def downgrade() -> None:
    """Drops the table."""
    op.drop_table("states")
    op.execute("update presk_meta set value = '0005' where key = 'schema_version'")
