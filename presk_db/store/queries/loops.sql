-- Runs of equal iterations that the program has as loops.
select
  u.name as caller,
  g.name as function,
  l.first_iteration,
  l.last_iteration,
  l.last_item - l.first_item + 1 as iterations
from loops l
join forms f on f.recording_id = l.recording_id and f.number = l.form
join functions u on u.recording_id = f.recording_id and u.number = f.function
join forms c on c.recording_id = l.recording_id and c.number = l.callee
join functions g on g.recording_id = c.recording_id and g.number = c.function
where l.recording_id = :recording
order by l.form, l.first_item
