"""The tokenizer that goes out with a recording's program.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "tokenizers",
        sa.Column("recording_id", _INTEGER, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("pre_tokenizer", sa.Text(), nullable=False),
        sa.Column("tokens", _INTEGER, nullable=False),
        sa.Column("merges", _INTEGER, nullable=False),
        sa.Column("no_chat", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]),
        sa.PrimaryKeyConstraint("recording_id"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute("update presk_meta set value = '0009' where key = 'schema_version'")


def downgrade() -> None:
    """Drops it."""
    op.drop_table("tokenizers")
    op.execute("update presk_meta set value = '0008' where key = 'schema_version'")
