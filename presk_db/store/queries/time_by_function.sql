-- The native run's time by function of the model, in its own launches alone.
select function, launches, bytes_read, bytes_written, arithmetic, round(nanoseconds / 1e6, 3) as milliseconds
from function_times
where recording_id = :recording
order by nanoseconds desc, first_operation, function
