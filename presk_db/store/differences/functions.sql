-- The functions of the model: where they are written, how often they are called, and into how many forms.
with used as (
  select
    c.recording_id as id,
    f.name,
    min(f.source) as source,
    count(*) as calls,
    count(distinct x.form) as forms,
    (select sum(r.bytes)
     from forms g
     join frames r on r.recording_id = g.recording_id and r.form = g.number
     join functions h on h.recording_id = g.recording_id and h.number = g.function
     where g.recording_id = c.recording_id and h.name = f.name) as frame_bytes
  from calls c
  join functions f on f.recording_id = c.recording_id and f.number = c.function
  left join call_forms x on x.recording_id = c.recording_id and x.call = c.number
  where c.recording_id in (:a, :b)
  group by c.recording_id, f.name
)
select
  k.name as function,
  a.source as source_a,
  b.source as source_b,
  a.calls as calls_a,
  b.calls as calls_b,
  a.forms as forms_a,
  b.forms as forms_b,
  a.frame_bytes as frame_bytes_a,
  b.frame_bytes as frame_bytes_b
from (select distinct name from used) k
left join used a on a.id = :a and a.name = k.name
left join used b on b.id = :b and b.name = k.name
where a.calls is not b.calls or a.forms is not b.forms or a.frame_bytes is not b.frame_bytes or a.source is not b.source
order by k.name
