"""What a benchmark's launches come to by kernel, so that a question about a million launches reads a few rows.

Revision ID: 0011
Revises: 0010
"""

import runpy
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

BENCHMARK_LIST = """
select b.id as benchmark, b.recording_id, b.compiler, b.flags, b.cpu, b.threads, b.runs, b.nanoseconds,
       t.kernel_nanoseconds, b.nanoseconds - t.kernel_nanoseconds as host_nanoseconds,
       1.0 * t.kernel_nanoseconds / b.nanoseconds as kernel_share,
       t.arithmetic, 1e9 * t.arithmetic / b.nanoseconds as operations_per_second,
       1e9 * t.arithmetic / b.nanoseconds / b.peak_operations_per_second as share_of_peak,
       b.peak_operations_per_second, b.peak_bytes_per_second,
       r.name as best_rival, r.nanoseconds as rival_nanoseconds, 1.0 * b.nanoseconds / r.nanoseconds as ratio
  from benchmarks b
  join (
    select c.id as benchmark_id, sum(k.nanoseconds) as kernel_nanoseconds, sum(k.launches * u.arithmetic) as arithmetic
      from benchmarks c
      join benchmark_kernels k on k.benchmark_id = c.id
      join kernel_totals u on u.recording_id = c.recording_id and u.kernel_id = k.kernel_id
     group by c.id) t on t.benchmark_id = b.id
  left join (
    select benchmark_id, name, nanoseconds,
           row_number() over (partition by benchmark_id order by nanoseconds, name) as place
      from benchmark_rivals) r on r.benchmark_id = b.id and r.place = 1"""


def upgrade() -> None:
    """Makes the table from the launches' rows, and the view that reads it."""
    op.create_table(
        "benchmark_kernels",
        sa.Column("benchmark_id", _INTEGER, nullable=False),
        sa.Column("kernel_id", _INTEGER, nullable=False),
        sa.Column("launches", _INTEGER, nullable=False),
        sa.Column("nanoseconds", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("benchmark_id", "kernel_id"),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmarks.id"]),
        sa.ForeignKeyConstraint(["kernel_id"], ["kernels.id"]),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(
        "insert into benchmark_kernels select b.id, l.kernel_id, count(*), sum(t.nanoseconds) from benchmarks b"
        " cross join benchmark_launches t on t.benchmark_id = b.id"
        " cross join launches l on l.recording_id = b.recording_id and l.operation = t.operation"
        " group by b.id, l.kernel_id"
    )
    op.execute("drop view benchmark_list")
    op.execute(f"create view benchmark_list as{BENCHMARK_LIST}")
    op.execute("update presk_meta set value = '0011' where key = 'schema_version'")


def downgrade() -> None:
    """Drops the table, and makes the older view again."""
    op.execute("drop view benchmark_list")
    op.drop_table("benchmark_kernels")
    older = runpy.run_path(str(Path(__file__).with_name("0010_totals.py")))["VIEWS"]["benchmark_list"]
    op.execute(f"create view benchmark_list as{older}")
    op.execute("update presk_meta set value = '0010' where key = 'schema_version'")
