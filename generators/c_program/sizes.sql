-- The bytes of the weights' block and of the temporaries.
select
  coalesce(sum(case role when 'weight' then (bytes + 63) / 64 * 64 end), 0) as weight_bytes,
  coalesce(sum(case role when 'temp' then (bytes + 63) / 64 * 64 end), 0) as arena_bytes
from buffers
where recording_id = :recording
