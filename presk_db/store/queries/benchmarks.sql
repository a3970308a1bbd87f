-- The benchmarks of a recording: whole run, kernels' share, rate, share of the peak, and the ratio to the best rival.
select
  benchmark,
  compiler,
  flags,
  threads,
  round(nanoseconds / 1e6, 3) as milliseconds,
  round(kernel_share, 3) as kernel_share,
  round(operations_per_second / 1e9, 1) as gflops,
  round(share_of_peak, 3) as share_of_peak,
  best_rival,
  round(rival_nanoseconds / 1e6, 3) as rival_milliseconds,
  round(ratio, 3) as ratio
from benchmark_list
where recording_id = :recording
order by benchmark
