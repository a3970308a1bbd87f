-- The tensors of the weights file, and where each goes. A part that is packed holds whole matrices, `k` is 0 for others.
select
  p.tensor,
  json_array_length(p.shape) as rank,
  case p.shape when '[]' then '{0}' else replace(replace(p.shape, '[', '{'), ']', '}') end as shape,
  p.transposed,
  'PRESK_' || upper(b.type) as dtype,
  w.byte_offset + case
    when w.matrix is null then p.offset
    else p.offset / (w.k * w.n) * w.matrix
  end * w.size as byte_offset,
  case when w.matrix is null then 0 else w.k end as k,
  coalesce(w.n, 0) as n,
  coalesce(w.down, 0) as down,
  coalesce(w.across, 0) as across,
  coalesce(w.matrix, 0) as matrix
from weight_parts p
join buffers b on b.recording_id = p.recording_id and b.number = p.buffer
join weight_places w on w.buffer = p.buffer
where p.recording_id = :recording
order by p.number
