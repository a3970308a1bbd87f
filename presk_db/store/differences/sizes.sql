-- Counts, and the bytes of arena, temporaries and weights.
with said as (
  select
    recording_id as id,
    json_object(
      'functions', functions, 'calls', calls, 'forms', forms, 'loops', loops, 'kernels', kernels, 'launches', launches,
      'arena bytes', arena_bytes, 'most bytes alive', live_bytes, 'bytes of temporaries', temp_bytes,
      'bytes of weights', weight_bytes
    ) as sizes
  from recording_summary
  where recording_id in (:a, :b)
)
select a.key as size, a.value as a, b.value as b
from json_each((select sizes from said where id = :a)) a
join json_each((select sizes from said where id = :b)) b on b.key = a.key
where a.value is not b.value
order by a.id
