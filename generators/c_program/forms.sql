-- The functions of the program, callees first. `uses` counts calls in the recording.
select
  f.number as form,
  n.name,
  u.source,
  r.bytes as frame_bytes,
  (select count(*) from call_forms c where c.recording_id = f.recording_id and c.form = f.number) as uses
from forms f
join names n on n.namespace = 'form' and n.number = f.number
join functions u on u.recording_id = f.recording_id and u.number = f.function
join frames r on r.recording_id = f.recording_id and r.form = f.number
where f.recording_id = :recording
order by f.number
