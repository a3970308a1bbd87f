-- Each distinct kernel: how often it is launched, what it moves and computes and how long that took, by the native run's time.
-- include kernel_list
order by u.nanoseconds desc, u.first_operation
