-- The entry's inputs, or its outputs: the buffers of the role that is bound. An output that is `given` is some state.
select
  n.name,
  b.name as tensor,
  (select c_name from c_types where type = b.type) as ctype,
  'PRESK_' || upper(b.type) as dtype,
  json_array_length(b.shape) as rank,
  case b.shape when '[]' then '{0}' else replace(replace(replace(b.shape, '[', '{'), ']', '}'), ',', ', ') end as extents,
  replace(replace(replace(b.shape, '[', '('), ']', ')'), ',', ', ') as shape,
  b.elements,
  b.bytes,
  coalesce(b.int_limit, -1) as int_limit,
  s.buffer is not null as given
from buffers b
left join states s on s.recording_id = b.recording_id and s.buffer = b.number
join names n on n.namespace = 'field:argument' and n.number = b.number
where b.recording_id = :recording and b.role = :argument
order by b.number
