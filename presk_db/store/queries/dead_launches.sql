-- Launches that write nothing that is read later, and no output.
select d.operation, l.function, l.label, l.source, l.bytes_written
from dead_launches d
join launch_list l on l.recording_id = d.recording_id and l.operation = d.operation
where d.recording_id = :recording
order by d.operation
