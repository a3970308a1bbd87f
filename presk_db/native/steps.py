"""steps_of: an entry that updates some of what it is given, run again and again on its own new values."""

from collections.abc import Iterator, Mapping
from typing import Literal

from presk_db.errors import EntryBad
from presk_db.kernels.launches import LaunchOrder
from presk_db.native.numbers import Array
from presk_db.native.run import run
from presk_db.recording.events import EventList


def steps_of(
    order: LaunchOrder,
    inputs: Mapping[int, Array],
    weights: Mapping[int, Array],
    steps: int,
    executor: Literal["numpy", "compiled"] = "numpy",
) -> Iterator[dict[int, Array]]:
    """The outputs of each step, as `run` gives them; each input and weight that is updated goes on as its new value.

    Raises EntryBad (E1203) where nothing is updated, and what `run` raises.
    """
    if not order.updates:
        raise EntryBad("the entry updates nothing that it is given, so that it cannot be repeated")
    inputs, weights = dict(inputs), dict(weights)
    for _ in range(steps):
        outputs = run(order, inputs, weights, EventList([]), executor=executor)
        yield outputs
        for update in order.updates:
            given = inputs if update.state in inputs else weights
            given[update.state] = outputs[update.output]
