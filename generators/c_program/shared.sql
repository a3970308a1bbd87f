-- The kernels that read one of their arrays in the memory of another that they write.
select kernel_id, read_position, write_position
from shared_arguments
where recording_id = :recording
order by kernel_id, read_position, write_position
