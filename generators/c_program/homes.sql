-- For each input, weight and output the buffer in whose memory it lies: its own, or that of what it updates in place.
select b.number as buffer, coalesce(s.state, b.number) as home
from buffers b
left join state_list s on s.recording_id = b.recording_id and s.output = b.number and s.in_place
where b.recording_id = :recording and b.role <> 'temp'
order by b.number
