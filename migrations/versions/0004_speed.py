"""Speed: schedules that a recording was given, measurements and the plan that follows from them, timed runs.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

TABLES = {
    "plan_schedules": ("recording_id kernel_id packed schedule:text", "recording_id kernel_id packed"),
    "measurements": (
        "id kernel_id packed schedule:text nanoseconds default_nanoseconds runs compiler:text flags:text cpu:text",
        "id",
    ),
    "benchmarks": (
        "id recording_id compiler:text flags:text cpu:text threads runs nanoseconds"
        " peak_operations_per_second peak_bytes_per_second",
        "id",
    ),
    "benchmark_launches": ("benchmark_id operation nanoseconds", "benchmark_id operation"),
    "benchmark_rivals": ("benchmark_id name:text nanoseconds", "benchmark_id name"),
}
"""The columns of each table, integers unless `:text` follows, and its key."""

REFERENCES = {"kernel_id": "kernels.id", "benchmark_id": "benchmarks.id"}

VIEWS = {
    "measured_plans": """
select kernel_id, packed, schedule, ratio, measurements
  from (
    select kernel_id, packed, schedule, avg(1.0 * nanoseconds / default_nanoseconds) as ratio,
           count(*) as measurements,
           row_number() over (
             partition by kernel_id, packed order by avg(1.0 * nanoseconds / default_nanoseconds), schedule
           ) as place
      from measurements
     group by kernel_id, packed, schedule)
 where place = 1""",
    "benchmark_list": """
select b.id as benchmark, b.recording_id, b.compiler, b.flags, b.cpu, b.threads, b.runs, b.nanoseconds,
       t.kernel_nanoseconds, b.nanoseconds - t.kernel_nanoseconds as host_nanoseconds,
       1.0 * t.kernel_nanoseconds / b.nanoseconds as kernel_share,
       t.arithmetic, 1e9 * t.arithmetic / b.nanoseconds as operations_per_second,
       1e9 * t.arithmetic / b.nanoseconds / b.peak_operations_per_second as share_of_peak,
       b.peak_operations_per_second, b.peak_bytes_per_second,
       r.name as best_rival, r.nanoseconds as rival_nanoseconds, 1.0 * b.nanoseconds / r.nanoseconds as ratio
  from benchmarks b
  join (
    select l.benchmark_id, sum(l.nanoseconds) as kernel_nanoseconds, sum(x.arithmetic) as arithmetic
      from benchmark_launches l
      join benchmarks c on c.id = l.benchmark_id
      join launch_list x on x.recording_id = c.recording_id and x.operation = l.operation
     group by l.benchmark_id) t on t.benchmark_id = b.id
  left join (
    select benchmark_id, name, nanoseconds,
           row_number() over (partition by benchmark_id order by nanoseconds, name) as place
      from benchmark_rivals) r on r.benchmark_id = b.id and r.place = 1""",
    "roofline": """
select benchmark, recording_id, threads, operation, kernel_id, function, label, nanoseconds, arithmetic, bytes,
       1e9 * arithmetic / nanoseconds as operations_per_second, 1e9 * bytes / nanoseconds as bytes_per_second,
       1e9 * arithmetic / nanoseconds / peak_operations_per_second as share_of_peak,
       1e9 * bytes / nanoseconds / peak_bytes_per_second as share_of_bandwidth,
       case when arithmetic * 1.0 / peak_operations_per_second > bytes * 1.0 / peak_bytes_per_second
            then 'arithmetic' else 'memory' end as bound,
       1e9 * max(coalesce(arithmetic, 0) * 1.0 / peak_operations_per_second, bytes * 1.0 / peak_bytes_per_second)
         / nanoseconds as share_of_roofline
  from (
    select b.id as benchmark, b.recording_id, b.threads, l.operation, x.kernel_id, x.function, x.label,
           max(l.nanoseconds, 1) as nanoseconds, x.arithmetic, x.bytes_read + x.bytes_written as bytes,
           b.peak_operations_per_second, b.peak_bytes_per_second
      from benchmarks b
      join benchmark_launches l on l.benchmark_id = b.id
      join launch_list x on x.recording_id = b.recording_id and x.operation = l.operation)""",
}


def _table(name: str, columns: str, key: str) -> None:
    parts: list[sa.schema.SchemaItem] = []
    names = []
    for word in columns.split():
        column, _, kind = word.partition(":")
        parts.append(sa.Column(column, sa.Text() if kind else _INTEGER, nullable=False))
        names.append(column)
    parts.append(sa.PrimaryKeyConstraint(*key.split()))
    parts += [sa.ForeignKeyConstraint([n], [REFERENCES[n]]) for n in names if n in REFERENCES]
    if "packed" in names:
        parts.append(sa.CheckConstraint("packed in (0, 1)"))
    if "recording_id" in names:
        parts.append(sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]))
    op.create_table(name, *parts, sqlite_strict=True, sqlite_with_rowid=key == "id")


def upgrade() -> None:
    """Makes the tables and the views."""
    for name, (columns, key) in TABLES.items():
        _table(name, columns, key)
    for name, query in VIEWS.items():
        op.execute(f"create view {name} as{query}")
    op.execute("update presk_meta set value = '0004' where key = 'schema_version'")


def downgrade() -> None:
    """Drops them."""
    for name in reversed(VIEWS):
        op.execute(f"drop view {name}")
    for name in reversed(TABLES):
        op.drop_table(name)
    op.execute("update presk_meta set value = '0003' where key = 'schema_version'")
