-- What was asked for: the keys of the spec.
with leaf as (
  select r.id, replace(t.fullkey, '"', '') as key, t.type || ' ' || coalesce(t.atom, '') as typed, t.atom
  from recordings r, json_tree(r.spec) t
  where r.id in (:a, :b) and t.type not in ('object', 'array')
)
select k.key, a.atom as a, b.atom as b
from (select distinct key from leaf) k
left join leaf a on a.id = :a and a.key = k.key
left join leaf b on b.id = :b and b.key = k.key
where a.typed is not b.typed
order by k.key
