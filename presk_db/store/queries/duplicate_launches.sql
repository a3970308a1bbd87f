-- Launches that compute what an earlier one computed: one kernel, the same windows, unchanged since.
select operation, first, label, source, substr(kernel_digest, 1, 16) as digest
from duplicate_launches
where recording_id = :recording
order by operation
