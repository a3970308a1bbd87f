-- Forms, by what they do: the kernels that they launch and the functions that they call, in order; and their frames.
with done as (
  select
    i.recording_id as id,
    i.form,
    group_concat(coalesce(substr(k.digest, 1, 16), u.name), ' ') over (
      partition by i.recording_id, i.form order by i.number rows between unbounded preceding and unbounded following
    ) as does,
    count(*) over (partition by i.recording_id, i.form) as items
  from form_items i
  left join kernels k on k.id = i.kernel_id
  left join forms g on g.recording_id = i.recording_id and g.number = i.callee
  left join functions u on u.recording_id = g.recording_id and u.number = g.function
  where i.recording_id in (:a, :b)
), described as (
  select f.recording_id as id, u.name, d.does, d.items, r.bytes, count(*) as calls
  from forms f
  join functions u on u.recording_id = f.recording_id and u.number = f.function
  join frames r on r.recording_id = f.recording_id and r.form = f.number
  join call_forms c on c.recording_id = f.recording_id and c.form = f.number
  join (select distinct id, form, does, items from done) d on d.id = f.recording_id and d.form = f.number
  group by f.recording_id, u.name, d.does, d.items, r.bytes
)
select
  k.name as function,
  k.items,
  k.bytes as frame_bytes,
  coalesce(a.calls, 0) as calls_a,
  coalesce(b.calls, 0) as calls_b
from (select distinct name, does, items, bytes from described) k
left join described a on a.id = :a and a.name = k.name and a.does = k.does and a.bytes = k.bytes
left join described b on b.id = :b and b.name = k.name and b.does = k.does and b.bytes = k.bytes
where a.calls is not b.calls
order by k.name, k.does, k.bytes
