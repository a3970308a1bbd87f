-- Kernels that are launched another number of times, or by one of the two alone.
with used as (
  select l.recording_id as id, l.kernel_id, count(*) as launches, min(o.label) as label
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation
  where l.recording_id in (:a, :b)
  group by l.recording_id, l.kernel_id
)
select
  substr(k.digest, 1, 16) as kernel,
  coalesce(a.label, b.label) as label,
  coalesce(a.launches, 0) as launches_a,
  coalesce(b.launches, 0) as launches_b
from (select distinct kernel_id from used) u
join kernels k on k.id = u.kernel_id
left join used a on a.id = :a and a.kernel_id = u.kernel_id
left join used b on b.id = :b and b.kernel_id = u.kernel_id
where a.launches is not b.launches
order by coalesce(a.label, b.label), k.digest
