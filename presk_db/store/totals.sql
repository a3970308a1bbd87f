-- What all launches of a kernel come to; bytes and arithmetic are those of one.
insert into kernel_totals
select
  u.recording_id,
  u.kernel_id,
  u.launches,
  u.first_operation,
  (select coalesce(sum(v.elements * (b.bytes / max(b.elements, 1))), 0)
   from launch_arguments a
   join views v on v.recording_id = a.recording_id and v.number = a.view
   join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
   where a.recording_id = u.recording_id and a.operation = u.first_operation and a.mode = 'in'),
  (select coalesce(sum(v.elements * (b.bytes / max(b.elements, 1))), 0)
   from launch_arguments a
   join views v on v.recording_id = a.recording_id and v.number = a.view
   join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
   where a.recording_id = u.recording_id and a.operation = u.first_operation and a.mode = 'out'),
  (select sum(s.executions) from kernel_statements s where s.kernel_id = u.kernel_id and s.kind in ('op', 'fold')),
  u.nanoseconds
from (
  select l.recording_id, l.kernel_id, count(*) as launches, min(l.operation) as first_operation, sum(t.nanoseconds) as nanoseconds
  from launches l
  left join launch_times t on t.recording_id = l.recording_id and t.operation = l.operation
  where l.recording_id = :r
  group by l.kernel_id
) u;

-- What the launches come to that a line of the model makes in a function.
insert into line_totals
select l.recording_id, c.function, o.source, count(*), min(l.operation), sum(k.bytes_read), sum(k.bytes_written), sum(k.arithmetic), sum(t.nanoseconds)
from launches l
join operations o on o.recording_id = l.recording_id and o.number = l.operation
join calls c on c.recording_id = o.recording_id and c.number = o.call
join kernel_totals k on k.recording_id = l.recording_id and k.kernel_id = l.kernel_id
left join launch_times t on t.recording_id = l.recording_id and t.operation = l.operation
where l.recording_id = :r
group by c.function, o.source;

-- What the launches come to in and below each iteration of a fold.
insert into layer_totals
select c.recording_id, c.fold, c.iteration, count(*), min(l.operation), sum(k.bytes_read), sum(k.bytes_written), sum(k.arithmetic), sum(t.nanoseconds)
from calls c
cross join launches l on l.recording_id = c.recording_id and l.operation between c.first_operation and c.last_operation
join kernel_totals k on k.recording_id = l.recording_id and k.kernel_id = l.kernel_id
left join launch_times t on t.recording_id = l.recording_id and t.operation = l.operation
where c.recording_id = :r and c.fold is not null
group by c.fold, c.iteration;

-- The longest window of each buffer.
create temporary table longest as
select buffer, max(elements) as elements from views where recording_id = :r group by buffer;

create unique index temp.longest_buffer on longest (buffer);

-- Who reads what a launch writes.
create temporary table flow as
select distinct w.operation as writer, r.operation as reader
from launch_arguments w
cross join views v on v.recording_id = w.recording_id and v.number = w.view
cross join longest m on m.buffer = v.buffer
cross join views x on x.recording_id = v.recording_id and x.buffer = v.buffer
  and x.offset < v.offset + v.elements and x.offset > v.offset - m.elements and v.offset < x.offset + x.elements
cross join launch_arguments r on r.recording_id = x.recording_id and r.view = x.number and r.mode = 'in'
  and +r.operation > w.operation
where w.recording_id = :r and w.mode = 'out';

create index temp.flow_reader on flow (reader);

-- Launches on which no output depends.
insert into idle_launches
with recursive live (operation) as (
  select a.operation
  from launch_arguments a
  join views v on v.recording_id = a.recording_id and v.number = a.view
  join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
  where a.recording_id = :r and a.mode = 'out' and b.role = 'output'
  union
  select f.writer from live l join flow f on f.reader = l.operation
)
select recording_id, operation from launches where recording_id = :r and operation not in (select operation from live);

-- When each buffer is written for the last time.
create temporary table settled as
select v.buffer, max(a.operation) as operation
from launch_arguments a
join views v on v.recording_id = a.recording_id and v.number = a.view
where a.recording_id = :r and a.mode = 'out'
group by v.buffer;

create unique index temp.settled_buffer on settled (buffer);

-- Launches of one kernel on the same windows, none of which is written after the first of them.
insert into repeated_launches
select :r, g.operation, g.first
from (
  select operation, min(operation) over (partition by kernel_id, given) as first
  from (
    select l.operation, l.kernel_id, group_concat(a.position || ':' || a.view) as given
    from launches l
    join launch_arguments a on a.recording_id = l.recording_id and a.operation = l.operation and a.mode = 'in'
    where l.recording_id = :r and not exists (
      select 1 from launch_scalars s where s.recording_id = l.recording_id and s.operation = l.operation
    )
    group by l.operation, l.kernel_id
  )
) g
where g.operation > g.first and not exists (
  select 1
  from launch_arguments a
  join views v on v.recording_id = a.recording_id and v.number = a.view
  join settled s on s.buffer = v.buffer and s.operation >= g.first
  where a.recording_id = :r and a.operation = g.operation and a.mode = 'in'
);
