-- Every name that the C needs: (namespace, number, wanted). They become C identifiers, distinct in their namespace.
select namespace, number, wanted
from (
  select 'kernel' as namespace, l.kernel_id as number, min(o.label) as wanted, min(o.number) as place
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation
  where l.recording_id = :recording
  group by l.kernel_id
  union all
  select case role when 'weight' then 'field:weight' else 'field:argument' end, number, name, number
  from buffers
  where recording_id = :recording and role in ('weight', 'input', 'output')
)
order by namespace, place, number
