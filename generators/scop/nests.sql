-- The distinct nests by their first launch, under the names that are bound; a routine is none. Operands are read as they lie: not packed.
select
  min(l.operation) as first,
  n.name,
  k.text as kernel_text,
  0 as packed,
  null as plan,
  case count(*) when 1 then 'once' when 2 then 'twice' else count(*) || ' times' end as uses
from launches l
join operations o on o.recording_id = l.recording_id and o.number = l.operation and o.kind = 'launch'
join kernels k on k.id = l.kernel_id
join names n on n.namespace = :names and n.number = l.kernel_id
where l.recording_id = :recording
group by l.kernel_id, n.name, k.text
order by min(l.operation)
