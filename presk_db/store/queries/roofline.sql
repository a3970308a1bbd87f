-- Each kernel of the newest benchmarks against the machine's limits, by threads, the longest first.
select
  b.threads,
  o.label as kernel,
  k.launches,
  round(k.nanoseconds / 1e6, 3) as milliseconds,
  round(1.0 * k.nanoseconds / b.nanoseconds, 3) as share_of_run,
  round(u.arithmetic * 1.0 / u.nanoseconds, 1) as gflops,
  round(u.bytes * 1.0 / u.nanoseconds, 1) as gigabytes_per_second,
  case when u.arithmetic * 1.0 / b.peak_operations_per_second > u.bytes * 1.0 / b.peak_bytes_per_second
       then 'arithmetic' else 'memory' end as bound,
  round(1e9 * max(coalesce(u.arithmetic, 0) * 1.0 / b.peak_operations_per_second,
    u.bytes * 1.0 / b.peak_bytes_per_second) / u.nanoseconds, 2) as share_of_roofline
from benchmarks b
join benchmark_kernels k on k.benchmark_id = b.id
join (
  select c.id as benchmark_id, t.kernel_id, t.first_operation, x.launches * t.arithmetic as arithmetic,
    x.launches * (t.bytes_read + t.bytes_written) as bytes, max(x.nanoseconds, 1) as nanoseconds
  from benchmarks c
  join benchmark_kernels x on x.benchmark_id = c.id
  join kernel_totals t on t.recording_id = c.recording_id and t.kernel_id = x.kernel_id
) u on u.benchmark_id = b.id and u.kernel_id = k.kernel_id
join operations o on o.recording_id = b.recording_id and o.number = u.first_operation
where b.recording_id = :recording
  and b.id in (select max(id) from benchmarks where recording_id = :recording group by threads)
order by b.threads, k.nanoseconds desc, k.kernel_id
