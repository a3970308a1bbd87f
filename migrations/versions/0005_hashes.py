"""The hashes of what each launch of the native run wrote.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes the table; the recordings that are there have no hashes."""
    op.create_table(
        "launch_hashes",
        *(sa.Column(name, _INTEGER, nullable=False) for name in ("recording_id", "operation", "position", "hash")),
        sa.ForeignKeyConstraint(["recording_id", "operation"], ["launches.recording_id", "launches.operation"]),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]),
        sa.PrimaryKeyConstraint("recording_id", "operation", "position"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute("update presk_meta set value = '0005' where key = 'schema_version'")


def downgrade() -> None:
    """Drops the table."""
    op.drop_table("launch_hashes")
    op.execute("update presk_meta set value = '0004' where key = 'schema_version'")
