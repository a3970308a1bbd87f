-- Kernels that differ in extents and indices alone, with the first of their kind.
select o.label as kernel, d.launches, substr(d.kernel_digest, 1, 16) as digest, substr(d.same_as, 1, 16) as same_as, d.alike
from duplicate_kernels d
join operations o on o.recording_id = d.recording_id and o.number = d.first_operation
where d.recording_id = :recording
order by d.same_as, d.first_operation
