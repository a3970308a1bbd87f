-- The inputs that are one number: fields of the inputs' struct. One that a run updates in place stays the caller's memory.
select b.number as buffer
from buffers b
where b.recording_id = :recording and b.role = 'input' and b.shape = '[]' and not exists (
  select 1 from renewed s where s.state = b.number and s.in_place
)
order by b.number
