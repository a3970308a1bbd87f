-- The planned peak beside the largest live set, which no plan can beat.
select a.bytes as planned_bytes, a.live_bytes, a.peak_operation, o.label as peak_label
from arenas a
left join operations o on o.recording_id = a.recording_id and o.number = a.peak_operation
where a.recording_id = :recording
order by a.recording_id
