-- Who is alive at the operation where most temporaries are, from the lowest place in the arena up.
select p.operation, p.offset, p.bytes, p.first_use, p.last_use, p.type, p.shape, p.name
from arena_peak p
where p.recording_id = :recording
order by p.offset, p.buffer
