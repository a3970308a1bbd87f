-- The schedules that the recordings were given.
with given as (
  select p.recording_id as id, k.digest, p.packed, replace(p.schedule, char(10), '; ') as schedule
  from plan_schedules p
  join kernels k on k.id = p.kernel_id
  where p.recording_id in (:a, :b)
)
select substr(k.digest, 1, 16) as kernel, k.packed, a.schedule as a, b.schedule as b
from (select distinct digest, packed from given) k
left join given a on a.id = :a and a.digest = k.digest and a.packed = k.packed
left join given b on b.id = :b and b.digest = k.digest and b.packed = k.packed
where a.schedule is not b.schedule
order by k.digest, k.packed
