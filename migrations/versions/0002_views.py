"""The public views: the face of the database, described column by column in docs/database.md.

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SIZE = "case b.type when 'f64' then 8 when 'i64' then 8 when 'f32' then 4 when 'bf16' then 2 else 1 end"

_MOVED = f"""
      (select coalesce(sum(v.elements * {_SIZE}), 0)
         from launch_arguments a
         join views v on v.recording_id = a.recording_id and v.number = a.view
         join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
        where a.recording_id = l.recording_id and a.operation = l.operation and a.mode = 'MODE')"""

VIEWS = {
    "launch_list": f"""
select l.recording_id, l.operation, o.call, f.name as function, c.label as call_label, o.label, o.source,
       l.kernel_id, k.digest as kernel_digest,
       {_MOVED.replace("MODE", "in")} as bytes_read,
       {_MOVED.replace("MODE", "out")} as bytes_written,
      (select sum(s.executions) from kernel_statements s
        where s.kernel_id = l.kernel_id and s.kind in ('op', 'fold')) as arithmetic,
       t.nanoseconds
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation
  join calls c on c.recording_id = o.recording_id and c.number = o.call
  join functions f on f.recording_id = c.recording_id and f.number = c.function
  join kernels k on k.id = l.kernel_id
  left join launch_times t on t.recording_id = l.recording_id and t.operation = l.operation""",
    "kernel_uses": """
select recording_id, kernel_id, kernel_digest, count(*) as launches, min(operation) as first_operation,
       sum(bytes_read) as bytes_read, sum(bytes_written) as bytes_written, sum(arithmetic) as arithmetic,
       sum(nanoseconds) as nanoseconds
  from launch_list
 group by recording_id, kernel_id, kernel_digest""",
    "tensor_list": f"""
select t.recording_id, t.role, t.buffer, t.name, t.type, t.shape, b.elements, b.elements * {_SIZE} as bytes, t.digest,
      (select count(*) from tensor_chunks x where x.digest = t.digest) as chunks
  from tensors t
  join buffers b on b.recording_id = t.recording_id and b.number = t.buffer""",
    "call_tree": """
with recursive tree (recording_id, call, path) as (
  select c.recording_id, c.number, f.name
    from calls c join functions f on f.recording_id = c.recording_id and f.number = c.function
   where c.parent is null
  union all
  select c.recording_id, c.number, t.path || '/' || f.name || coalesce('[' || c.iteration || ']', '')
    from tree t
    cross join calls c on c.recording_id = t.recording_id and c.parent = t.call
    join functions f on f.recording_id = c.recording_id and f.number = c.function
)
select c.recording_id, c.number as call, c.parent, c.depth, t.path, f.name as function, c.label, c.fold, c.iteration,
       c.first_operation, c.last_operation, coalesce(c.last_operation - c.first_operation + 1, 0) as operations, x.form
  from tree t
  join calls c on c.recording_id = t.recording_id and c.number = t.call
  join functions f on f.recording_id = c.recording_id and f.number = c.function
  left join call_forms x on x.recording_id = c.recording_id and x.call = c.number""",
    "buffer_lifetimes": """
select b.recording_id, b.number as buffer, b.role, b.name, b.type, b.shape, b.bytes,
       min(case when a.mode = 'out' then a.operation end) as first_definition,
       min(case when a.mode = 'in' then a.operation end) as first_read,
       max(case when a.mode = 'in' then a.operation end) as last_read,
       min(a.operation) as first_use, max(a.operation) as last_use
  from buffers b
  left join views v on v.recording_id = b.recording_id and v.buffer = b.number
  left join launch_arguments a on a.recording_id = v.recording_id and a.view = v.number
 group by b.recording_id, b.number, b.role, b.name, b.type, b.shape, b.bytes""",
    "arena_timeline": """
with lived as (
  select recording_id, bytes, first_use, last_use from buffer_lifetimes where role = 'temp' and first_use is not null
), changes as (
  select recording_id, operation, sum(bytes) as bytes
    from (select recording_id, first_use as operation, bytes from lived
           union all
          select recording_id, last_use + 1, -bytes from lived)
   group by recording_id, operation
)
select o.recording_id, o.number as operation,
       sum(coalesce(c.bytes, 0)) over (partition by o.recording_id order by o.number) as live_bytes
  from operations o
  left join changes c on c.recording_id = o.recording_id and c.operation = o.number""",
    "arena_map": """
