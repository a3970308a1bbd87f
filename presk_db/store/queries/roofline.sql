-- Each kernel of the newest benchmarks against the machine's limits, by threads, the longest first.
select
  r.threads,
  min(r.label) as kernel,
  count(*) as launches,
  round(sum(r.nanoseconds) / 1e6, 3) as milliseconds,
  round(1.0 * sum(r.nanoseconds) / b.nanoseconds, 3) as share_of_run,
  round(sum(r.arithmetic) * 1.0 / sum(r.nanoseconds), 1) as gflops,
  round(sum(r.bytes) * 1.0 / sum(r.nanoseconds), 1) as gigabytes_per_second,
  min(r.bound) as bound,
  round(sum(r.share_of_roofline * r.nanoseconds) / sum(r.nanoseconds), 2) as share_of_roofline
from roofline r
join benchmarks b on b.id = r.benchmark
where r.recording_id = :recording
  and r.benchmark in (select max(id) from benchmarks where recording_id = :recording group by threads)
group by r.threads, r.kernel_id
order by r.threads, milliseconds desc, r.kernel_id
