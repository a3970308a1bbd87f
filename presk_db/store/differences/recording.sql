-- What was recorded, and from which weights.
with said as (
  select
    id,
    json_object(
      'name', name, 'entry', entry, 'family', family, 'weights', weights_kind, 'weights seed', weights_seed,
      'weights SHA-256', weights_digest
    ) as facts
  from recordings
)
select a.key as fact, a.value as a, b.value as b
from json_each((select facts from said where id = :a)) a
join json_each((select facts from said where id = :b)) b on b.key = a.key
where a.value is not b.value
order by a.id
