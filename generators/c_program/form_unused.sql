-- The parameters of each function that nothing in it uses: what its kernels read in the memory that they write.
select distinct a.form, a.slot as position, n.name
from form_item_arguments a
join names n on n.namespace = 'scope:' || a.form and n.number = a.slot
where a.recording_id = :recording and a.slot_kind = 'argument' and not exists (
  select 1
  from form_item_arguments u
  join form_items i on i.recording_id = u.recording_id and i.form = u.form and i.number = u.item
  left join shared x on x.kernel_id = i.kernel_id and x.read_position = u.position
  where u.recording_id = a.recording_id and u.form = a.form and u.slot_kind = 'argument' and u.slot = a.slot
    and x.kernel_id is null
)
order by a.form, a.slot
