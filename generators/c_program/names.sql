-- Every name that the C needs: (namespace, number, wanted). They become C identifiers, distinct in their namespace.
-- In a form's scope, argument p has the number p, local n the number 1000000 + n.
with written as ( -- the label of the first launch that writes each temporary
  select v.buffer, o.label
  from (
    select v.buffer, min(a.operation) as operation
    from launch_arguments a
    join views v on v.recording_id = a.recording_id and v.number = a.view
    where a.recording_id = :recording and a.mode = 'out'
    group by v.buffer
  ) v
  join operations o on o.recording_id = :recording and o.number = v.operation
), given as ( -- what the calls of each form are given at a position
  select distinct
    c.form,
    a.position,
    a.mode,
    b.role,
    coalesce(w.label || '_out', b.name) as wanted,
    case b.role when 'weight' then substr(b.name, length(rtrim(b.name, replace(b.name, '.', ''))) + 1) end as ending
  from call_forms c
  join call_arguments a on a.recording_id = c.recording_id and a.call = c.call
  join buffers b on b.recording_id = a.recording_id and b.number = a.buffer
  left join written w on w.buffer = a.buffer and b.role = 'temp'
  where c.recording_id = :recording
)
select namespace, number, wanted
from (
  select 0 as rank, 'kernel' as namespace, l.kernel_id as number, 'k_' || min(o.label) as wanted, min(o.number) as place
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation
  where l.recording_id = :recording
  group by l.kernel_id
  union all
  select 1, 'form', f.number, u.name, f.number
  from forms f
  join functions u on u.recording_id = f.recording_id and u.number = f.function
  where f.recording_id = :recording
  union all
  select 2, case role when 'weight' then 'field:weight' else 'field:argument' end, number, name, number
  from buffers
  where recording_id = :recording and role in ('weight', 'input', 'output')
    and number not in (select output from state_list where recording_id = :recording and in_place)
  union all
  -- a parameter has the name of what its calls give it; where they differ, what those names end in, else x or y
  select
    3,
    'scope:' || form,
    position,
    case
      when min(wanted) = max(wanted) then min(wanted)
      when min(ending) = 'w' and max(ending) = 'w' then 'weight'
      when min(ending) = 'b' and max(ending) = 'b' then 'bias'
      when min(ending) = max(ending) then min(ending)
      when max(role) = 'weight' and min(role) = 'weight' then 'weight'
      when max(mode) = 'read' then 'x'
      else 'y'
    end,
    position
  from given
  group by form, position
  union all
  select 4, 'scope:' || f.number, 1000000 + l.number, w.label || '_out', l.number
  from forms f
  join call_locals l on l.recording_id = f.recording_id and l.call = f.call
  join written w on w.buffer = l.buffer
  where f.recording_id = :recording
)
order by rank, namespace, place, number
