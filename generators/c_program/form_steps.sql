-- What each function does, a row an argument: launches, calls, and loops over runs of a fold's iterations. `turn` is
-- the number of places that an argument takes in turn, from `phase` on; 0 where it stays or moves by a stride. What a
-- kernel reads in the memory that it writes is no argument.
with step as ( -- items that stand alone, and the first of each loop
  select i.*, l.last_item - l.first_item + 1 as iterations, l.first_iteration, l.last_iteration
  from form_items i
  left join loops l on l.recording_id = i.recording_id and l.form = i.form and l.first_item = i.number
  where i.recording_id = :recording and not exists (
    select 1
    from loops x
    where x.recording_id = i.recording_id and x.form = i.form and i.number > x.first_item and i.number <= x.last_item
  )
), stays as ( -- a declared local at the one place of what a loop hands on from layer to layer
  select a.form, a.first_item, a.position, min(x.slot) as slot
  from loop_arguments a
  join loops l on l.recording_id = a.recording_id and l.form = a.form and l.first_item = a.first_item
  join loop_arguments o on o.recording_id = a.recording_id and o.form = a.form and o.first_item = a.first_item
    and o.kind = 'carried' and o.period = 1 and o.base = a.base
    and (o.position = a.position or o.position = a.source or o.source = a.position)
  join form_item_arguments x on x.recording_id = a.recording_id and x.form = a.form and x.position = o.position
    and x.item between l.first_item and l.last_item and x.slot_kind = 'local'
  join declared m on m.form = x.form and m.slot = x.slot
  where a.recording_id = :recording and a.kind = 'carried' and a.period = 1
  group by a.form, a.first_item, a.position
), place as ( -- the frame of a callee comes first, as argument -1
  select
    s.form, s.number as item, -1 as position,
    'frame' || case c.offset when 0 then '' else ' + ' || c.offset end as argument, 0 as turn, 0 as phase
  from step s
  join frames r on r.recording_id = :recording and r.form = s.callee and r.bytes > 0
  join frame_slots c on c.recording_id = :recording and c.form = s.form and c.kind = 'callee' and c.number = s.number
  union all
  select
    s.form, s.number, a.position,
    case when h.slot is not null then
      hn.name
    when coalesce(l.period, 0) > 0 then
      '(' || (select c_name from c_types where type = b.type) || ' *)(frame + ' || l.base
      || case when l.period > 1 then ' + turn_' || s.number || '_' || a.position || ' * ' || l.distance else '' end || ')'
    else
      n.name
    end
    || case
      when a.offset = 0 then ''
      else ' + ' || case when w.matrix is null then a.offset else a.offset / (w.k * w.n) * w.matrix end
    end
    || case
      when coalesce(l.stride, 0) = 0 then ''
      else case when l.stride > 0 then ' + l * ' else ' - l * ' end
        || case when w.matrix is null then abs(l.stride) else abs(l.stride) / (w.k * w.n) * w.matrix end
    end,
    case when l.period > 1 then l.period else 0 end,
    coalesce(l.phase, 0)
  from step s
  join form_item_arguments a on a.recording_id = :recording and a.form = s.form and a.item = s.number
  join names n on n.namespace = 'scope:' || s.form
    and n.number = case a.slot_kind when 'local' then 1000000 else 0 end + a.slot
  left join loop_arguments l on l.recording_id = :recording and l.form = a.form and l.first_item = a.item
    and l.position = a.position and s.iterations is not null
  left join stays h on h.form = a.form and h.first_item = a.item and h.position = a.position and s.iterations is not null
  left join names hn on hn.namespace = 'scope:' || s.form and hn.number = 1000000 + h.slot
  join forms f on f.recording_id = :recording and f.number = s.form
  left join call_locals c on c.recording_id = :recording and c.call = f.call and a.slot_kind = 'local' and c.number = a.slot
  left join buffers b on b.recording_id = :recording and b.number = c.buffer
  left join call_arguments g on g.recording_id = :recording and g.call = f.call and a.slot_kind = 'argument'
    and g.position = a.slot
  left join weight_places w on w.buffer = g.buffer
  where not exists (select 1 from shared x where x.kernel_id = s.kernel_id and x.read_position = a.position)
)
select
  s.form,
  s.number as item,
  coalesce(k.name, c.name) as function,
  coalesce(s.iterations, 0) as iterations,
  coalesce(s.first_iteration, 0) as first_iteration,
  coalesce(s.last_iteration, 0) as last_iteration,
  p.position,
  p.argument,
  p.turn,
  p.phase
from step s
join place p on p.form = s.form and p.item = s.number
left join names k on k.namespace = 'kernel' and k.number = s.kernel_id
left join names c on c.namespace = 'form' and c.number = s.callee
order by s.form, s.number, p.position
