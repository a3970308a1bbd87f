-- Every launch in order, a row an argument; temporaries each have memory of their own.
with placed as (
  select
    number,
    coalesce(sum((bytes + 63) / 64 * 64) over (
      order by number rows between unbounded preceding and 1 preceding
    ), 0) as byte_offset
  from buffers
  where recording_id = :recording and role = 'temp'
)
select
  o.number as operation,
  n.name as kernel,
  case h.role
    when 'weight' then 'w->' || wn.name
    when 'input' then case when bv.buffer is null then 'in->' else '&in->' end || an.name
    when 'output' then 'out->' || an.name
    else '(' || (select c_name from c_types where type = b.type) || ' *)((unsigned char *)arena + ' || t.byte_offset || ')'
  end || case
    when v.offset = 0 then ''
    when w.matrix is null then ' + ' || v.offset
    else ' + ' || (v.offset / (w.k * w.n) * w.matrix)
  end as argument
from operations o
join launches l on l.recording_id = o.recording_id and l.operation = o.number
join names n on n.namespace = 'kernel' and n.number = l.kernel_id
join launch_arguments a on a.recording_id = o.recording_id and a.operation = o.number
join views v on v.recording_id = a.recording_id and v.number = a.view
join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
left join homes m on m.buffer = b.number
left join buffers h on h.recording_id = b.recording_id and h.number = m.home
left join names wn on wn.namespace = 'field:weight' and wn.number = h.number
left join names an on an.namespace = 'field:argument' and an.number = h.number
left join placed t on t.number = b.number
left join by_value bv on bv.buffer = h.number
left join weight_places w on w.buffer = b.number
where o.recording_id = :recording
  and not exists (select 1 from shared x where x.kernel_id = l.kernel_id and x.read_position = a.position)
order by o.number, a.position
