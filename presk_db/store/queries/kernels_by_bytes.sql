-- Each distinct kernel: how often it is launched, what it moves and computes and how long that took, by the bytes that they move.
-- include kernel_list
order by u.bytes_read + u.bytes_written desc, u.first_operation
