"""Totals of launches by kernel, line and layer, work that is not needed, and the views of the standard questions.

`presk db upgrade` fills the tables for the recordings that are there.

Revision ID: 0010
Revises: 0009
"""

import runpy
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_SUMS = "launches first_operation bytes_read bytes_written arithmetic? nanoseconds?"

TABLES = {
    "kernel_totals": (f"recording_id kernel_id {_SUMS}", "recording_id kernel_id", {"kernel_id": "kernels.id"}),
    "line_totals": (
        f"recording_id function source:text {_SUMS}",
        "recording_id function source",
        {"recording_id function": "functions.recording_id functions.number"},
    ),
    "layer_totals": (
        f"recording_id fold iteration {_SUMS}",
        "recording_id fold iteration",
        {"recording_id fold": "folds.recording_id folds.number"},
    ),
    "idle_launches": (
        "recording_id operation",
        "recording_id operation",
        {"recording_id operation": "launches.recording_id launches.operation"},
    ),
    "repeated_launches": (
        "recording_id operation first",
        "recording_id operation",
        {
            "recording_id operation": "launches.recording_id launches.operation",
            "recording_id first": "launches.recording_id launches.operation",
        },
    ),
}
"""The columns of each table, integers unless `:text` follows, not null unless `?` follows; its key; what it refers to."""

VIEWS = {
    "launch_list": """
select l.recording_id, l.operation, o.call, f.name as function, c.label as call_label, o.label, o.source,
       l.kernel_id, k.digest as kernel_digest, u.bytes_read, u.bytes_written, u.arithmetic, t.nanoseconds
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation
  join calls c on c.recording_id = o.recording_id and c.number = o.call
  join functions f on f.recording_id = c.recording_id and f.number = c.function
  join kernels k on k.id = l.kernel_id
  join kernel_totals u on u.recording_id = l.recording_id and u.kernel_id = l.kernel_id
  left join launch_times t on t.recording_id = l.recording_id and t.operation = l.operation""",
    "kernel_uses": """
select u.recording_id, u.kernel_id, k.digest as kernel_digest, u.launches, u.first_operation,
       u.launches * u.bytes_read as bytes_read, u.launches * u.bytes_written as bytes_written,
       u.launches * u.arithmetic as arithmetic, u.nanoseconds
  from kernel_totals u
  join kernels k on k.id = u.kernel_id""",
    "dead_launches": """
select i.recording_id, i.operation
  from idle_launches i
 where not exists (
   select 1
     from launch_arguments a
     join views v on v.recording_id = a.recording_id and v.number = a.view
     join views w on w.recording_id = v.recording_id and w.buffer = v.buffer
      and w.offset < v.offset + v.elements and v.offset < w.offset + w.elements
     join launch_arguments r on r.recording_id = w.recording_id and r.view = w.number and r.mode = 'in'
    where a.recording_id = i.recording_id and a.operation = i.operation and a.mode = 'out'
      and r.operation > i.operation)""",
    "nest_matrix": """
select u.recording_id, u.kernel_id, k.digest as kernel_digest, o.label, u.launches, u.first_operation,
       v.tool, v.holds as static_control, v.reason
  from kernel_totals u
  join kernels k on k.id = u.kernel_id
  join operations o on o.recording_id = u.recording_id and o.number = u.first_operation
  join kernel_verdicts v on v.kernel_id = u.kernel_id and v.property = 'static_control'""",
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
    select l.benchmark_id, sum(l.nanoseconds) as kernel_nanoseconds, sum(u.arithmetic) as arithmetic
      from benchmarks c
     cross join benchmark_launches l on l.benchmark_id = c.id
     cross join launches x on x.recording_id = c.recording_id and x.operation = l.operation
      join kernel_totals u on u.recording_id = x.recording_id and u.kernel_id = x.kernel_id
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
     cross join benchmark_launches l on l.benchmark_id = b.id
     cross join launch_list x on x.recording_id = b.recording_id and x.operation = l.operation)""",
    "line_times": """
select t.recording_id, f.name as function, t.source, t.launches, t.first_operation, t.bytes_read, t.bytes_written,
       t.arithmetic, t.nanoseconds
  from line_totals t
  join functions f on f.recording_id = t.recording_id and f.number = t.function""",
    "function_times": """
