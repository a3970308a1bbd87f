-- The tensors of the weights file, and where each goes: in file order of the recording. The layers of a stack are one
-- row where their names differ in a number alone and their places move by a constant stride. A part that is packed is
-- one matrix or a stack of them; `k` is 0 for others.
with recursive part as (
  select p.*, count(*) over (partition by buffer) as siblings
  from weight_parts p
  where recording_id = :recording
), counted (layer, text) as (
  select 0, '.0.'
  union all
  select layer + 1, '.' || (layer + 1) || '.' from counted where layer + 1 < (select max(siblings) from part)
), numbered as ( -- the first number between dots
  select p.number, c.layer, min(instr('.' || p.tensor, c.text)) as place
  from part p
  join counted c on instr('.' || p.tensor, c.text) > 0
  where p.siblings > 1
  group by p.number
), split as (
  select
    p.number,
    n.layer,
    substr(p.tensor, 1, n.place - 1) as prefix,
    substr(p.tensor, n.place + length(n.layer)) as suffix
  from part p
  join numbered n on n.number = p.number
), stack as (
  select
    min(p.number) as number,
    max(p.number) as last,
    p.buffer,
    p.shape,
    p.transposed,
    s.prefix,
    s.suffix,
    min(s.layer) as first,
    count(*) as layers,
    min(p.offset) as offset,
    (max(p.offset) - min(p.offset)) / (count(*) - 1) as stride
  from part p
  join split s on s.number = p.number
  group by p.buffer, s.prefix, s.suffix, p.shape, p.transposed
  having count(*) > 1 and max(s.layer) - min(s.layer) + 1 = count(*)
), layered as ( -- the parts of the stacks that a stride describes
  select p.number, k.number as stack
  from stack k
  join part p on p.buffer = k.buffer and p.shape = k.shape and p.transposed = k.transposed
  join split s on s.number = p.number and s.prefix = k.prefix and s.suffix = k.suffix
  where not exists (
    select 1
    from part q
    join split t on t.number = q.number and t.prefix = k.prefix and t.suffix = k.suffix
    where q.buffer = k.buffer and q.shape = k.shape and q.transposed = k.transposed
      and q.offset <> k.offset + (t.layer - k.first) * k.stride
  )
), row as (
  select number, prefix, suffix, first, layers, offset, stride
  from stack
  where number in (select stack from layered)
  union all
  select number, tensor, '', -1, 1, offset, 0
  from part
  where number not in (select number from layered)
)
select
  r.prefix,
  r.suffix,
  r.first,
  r.layers,
  json_array_length(p.shape) as rank,
  case p.shape when '[]' then '{0}' else replace(replace(replace(p.shape, '[', '{'), ']', '}'), ',', ', ') end as shape,
  p.transposed,
  'PRESK_' || upper(b.type) as dtype,
  w.byte_offset + case when w.matrix is null then r.offset else r.offset / (w.k * w.n) * w.matrix end * w.size as byte_offset,
  case when w.matrix is null then r.stride else r.stride / (w.k * w.n) * w.matrix end * w.size as byte_stride,
  case when w.matrix is null then 0 else w.k end as k,
  coalesce(w.n, 0) as n,
  coalesce(w.down, 0) as down,
  coalesce(w.across, 0) as across,
  coalesce(w.matrix, 0) as matrix,
  (select max(length(cast(tensor as blob))) + 1 from part) as longest
from row r
join part p on p.number = r.number
join buffers b on b.recording_id = p.recording_id and b.number = p.buffer
join weight_places w on w.buffer = p.buffer
order by p.number
