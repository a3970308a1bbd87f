-- What a program keeps from run to run: each input or weight with its new value; `in_place` where that is computed in its
-- memory.
select
  case b.role when 'weight' then 'w.' else 'in.' end || n.name as place,
  'out.' || o.name as fresh,
  s.in_place,
  exists (select 1 from by_value v where v.buffer = b.number) as by_value,
  b.role,
  b.bytes
from renewed s
join buffers b on b.recording_id = :recording and b.number = s.state
join names n on n.namespace = case b.role when 'weight' then 'field:weight' else 'field:argument' end and n.number = b.number
left join names o on o.namespace = 'field:argument' and o.number = s.output
order by s.output
