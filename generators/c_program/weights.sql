-- The weight buffers, with their place in the one block of memory that holds them all.
select
  n.name,
  (select c_name from c_types where type = b.type) as ctype,
  'PRESK_' || upper(b.type) as dtype,
  replace(replace(replace(b.shape, '[', '('), ']', ')'), ',', ', ')
    || case when w.matrix is null then '' else ', packed' end as shape,
  b.name as site,
  coalesce((
    select case s.in_place when 1 then ', updated by a run' else ', whose new value is an output' end
    from renewed s
    where s.state = b.number
  ), '') as updated,
  w.byte_offset
from buffers b
join names n on n.namespace = 'field:weight' and n.number = b.number
join weight_places w on w.buffer = b.number
where b.recording_id = :recording and b.role = 'weight'
order by b.number
