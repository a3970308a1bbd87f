-- Where the temporaries lie: one row a place, for all calls and layers that use it alike. What a loop hands on from
-- layer to layer counts as one.
with handed_on as (
  select distinct x.form, x.slot
  from loops l
  join loop_arguments a on a.recording_id = l.recording_id and a.form = l.form and a.first_item = l.first_item
    and a.kind = 'carried'
  join form_item_arguments x on x.recording_id = l.recording_id and x.form = l.form and x.position = a.position
    and x.item between l.first_item and l.last_item and x.slot_kind = 'local'
  where l.recording_id = :recording
)
select
  f.name || '/' || min(n.name) as name,
  m.offset as byte_offset,
  m.bytes,
  min(m.first_use) as first_use,
  max(m.last_use) as last_use
from arena_map m
join call_forms c on c.recording_id = m.recording_id and c.call = m.call
join call_locals l on l.recording_id = m.recording_id and l.call = m.call and l.buffer = m.buffer
join names f on f.namespace = 'form' and f.number = c.form
join names n on n.namespace = 'scope:' || c.form and n.number = 1000000 + l.number
left join handed_on h on h.form = c.form and h.slot = l.number
where m.recording_id = :recording
group by f.name, case when h.slot is null then n.name else '' end, m.offset, m.bytes
order by m.offset, first_use, name
