"""Which outputs are new values of inputs and weights, and whether they can be computed in their memory.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

VIEWS = {
    # kernels/sharing.py says the same of a kernel's text; a printer refuses a pair that it does not know
    "kernel_sharing": """
with recursive inside (kernel_id, statement, variables) as (
  select kernel_id, statement, var from kernel_loops where parent is null
   union all
  select l.kernel_id, l.statement, i.variables || ',' || l.var
    from inside i
    join kernel_loops l on l.kernel_id = i.kernel_id and l.parent = i.statement
), placed as (
  select a.kernel_id, a.array, a.mode, a.statement, a.index_text,
         coalesce((
           select max(l.number)
             from kernel_statements l
            where l.kernel_id = a.kernel_id and l.kind = 'loop' and l.depth = s.depth - 1 and l.number < s.number
         ), -1) as loop
    from kernel_accesses a
    join kernel_statements s on s.kernel_id = a.kernel_id and s.number = a.statement
), whole as (
  select kernel_id, array, min(index_text) as index_text, min(loop) as loop, min(statement) as first,
         max(statement) as last
    from placed
   group by kernel_id, array
  having min(index_text) = max(index_text) and min(loop) = max(loop)
), given as (
  select w.*, p.kind, p.type, p.shape, (
           select count(*)
             from kernel_parameters q
            where q.kernel_id = p.kernel_id and q.kind in ('in', 'out') and q.position < p.position) as position
    from whole w
    join kernel_parameters p on p.kernel_id = w.kernel_id and p.name = w.array
)
select r.kernel_id, r.position as read_position, w.position as write_position
  from given r
  join given w on w.kernel_id = r.kernel_id and w.type = r.type and w.shape = r.shape and w.loop = r.loop
   and w.index_text = r.index_text
 where r.kind = 'in' and w.kind = 'out' and r.last < w.first
   and r.index_text = coalesce((
     select i.variables from inside i where i.kernel_id = r.kernel_id and i.statement = r.loop
   ), '0')""",
    "state_list": """
with recursive given as (
  select u.recording_id, u.output, v.buffer = u.output as new, a.mode, a.operation, a.position, l.kernel_id, v.offset,
         v.elements
    from updates u
    join views v on v.recording_id = u.recording_id and v.buffer in (u.output, u.state)
    join launch_arguments a on a.recording_id = v.recording_id and a.view = v.number
    join launches l on l.recording_id = a.recording_id and l.operation = a.operation
), meeting as (
  select w.recording_id, w.output, r.operation > w.operation as late, w.operation, w.kernel_id,
         r.position as read_position, w.position as write_position,
         s.kernel_id is not null and w.offset = r.offset and w.elements = r.elements as shared
    from given w
    join given r on r.recording_id = w.recording_id and r.output = w.output and not r.new
     and r.operation >= w.operation and r.offset < w.offset + w.elements and w.offset < r.offset + r.elements
    left join kernel_sharing s on s.kernel_id = w.kernel_id and s.read_position = r.position
     and s.write_position = w.position and r.operation = w.operation
   where w.new and w.mode = 'out'
), apart (recording_id, output) as (
  select recording_id, output from meeting where late or not shared
   union
  select m.recording_id, m.output
    from meeting m
    join launches l on l.recording_id = m.recording_id and l.kernel_id = m.kernel_id
   where not exists (
     select 1
       from meeting o
      where o.recording_id = l.recording_id and o.operation = l.operation and not o.late
        and o.read_position = m.read_position and o.write_position = m.write_position)
   union
  select o.recording_id, o.output
    from apart a
    join meeting m on m.recording_id = a.recording_id and m.output = a.output
    join meeting o on o.recording_id = m.recording_id and o.kernel_id = m.kernel_id
     and o.read_position = m.read_position and o.write_position = m.write_position
)
select u.recording_id, u.output, u.state, s.role, s.name, o.name as output_name,
       not exists (select 1 from apart a where a.recording_id = u.recording_id and a.output = u.output) as in_place
  from updates u
  join buffers s on s.recording_id = u.recording_id and s.number = u.state
  join buffers o on o.recording_id = u.recording_id and o.number = u.output""",
    "shared_arguments": """
select distinct l.recording_id, l.kernel_id, r.position as read_position, w.position as write_position
  from state_list s
  join views x on x.recording_id = s.recording_id and x.buffer = s.output
  join launch_arguments w on w.recording_id = x.recording_id and w.view = x.number and w.mode = 'out'
  join launches l on l.recording_id = w.recording_id and l.operation = w.operation
  join launch_arguments r on r.recording_id = w.recording_id and r.operation = w.operation and r.mode = 'in'
  join views y on y.recording_id = r.recording_id and y.number = r.view and y.buffer = s.state
 where s.in_place and y.offset < x.offset + x.elements and x.offset < y.offset + y.elements""",
}


def upgrade() -> None:
    """Makes the table and the views."""
    op.create_table(
        "updates",
        *(sa.Column(name, _INTEGER, nullable=False) for name in ("recording_id", "output", "state")),
        sa.PrimaryKeyConstraint("recording_id", "output"),
        sa.ForeignKeyConstraint(["recording_id", "output"], ["buffers.recording_id", "buffers.number"]),
        sa.ForeignKeyConstraint(["recording_id", "state"], ["buffers.recording_id", "buffers.number"]),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    for name, query in VIEWS.items():
        op.execute(f"create view {name} as{query}")
    op.execute("update presk_meta set value = '0007' where key = 'schema_version'")


def downgrade() -> None:
    """Drops them, the last one first: views read others."""
    for name in reversed(VIEWS):
        op.execute(f"drop view {name}")
    op.drop_table("updates")
    op.execute("update presk_meta set value = '0006' where key = 'schema_version'")
