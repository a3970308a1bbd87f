-- The weight buffers, with their place in the one block of memory that holds them all.
select
  n.name,
  case b.type when 'f64' then 'double' when 'f32' then 'float' when 'bf16' then 'presk_bf16' end as ctype,
  'PRESK_' || upper(b.type) as dtype,
  replace(replace(b.shape, '[', '('), ']', ')') as shape,
  b.name as site,
  coalesce(sum((b.bytes + 63) / 64 * 64) over (
    order by b.number rows between unbounded preceding and 1 preceding
  ), 0) as byte_offset
from buffers b
join names n on n.namespace = 'field:weight' and n.number = b.number
where b.recording_id = :recording and b.role = 'weight'
order by b.number
