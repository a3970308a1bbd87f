-- The distinct kernels, in order of their first launch, with how often each is launched, and whether its right operand
-- is a weight that is packed at load.
select
  n.name,
  k.text as kernel_text,
  case count(*) when 1 then 'once' when 2 then 'twice' else count(*) || ' times' end as uses,
  exists (select 1 from packed p where p.kernel_id = l.kernel_id) as packed
from launches l
join kernels k on k.id = l.kernel_id
join names n on n.namespace = 'kernel' and n.number = l.kernel_id
where l.recording_id = :recording
group by l.kernel_id, n.name, k.text
order by min(l.operation)
