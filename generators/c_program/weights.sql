-- The weight buffers, with their place in the one block of memory that holds them all.
select
  n.name,
  case b.type when 'f64' then 'double' when 'f32' then 'float' when 'bf16' then 'presk_bf16' end as ctype,
  'PRESK_' || upper(b.type) as dtype,
  replace(replace(replace(b.shape, '[', '('), ']', ')'), ',', ', ')
    || case when w.matrix is null then '' else ', packed' end as shape,
  b.name as site,
  w.byte_offset
from buffers b
join names n on n.namespace = 'field:weight' and n.number = b.number
join weight_places w on w.buffer = b.number
where b.recording_id = :recording and b.role = 'weight'
order by b.number
