-- Each distinct nest has two functions: the nest, and the native kernel that it is compared with.
select namespace, number, wanted
from (
  select 'nest' as namespace, l.kernel_id as number, 'k_' || min(o.label) as wanted, min(o.number) as place
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation and o.kind = 'launch'
  where l.recording_id = :recording
  group by l.kernel_id
  union all
  select 'native', l.kernel_id, 'native_' || min(o.label), min(o.number)
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation and o.kind = 'launch'
  where l.recording_id = :recording
  group by l.kernel_id
)
order by namespace, place, number
