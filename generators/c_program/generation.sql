-- What a step of one sequence takes and gives, for the loop that generates text; no row for other entries.
select
  tn.name as tokens,
  pn.name as pos,
  ln.name as logits,
  l.type,
  json_extract(l.shape, '$[2]') as vocabulary,
  p.int_limit as context,
  exists (select 1 from tokenizers k where k.recording_id = t.recording_id) as tokenizer
from buffers t
join buffers p on p.recording_id = t.recording_id and p.role = 'input' and p.name = 'pos' and p.shape = '[]'
join buffers l on l.recording_id = t.recording_id and l.role = 'output' and l.name = 'logits'
  and json_array_length(l.shape) = 3
join names tn on tn.namespace = 'field:argument' and tn.number = t.number
join names pn on pn.namespace = 'field:argument' and pn.number = p.number
join names ln on ln.namespace = 'field:argument' and ln.number = l.number
where t.recording_id = :recording and t.role = 'input' and t.name = 'tokens' and t.shape like '[1,%]'
order by t.number
