-- The distinct kernels by their first launch, under the names that are bound. Operands are read as they lie: not packed.
select
  min(l.operation) as first,
  n.name,
  k.text as kernel_text,
  0 as packed,
  null as plan,
  case count(*) when 1 then 'once' when 2 then 'twice' else count(*) || ' times' end as uses
from launches l
join kernels k on k.id = l.kernel_id
join names n on n.namespace = :names and n.number = l.kernel_id
where l.recording_id = :recording
group by l.kernel_id, n.name, k.text
order by min(l.operation)
