-- The entry's inputs, or its outputs: the buffers of the role that is bound. `place` says where the program holds one:
-- an output that updates its state in place lies there. `updated` says that it is such a
-- state; an output that is `given` has contents before a run.
select
  n.name,
  b.name as tensor,
  case h.role when 'weight' then 'w.' when 'input' then 'in.' else 'out.' end || n.name as place,
  h.number = b.number as own,
  h.name as home,
  h.role as home_role,
  coalesce((
    select case s.in_place when 1 then ', updated by a run' else ', whose new value is an output' end
    from renewed s
    where s.state = b.number
  ), '') as updated,
  exists (select 1 from renewed s where s.output = b.number) as updates,
  exists (select 1 from by_value v where v.buffer = b.number) as by_value,
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
join homes m on m.buffer = b.number
join buffers h on h.recording_id = b.recording_id and h.number = m.home
join names n on n.namespace = case h.role when 'weight' then 'field:weight' else 'field:argument' end and n.number = h.number
where b.recording_id = :recording and b.role = :argument
order by b.number
