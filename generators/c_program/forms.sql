-- The functions of the program, callees first. `uses` says how often the recording calls it.
select
  f.number as form,
  n.name,
  u.source,
  r.bytes as frame_bytes,
  case c.uses when 1 then 'once' when 2 then 'twice' else c.uses || ' times' end as uses
from forms f
join (
  select form, count(*) as uses from call_forms where recording_id = :recording group by form
) c on c.form = f.number
join names n on n.namespace = 'form' and n.number = f.number
join functions u on u.recording_id = f.recording_id and u.number = f.function
join frames r on r.recording_id = f.recording_id and r.form = f.number
where f.recording_id = :recording
order by f.number
