-- The bytes of the weights' block, and of the temporaries: the planned arena, or all of them side by side.
select
  (select coalesce(sum((w.bytes + 63) / 64 * 64), 0) from weight_places w) as weight_bytes,
  case :straight_line
    when 1 then coalesce(sum((bytes + 63) / 64 * 64), 0)
    else (select a.bytes from arenas a where a.recording_id = :recording)
  end as arena_bytes
from buffers
where recording_id = :recording and role = 'temp'
