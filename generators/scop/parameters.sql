-- The parameters of each nest, in order; `extents` is an array's shape in C, which has no empty arrays, `given` how the
-- driver hands over what a[position] points at, to the nest and to the native kernel.
with nest as (
  select l.kernel_id, min(l.operation) as first
  from launches l
  join operations o on o.recording_id = l.recording_id and o.number = l.operation and o.kind = 'launch'
  where l.recording_id = :recording
  group by l.kernel_id
), shaped as (
  select
    n.first,
    p.position,
    p.kind,
    p.type,
    coalesce(c.c_name, '') as ctype,
    coalesce(p.int_limit, -1) as int_limit,
    case
      when p.shape is null then ''
      when p.shape = '[]' then '[1]'
      else replace(replace(p.shape, ',', ']['), '[0]', '[1]')
    end as extents
  from nest n
  join kernel_parameters p on p.kernel_id = n.kernel_id
  left join c_types c on c.type = p.type
)
select
  first,
  position,
  'KIND_' || upper(kind) as kind,
  'PRESK_' || upper(type) as dtype,
  ctype || extents as whole,
  ctype,
  int_limit,
  case kind
    when 'scalar' then '*(const double *)a[' || position || ']'
    when 'extent' then '*(const ptrdiff_t *)a[' || position || ']'
    else '(' || case kind when 'in' then 'const ' else '' end || ctype
      || case instr(extents, '][') when 0 then ' *' else ' (*)' || substr(extents, instr(extents, '][') + 1) end
      || ')a[' || position || ']'
  end as given,
  case kind
    when 'scalar' then '*(const double *)a[' || position || ']'
    when 'extent' then '*(const ptrdiff_t *)a[' || position || ']'
    else 'a[' || position || ']'
  end as given_native
from shaped
order by first, position
