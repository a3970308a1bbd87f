-- Launches, found again by the path of their call, their label and their place among those: of another kernel, or alone.
with placed as (
  select
    o.recording_id as id,
    c.path,
    o.label,
    row_number() over (partition by o.recording_id, c.path, o.label order by o.number) as place,
    o.number as operation,
    k.digest
  from operations o
  join launches l on l.recording_id = o.recording_id and l.operation = o.number
  join kernels k on k.id = l.kernel_id
  join calls c on c.recording_id = o.recording_id and c.number = o.call
  where o.recording_id in (:a, :b)
), paired as (
  select a.path, a.label, a.place, a.operation as operation_a, b.operation as operation_b, a.digest as da, b.digest as db
  from placed a
  left join placed b on b.id = :b and b.path = a.path and b.label = a.label and b.place = a.place
  where a.id = :a
  union all
  select b.path, b.label, b.place, null, b.operation, null, b.digest
  from placed b
  left join placed a on a.id = :a and a.path = b.path and a.label = b.label and a.place = b.place
  where b.id = :b and a.id is null
)
select
  path,
  label,
  case when operation_b is null then 'only in a' when operation_a is null then 'only in b' else 'another kernel' end as what,
  operation_a,
  operation_b,
  substr(da, 1, 16) as kernel_a,
  substr(db, 1, 16) as kernel_b
from paired
where da is not db
order by coalesce(operation_a, operation_b), operation_a is null, path, label, place
