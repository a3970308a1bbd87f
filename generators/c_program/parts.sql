-- The tensors of the weights file, and where each goes: in file order of the recording.
with placed as (
  select
    number,
    type,
    case type when 'f64' then 8 when 'bf16' then 2 else 4 end as size,
    coalesce(sum((bytes + 63) / 64 * 64) over (
      order by number rows between unbounded preceding and 1 preceding
    ), 0) as byte_offset
  from buffers
  where recording_id = :recording and role = 'weight'
)
select
  p.tensor,
  json_array_length(p.shape) as rank,
  case p.shape when '[]' then '{0}' else replace(replace(p.shape, '[', '{'), ']', '}') end as shape,
  p.transposed,
  'PRESK_' || upper(b.type) as dtype,
  b.byte_offset + p.offset * b.size as byte_offset
from weight_parts p
join placed b on b.number = p.buffer
where p.recording_id = :recording
order by p.number
