-- Kernels of the recording that others launch too, and how often all of them do.
select o.label as kernel, s.recordings, u.launches, s.launches as all_launches, substr(s.kernel_digest, 1, 16) as digest
from shared_kernels s
join kernel_uses u on u.kernel_id = s.kernel_id
join operations o on o.recording_id = u.recording_id and o.number = u.first_operation
where u.recording_id = :recording
order by s.launches desc, u.first_operation