with recursive placed (recording_id, call, base) as (
  select c.recording_id, c.number, 0 from calls c where c.parent is null
  union all
  select p.recording_id, c.number, p.base + s.offset
    from placed p
    cross join calls c on c.recording_id = p.recording_id and c.parent = p.call
    cross join calls caller on caller.recording_id = p.recording_id and caller.number = p.call
    cross join call_forms x on x.recording_id = p.recording_id and x.call = p.call
    cross join form_items i on i.recording_id = x.recording_id and i.form = x.form and i.kind = 'call'
     and i.start = c.first_operation - caller.first_operation
    cross join frame_slots s on s.recording_id = i.recording_id and s.form = i.form and s.kind = 'callee'
     and s.number = i.number
)
select p.recording_id, l.buffer, l.call, b.name, p.base + s.offset as offset, b.bytes,
       l.first_operation as first_use, l.last_operation as last_use
  from placed p
  join call_forms x on x.recording_id = p.recording_id and x.call = p.call
  join call_locals l on l.recording_id = p.recording_id and l.call = p.call
  join buffers b on b.recording_id = l.recording_id and b.number = l.buffer
  join frame_slots s on s.recording_id = x.recording_id and s.form = x.form and s.kind = 'local' and s.number = l.number""",
    "arena_peak": """
select a.recording_id, a.peak_operation as operation, m.buffer, m.name, b.type, b.shape, m.bytes, m.offset,
       m.first_use, m.last_use
  from arenas a
  join arena_map m on m.recording_id = a.recording_id and a.peak_operation between m.first_use and m.last_use
  join buffers b on b.recording_id = m.recording_id and b.number = m.buffer""",
    "dead_launches": """
select l.recording_id, l.operation
  from launches l
 where not exists (
   select 1
     from launch_arguments a
     join views v on v.recording_id = a.recording_id and v.number = a.view
     join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
    where a.recording_id = l.recording_id and a.operation = l.operation and a.mode = 'out'
      and (b.role = 'output' or exists (
        select 1
          from views w
          join launch_arguments r on r.recording_id = w.recording_id and r.view = w.number
         where w.recording_id = v.recording_id and w.buffer = v.buffer and r.mode = 'in' and r.operation > l.operation
           and w.offset < v.offset + v.elements and v.offset < w.offset + w.elements)))""",
    "recording_summary": """
select r.id as recording_id, r.name, r.digest, r.entry, r.family,
      (select count(*) from functions x where x.recording_id = r.id) as functions,
      (select count(*) from calls x where x.recording_id = r.id) as calls,
      (select count(distinct x.kernel_id) from launches x where x.recording_id = r.id) as kernels,
      (select count(*) from launches x where x.recording_id = r.id) as launches,
      (select count(*) from operations x where x.recording_id = r.id) as operations,
      (select count(*) from forms x where x.recording_id = r.id) as forms,
      (select count(*) from loops x where x.recording_id = r.id) as loops,
      (select coalesce(sum(x.bytes), 0) from buffers x where x.recording_id = r.id and x.role = 'temp') as temp_bytes,
      (select coalesce(sum(x.bytes), 0) from buffers x where x.recording_id = r.id and x.role = 'weight') as weight_bytes,
      (select x.bytes from arenas x where x.recording_id = r.id) as arena_bytes,
      (select x.live_bytes from arenas x where x.recording_id = r.id) as live_bytes,
      (select x.nanoseconds from native_runs x where x.recording_id = r.id) as nanoseconds
  from recordings r""",
}


def upgrade() -> None:
    """Makes the views."""
    for name, query in VIEWS.items():
        op.execute(f"create view {name} as{query}")
    op.execute("update presk_meta set value = '0002' where key = 'schema_version'")


def downgrade() -> None:
    """Drops the views, the last one first: some read others."""
    for name in reversed(VIEWS):
        op.execute(f"drop view {name}")
    op.execute("update presk_meta set value = '0001' where key = 'schema_version'")
