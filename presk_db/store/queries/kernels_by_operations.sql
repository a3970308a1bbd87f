-- Each distinct kernel: how often it is launched, what it moves and computes and how long that took, by the operations that they execute.
-- include kernel_list
order by u.arithmetic desc, u.first_operation