select recording_id, function, sum(launches) as launches, min(first_operation) as first_operation,
       sum(bytes_read) as bytes_read, sum(bytes_written) as bytes_written, sum(arithmetic) as arithmetic,
       sum(nanoseconds) as nanoseconds
  from line_times
 group by recording_id, function""",
    "layer_times": """
select t.recording_id, t.fold, f.name as function, t.iteration, t.launches, t.first_operation, t.bytes_read,
       t.bytes_written, t.arithmetic, t.nanoseconds
  from layer_totals t
  join folds x on x.recording_id = t.recording_id and x.number = t.fold
  join functions f on f.recording_id = x.recording_id and f.number = x.function""",
    "duplicate_kernels": """
select recording_id, kernel_id, kernel_digest, launches, first_operation, same_as, alike
  from (
    select recording_id, kernel_id, kernel_digest, launches, first_operation,
           first_value(kernel_digest) over (partition by recording_id, shape order by first_operation) as same_as,
           count(*) over (partition by recording_id, shape) as alike
      from (
        select u.recording_id, u.kernel_id, k.digest as kernel_digest, u.launches, u.first_operation,
              (select group_concat(p.kind || p.type, ' ')
                 from (select * from kernel_parameters where kernel_id = u.kernel_id order by position) p) || ' ' ||
              (select group_concat(s.kind || coalesce(s.op, '') || coalesce(s.type, '') || ' '
                        || case when s.kind = 'op' or s.kind = 'const' then s.operands else '' end, ' ')
                 from (select * from kernel_statements where kernel_id = u.kernel_id order by number) s) as shape
          from kernel_totals u
          join kernels k on k.id = u.kernel_id))
 where alike > 1""",
    "duplicate_launches": """
select r.recording_id, r.operation, r.first, l.kernel_id, k.digest as kernel_digest, o.label, o.source
  from repeated_launches r
  join launches l on l.recording_id = r.recording_id and l.operation = r.operation
  join kernels k on k.id = l.kernel_id
  join operations o on o.recording_id = r.recording_id and o.number = r.operation""",
    "shared_kernels": """
select u.kernel_id, k.digest as kernel_digest, count(*) as recordings, sum(u.launches) as launches
  from kernel_totals u
  join kernels k on k.id = u.kernel_id
 group by u.kernel_id, k.digest
having count(*) > 1""",
}
"""The views, of which the first six take the place of older ones."""


def _table(name: str, columns: str, key: str, references: dict[str, str]) -> None:
    parts: list[sa.schema.SchemaItem] = []
    others = [sa.ForeignKeyConstraint(own.split(), target.split()) for own, target in references.items()]
    for word in columns.split():
        column, _, kind = word.removesuffix("?").partition(":")
        parts.append(sa.Column(column, sa.Text() if kind else _INTEGER, nullable=word.endswith("?")))
    parts.append(sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]))
    parts.append(sa.PrimaryKeyConstraint(*key.split()))
    parts += others
    op.create_table(name, *parts, sqlite_strict=True, sqlite_with_rowid=False)


def upgrade() -> None:
    """Makes the tables and the views; an index finds windows by their place in the buffer."""
    for name, (columns, key, references) in TABLES.items():
        _table(name, columns, key, references)
    op.drop_index("views_buffer", "views")
    op.create_index("views_buffer", "views", ["recording_id", "buffer", "offset"])
    for name, query in VIEWS.items():
        op.execute(f"drop view if exists {name}")
        op.execute(f"create view {name} as{query}")
    op.execute("update presk_meta set value = '0010' where key = 'schema_version'")


def _older_views() -> dict[str, str]:
    """The views that took the names before, from the revisions that made them."""
    found: dict[str, str] = {}
    for file in ("0002_views", "0004_speed", "0008_verdicts"):
        module = runpy.run_path(str(Path(__file__).with_name(f"{file}.py")))
        found |= module.get("VIEWS", {"nest_matrix": module.get("NEST_MATRIX", "")})
    return {name: query for name, query in found.items() if name in VIEWS}


def downgrade() -> None:
    """Drops the tables, and makes the older views and the older index again."""
    for name in reversed(VIEWS):
        op.execute(f"drop view {name}")
    for name in TABLES:
        op.drop_table(name)
    for name, query in _older_views().items():
        op.execute(f"create view {name} as{query}")
    op.drop_index("views_buffer", "views")
    op.create_index("views_buffer", "views", ["recording_id", "buffer"])
    op.execute("update presk_meta set value = '0009' where key = 'schema_version'")
