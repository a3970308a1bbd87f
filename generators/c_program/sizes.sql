-- The bytes of the weights' block, and of the temporaries: the planned arena, or all of them side by side.
select
  coalesce(sum(case role when 'weight' then (bytes + 63) / 64 * 64 end), 0) as weight_bytes,
  case :straight_line
    when 1 then coalesce(sum(case role when 'temp' then (bytes + 63) / 64 * 64 end), 0)
    else (select a.bytes from arenas a where a.recording_id = :recording)
  end as arena_bytes
from buffers
where recording_id = :recording
