-- Inputs, weights and outputs with other contents.
with held as (
  select recording_id as id, role, name, type || shape as form, digest from tensors where recording_id in (:a, :b)
)
select
  k.role,
  k.name,
  a.form as form_a,
  b.form as form_b,
  substr(a.digest, 1, 16) as digest_a,
  substr(b.digest, 1, 16) as digest_b
from (select distinct role, name from held) k
left join held a on a.id = :a and a.role = k.role and a.name = k.name
left join held b on b.id = :b and b.role = k.role and b.name = k.name
where a.digest is not b.digest or a.form is not b.form
order by k.role, k.name
