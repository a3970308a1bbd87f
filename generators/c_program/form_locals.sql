-- The locals of each function that stand at one place, with their offset in its frame.
select
  f.number as form,
  n.name,
  (select c_name from c_types where type = b.type) as ctype,
  replace(replace(replace(b.shape, '[', '('), ']', ')'), ',', ', ') as shape,
  case s.offset when 0 then 'frame' else '(frame + ' || s.offset || ')' end as place
from forms f
join call_locals l on l.recording_id = f.recording_id and l.call = f.call
join declared m on m.form = f.number and m.slot = l.number
join buffers b on b.recording_id = l.recording_id and b.number = l.buffer
join names n on n.namespace = 'scope:' || f.number and n.number = 1000000 + l.number
join frame_slots s on s.recording_id = f.recording_id and s.form = f.number and s.kind = 'local' and s.number = l.number
where f.recording_id = :recording
order by f.number, l.number
