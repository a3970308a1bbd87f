"""written_arrays_of: what each launch of a recording wrote, where a program lays it, and the hash that it had."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

_WRITTEN = """
with sized as (
  select b.*, case b.type when 'f64' then 8 when 'i64' then 8 when 'f32' then 4 when 'bf16' then 2 else 1 end as size
  from buffers b
  where b.recording_id = :recording
), side_by_side as ( -- the arena of the straight-line program
  select number, coalesce(sum((bytes + 63) / 64 * 64) over (
    order by number rows between unbounded preceding and 1 preceding
  ), 0) as offset
  from sized
  where role = 'temp'
), outputs as (
  select number, row_number() over (order by number) - 1 as place from sized where role = 'output'
)
select
  a.operation,
  a.position,
  h.hash,
  l.kernel_id,
  v.elements,
  coalesce('out' || u.place, 'arena') || '+' || (coalesce(m.offset, 0) + v.offset * b.size) as structured,
  coalesce('out' || u.place, 'arena') || '+' || (coalesce(s.offset, 0) + v.offset * b.size) as straight_line,
  b.name as buffer,
  b.type || v.shape as shape
from launch_arguments a
join launches l on l.recording_id = a.recording_id and l.operation = a.operation
join views v on v.recording_id = a.recording_id and v.number = a.view
join sized b on b.number = v.buffer
left join launch_hashes h on h.recording_id = a.recording_id and h.operation = a.operation and h.position = a.position
left join arena_map m on m.recording_id = v.recording_id and m.buffer = v.buffer
left join side_by_side s on s.number = v.buffer
left join outputs u on u.number = v.buffer
where a.recording_id = :recording and a.mode = 'out'
order by a.operation, a.position
"""

_LAUNCHES = """
select o.number, o.label, o.source, f.name, c.path, l.kernel_id, k.digest
from operations o
join launches l on l.recording_id = o.recording_id and l.operation = o.number
join kernels k on k.id = l.kernel_id
join calls c on c.recording_id = o.recording_id and c.number = o.call
join functions f on f.recording_id = c.recording_id and f.number = c.function
where o.recording_id = :recording
order by o.number
"""


@dataclass(frozen=True)
class WrittenArray:
    """An array that a launch writes: its hash (None where the recording has none) and its place in either program."""

    operation: int
    position: int
    hash: int | None
    kernel_id: int
    elements: int
    structured: str
    straight_line: str
    buffer: str
    shape: str


@dataclass(frozen=True)
class LaunchPlace:
    """Where a launch stands: what it computes, the model's line, the function and the path of its call, the kernel."""

    label: str
    source: str
    function: str
    path: str
    kernel_id: int
    kernel_digest: str


def written_arrays_of(connection: Connection, recording_id: int) -> tuple[WrittenArray, ...]:
    """The arrays in the order of operations and arguments; hashes in [0, 2**64)."""
    rows = connection.execute(text(_WRITTEN), {"recording": recording_id}).all()
    return tuple(WrittenArray(n, p, None if h is None else h % 2**64, *rest) for n, p, h, *rest in rows)


def launches_by_operation(connection: Connection, recording_id: int) -> dict[int, LaunchPlace]:
    """Where each launch stands."""
    rows = connection.execute(text(_LAUNCHES), {"recording": recording_id})
    return {operation: LaunchPlace(*rest) for operation, *rest in rows}
