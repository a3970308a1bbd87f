-- Each output that is the new value of an input or a weight, with that, and whether it is computed in its memory.
select output, state, in_place from state_list where recording_id = :recording order by output
