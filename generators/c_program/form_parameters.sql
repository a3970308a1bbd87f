-- The parameters of each function, in order, as its first call has them; the frame, if it needs one, comes first.
-- `given` is what the library's entry passes to the last function.
select
  f.number as form,
  -1 as position,
  'frame' as name,
  'unsigned char' as ctype,
  r.bytes || ' bytes of temporaries' as shape,
  'arena' as given
from forms f
join frames r on r.recording_id = f.recording_id and r.form = f.number and r.bytes > 0
where f.recording_id = :recording
union all
select
  f.number,
  a.position,
  n.name,
  case a.mode when 'read' then 'const ' else '' end || (select c_name from c_types where type = b.type),
  case
    when v.shape is not null then replace(replace(replace(v.shape, '[', '('), ']', ')'), ',', ', ')
    when a.offset = 0 and a.elements = b.elements then replace(replace(replace(b.shape, '[', '('), ']', ')'), ',', ', ')
    else '(' || a.elements || ' elements)'
  end || case when p.matrix is null then '' else ', packed' end,
  case h.role
    when 'weight' then 'w->' || fw.name
    when 'input' then case when bv.buffer is null then 'in->' else '&in->' end || fa.name
    when 'output' then 'out->' || fa.name
    else ''
  end || case
    when a.offset = 0 then ''
    when p.matrix is null then ' + ' || a.offset
    else ' + ' || (a.offset / (p.k * p.n) * p.matrix)
  end
from forms f
join call_arguments a on a.recording_id = f.recording_id and a.call = f.call
join buffers b on b.recording_id = a.recording_id and b.number = a.buffer
join names n on n.namespace = 'scope:' || f.number and n.number = a.position
left join views v on v.recording_id = a.recording_id and v.number = a.view
left join weight_places p on p.buffer = a.buffer
left join homes m on m.buffer = b.number
left join buffers h on h.recording_id = b.recording_id and h.number = m.home
left join by_value bv on bv.buffer = h.number
left join names fw on fw.namespace = 'field:weight' and fw.number = h.number
left join names fa on fa.namespace = 'field:argument' and fa.number = h.number
where f.recording_id = :recording
order by form, position
