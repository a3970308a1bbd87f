-- Where the frames of all calls lie in the arena: the root's at its start, a callee's in its caller's.
create temp table entered (form integer, start integer, offset integer, primary key (form, start)) without rowid;

insert into entered
select i.form, i.start, s.offset
  from form_items i
  join frame_slots s on s.recording_id = i.recording_id and s.form = i.form and s.kind = 'callee' and s.number = i.number
 where i.recording_id = :r and i.kind = 'call';

insert into call_frames (recording_id, call, offset)
with recursive placed (call, form, first, base) as (
  select c.number, x.form, c.first_operation, 0
    from calls c
    join call_forms x on x.recording_id = c.recording_id and x.call = c.number
   where c.recording_id = :r and c.parent is null
  union all
  select c.number, x.form, c.first_operation, p.base + e.offset
    from placed p  -- cross joins are taken in the order in which they stand
   cross join calls c indexed by calls_parent on c.recording_id = :r and c.parent = p.call
   cross join call_forms x on x.recording_id = c.recording_id and x.call = c.number
   cross join entered e on e.form = p.form and e.start = c.first_operation - p.first
)
select :r, call, base from placed order by call;

drop table temp.entered;

-- The first operation at which most bytes of temps are alive, and how many: as the view arena_timeline has it.
select operation, sum(sum(change)) over (order by operation)
  from (
    select l.first_operation as operation, b.bytes as change
      from call_locals l
      join buffers b on b.recording_id = l.recording_id and b.number = l.buffer
     where l.recording_id = :r
     union all
    select l.last_operation + 1, -b.bytes
      from call_locals l
      join buffers b on b.recording_id = l.recording_id and b.number = l.buffer
     where l.recording_id = :r
  )
 group by operation
 order by 2 desc, 1
 limit 1;
