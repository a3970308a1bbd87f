"""unrun: a recording of an entry's structure alone, for measurements of programs too large to run natively."""

from collections.abc import Mapping
from typing import Any

from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization, realization_of_type
from presk_db.models.families import model_from_config
from presk_db.recording.events import Recording, WeightsReference


def unrun(
    config: Mapping[str, Any],
    dims: Mapping[str, int],
    realization: Realization | str = "f32",
    name: str = "shape",
    entry: str = "forward",
    recompute: bool = False,
) -> Recording:
    """The entry's launches without inputs, weights or outputs: it can be stored and emitted, and says nothing of bits.

    Only measurements and tests make one: a recording that a user keeps has been run.
    """
    model = model_from_config(config)
    graph = model.graph(entry, model.dimensions(dims, entry), recompute)
    chosen = realization_of_type(realization) if isinstance(realization, str) else realization
    return Recording(
        name=name,
        entry=entry,
        family=model.family,
        spec="{}",
        graph=graph.text(),
        order=launch_order(graph, chosen),
        events=(),
        tensors=(),
        weights=WeightsReference("none", None, None, None),
        nanoseconds=0,
    )
