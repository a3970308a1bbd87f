-- The first launch that both have and that wrote something else, and how many there are.
with placed as (
  select
    o.recording_id as id,
    c.path,
    o.label,
    row_number() over (partition by o.recording_id, c.path, o.label, h.position order by o.number) as place,
    o.number as operation,
    o.source,
    h.position,
    h.hash,
    l.kernel_id
  from operations o
  join launches l on l.recording_id = o.recording_id and l.operation = o.number
  join calls c on c.recording_id = o.recording_id and c.number = o.call
  join launch_hashes h on h.recording_id = o.recording_id and h.operation = o.number
  where o.recording_id in (:a, :b)
)
select
  a.operation as operation_a,
  b.operation as operation_b,
  a.path,
  a.label,
  a.source,
  a.position as argument,
  a.kernel_id = b.kernel_id as same_kernel,
  count(*) over () as differ
from placed a
join placed b on b.id = :b and b.path = a.path and b.label = a.label and b.place = a.place and b.position = a.position
where a.id = :a and a.hash <> b.hash
order by a.operation, a.position
limit 1
