-- Each distinct kernel of a recording: how often it is launched, what it moves and computes and how long that took.
select
  o.label as kernel,
  u.launches,
  u.bytes_read,
  u.bytes_written,
  u.arithmetic,
  round(u.nanoseconds / 1e6, 3) as milliseconds,
  substr(u.kernel_digest, 1, 16) as digest
from kernel_uses u
join operations o on o.recording_id = u.recording_id and o.number = u.first_operation
where u.recording_id = :recording
