-- Inputs, weights, temporaries and outputs of another type or shape, or in one of the two alone.
with named as (
  select
    recording_id as id,
    role,
    name,
    row_number() over (partition by recording_id, role, name order by number) as place,
    type || shape as form,
    bytes
  from buffers
  where recording_id in (:a, :b)
)
select
  k.role,
  k.name,
  a.form as a,
  b.form as b,
  coalesce(b.bytes, 0) - coalesce(a.bytes, 0) as more_bytes
from (select distinct role, name, place from named) k
left join named a on a.id = :a and a.role = k.role and a.name = k.name and a.place = k.place
left join named b on b.id = :b and b.role = k.role and b.name = k.name and b.place = k.place
where a.form is not b.form
order by k.role, k.name, k.place
