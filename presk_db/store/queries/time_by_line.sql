-- The native run's time by line of the model.
select source, function, launches, bytes_read, bytes_written, arithmetic, round(nanoseconds / 1e6, 3) as milliseconds
from line_times
where recording_id = :recording
order by nanoseconds desc, first_operation, function, source
