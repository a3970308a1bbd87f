-- The native run's time by layer: all launches in and below an iteration of a fold.
select function, fold, iteration as layer, launches, bytes_read, bytes_written, arithmetic,
  round(nanoseconds / 1e6, 3) as milliseconds
from layer_times
where recording_id = :recording
order by fold, iteration
