"""What tools say of kernels: verdicts, property by property, and the matrix of nests and tools.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

NEST_MATRIX = """
select u.recording_id, u.kernel_id, k.digest as kernel_digest, o.label, u.launches, u.first_operation,
       v.tool, v.holds as static_control, v.reason
  from (select recording_id, kernel_id, count(*) as launches, min(operation) as first_operation
          from launches group by recording_id, kernel_id) u
  join kernels k on k.id = u.kernel_id
  join operations o on o.recording_id = u.recording_id and o.number = u.first_operation
  join kernel_verdicts v on v.kernel_id = u.kernel_id and v.property = 'static_control'"""


def upgrade() -> None:
    """Makes the table and the view."""
    op.create_table(
        "kernel_verdicts",
        sa.Column("kernel_id", _INTEGER, nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("property", sa.Text(), nullable=False),
        sa.Column("holds", _INTEGER, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("kernel_id", "tool", "property"),
        sa.ForeignKeyConstraint(["kernel_id"], ["kernels.id"]),
        sa.CheckConstraint("property in ('static_control', 'in_bounds', 'partition', 'initialized')"),
        sa.CheckConstraint("holds in (0, 1)"),
        sa.CheckConstraint("holds = (reason is null)"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(f"create view nest_matrix as{NEST_MATRIX}")
    op.execute("update presk_meta set value = '0008' where key = 'schema_version'")


def downgrade() -> None:
    """Drops them."""
    op.execute("drop view nest_matrix")
    op.drop_table("kernel_verdicts")
    op.execute("update presk_meta set value = '0007' where key = 'schema_version'")
