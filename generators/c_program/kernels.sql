-- The distinct kernels, in order of their first launch, with how often each is launched, whether its right operand is a
-- weight that is packed at load, and its schedule where there is a plan: the measured one or the recording's own. A
-- schedule goes with the operand as the program has it, packed or not. `shared` has the arrays that it reads in the memory
-- of those that it writes.
with used as (
  select
    l.kernel_id,
    count(*) as uses,
    min(l.operation) as first,
    exists (select 1 from packed p where p.kernel_id = l.kernel_id) as packed
  from launches l
  where l.recording_id = :recording
  group by l.kernel_id
)
select
  n.name,
  k.text as kernel_text,
  case u.uses when 1 then 'once' when 2 then 'twice' else u.uses || ' times' end as uses,
  u.packed,
  coalesce(case when :plan then m.schedule end, s.schedule) as plan,
  (select group_concat(x.read_position || '>' || x.write_position, ' ') from shared x where x.kernel_id = u.kernel_id)
    as shared
from used u
join kernels k on k.id = u.kernel_id
join names n on n.namespace = 'kernel' and n.number = u.kernel_id
left join measured_plans m on m.kernel_id = u.kernel_id and m.packed = u.packed
left join plan_schedules s on s.recording_id = :recording and s.kernel_id = u.kernel_id and s.packed = u.packed
order by u.first
