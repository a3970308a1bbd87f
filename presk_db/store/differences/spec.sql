-- What was asked for: the keys of the spec; a and b are JSON.
with leaf as (
  select
    r.id,
    replace(t.fullkey, '"', '') as key,
    case t.type
      when 'true' then 'true'
      when 'false' then 'false'
      when 'real' then replace(printf('%!.17g', t.atom), 'Inf', '1e999')
      else json_quote(t.atom)
    end as value
  from recordings r, json_tree(r.spec) t
  where r.id in (:a, :b) and t.type not in ('object', 'array')
)
select k.key, a.value as a, b.value as b
from (select distinct key from leaf) k
left join leaf a on a.id = :a and a.key = k.key
left join leaf b on b.id = :b and b.key = k.key
where a.value is not b.value
order by k.key
