-- The distinct functions, those with most calls first.
select f.number as form, u.name as function, u.source, count(*) as calls, r.bytes as frame_bytes
from forms f
join functions u on u.recording_id = f.recording_id and u.number = f.function
join call_forms c on c.recording_id = f.recording_id and c.form = f.number
join frames r on r.recording_id = f.recording_id and r.form = f.number
where f.recording_id = :recording
group by f.number
order by calls desc, f.number
