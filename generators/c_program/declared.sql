-- The locals that functions declare: those that do not only live in the places of a loop's carried arguments.
select distinct x.form, x.slot
from form_item_arguments x
where x.recording_id = :recording and x.slot_kind = 'local' and not exists (
  select 1
  from loops l
  left join loop_arguments a
    on a.recording_id = l.recording_id and a.form = l.form and a.first_item = l.first_item and a.position = x.position
  where l.recording_id = x.recording_id and l.form = x.form and x.item between l.first_item and l.last_item
    and (a.kind = 'carried' or x.item > l.first_item)
)
order by x.form, x.slot
