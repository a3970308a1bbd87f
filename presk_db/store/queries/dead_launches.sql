-- Launches on which no output depends, and why each is there: who reads what it writes.
with flow as (
  select distinct w.operation as writer, r.operation as reader
  from idle_launches i
  cross join launch_arguments w on w.recording_id = i.recording_id and w.operation = i.operation and w.mode = 'out'
  join views v on v.recording_id = w.recording_id and v.number = w.view
  join views x on x.recording_id = v.recording_id and x.buffer = v.buffer
    and x.offset < v.offset + v.elements and v.offset < x.offset + x.elements
  join launch_arguments r on r.recording_id = x.recording_id and r.view = x.number and r.mode = 'in'
    and r.operation > w.operation
  where i.recording_id = :recording
), written as ( -- what dead launches write, and who else writes and reads it
  select
    a.operation,
    a.position,
    b.name,
    (select min(f.reader) from flow f where f.writer = a.operation) as reader,
    (select count(distinct o.operation)
     from views w
     join launch_arguments o on o.recording_id = w.recording_id and o.view = w.number and o.mode = 'out'
     where w.recording_id = b.recording_id and w.buffer = b.number) as writers,
    (select count(*)
     from views w
     join launch_arguments o on o.recording_id = w.recording_id and o.view = w.number and o.mode = 'in'
     where w.recording_id = b.recording_id and w.buffer = b.number) as readers
  from idle_launches i
  cross join launch_arguments a on a.recording_id = i.recording_id and a.operation = i.operation and a.mode = 'out'
  join views v on v.recording_id = a.recording_id and v.number = a.view
  join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
  where i.recording_id = :recording
)
select
  l.operation,
  l.function,
  l.label,
  l.source,
  l.bytes_written,
  w.name as writes,
  case
    when w.reader is not null then 'only launches read it on which no output depends, the first is ' || w.reader
    when w.readers = 0 then 'nothing reads it'
    when w.writers > 1 then 'a fold collects it with other layers, and only theirs are read'
    else 'it is read only before'
  end as reason
from written w
cross join launch_list l on l.recording_id = :recording and l.operation = w.operation
order by l.operation, w.position
