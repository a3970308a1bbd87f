-- Where the frames of all calls lie in the arena: the root's at its start, a callee's in its caller's.
insert into call_frames (recording_id, call, offset)
with recursive placed (call, form, first, base) as (
  select c.number, x.form, c.first_operation, 0
    from calls c
    join call_forms x on x.recording_id = c.recording_id and x.call = c.number
   where c.recording_id = :r and c.parent is null
  union all
  select c.number, x.form, c.first_operation, p.base + s.offset
    from placed p
    join calls c on c.recording_id = :r and c.parent = p.call
    join call_forms x on x.recording_id = c.recording_id and x.call = c.number
    join starts i on i.form = p.form and i.start = c.first_operation - p.first
    join frame_slots s on s.recording_id = :r and s.form = p.form and s.kind = 'callee' and s.number = i.number
), starts (form, start, number) as (
  select form, start, number from form_items where recording_id = :r and kind = 'call'
)
select :r, call, base from placed order by call;

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
