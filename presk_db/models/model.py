"""Model: what a family makes of a config, and what an entry is traced from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from presk_db.errors import DimensionBad, ModelUnknown
from presk_db.language.decoding import decode_graph
from presk_db.language.drawing import next_token_graph
from presk_db.language.graph import Graph, Input
from presk_db.language.tied import untied_graph
from presk_db.language.tracing import graph_from_entry


@dataclass(frozen=True)
class Entry:
    """A function that can be exported: its inputs at given dimensions, and the Python function to trace.

    `derived` makes the entry's graph from that function's, where it is another; `limits` bounds further dimensions.
    """

    inputs: Callable[[Mapping[str, int]], dict[str, Input]]
    function: Callable[..., Any]
    derived: Callable[[Graph, Mapping[str, int]], Graph] | None = None
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A family's parameters (a tree of Parameter) and entries at one config.

    `limits` bounds each dimension: name -> (default, largest).
    """

    family: str
    parameters: Callable[[Mapping[str, int]], Any]
    entries: Mapping[str, Entry]
    limits: Mapping[str, tuple[int, int]]

    def dimensions(self, given: Mapping[str, int], entry: str = "forward") -> dict[str, int]:
        """Every dimension's value; DimensionBad (E1007) for an unknown name or a value outside its range."""
        limits = {**self.limits, **(self.entries[entry].limits if entry in self.entries else {})}
        for name in given:
            if name not in limits:
                known = ", ".join(limits) or "none"
                raise DimensionBad(f"{name} is no dimension of {self.family}; it has {known}", "dims")
        dims = {name: given.get(name, default) for name, (default, _) in limits.items()}
        for name, value in dims.items():
            if not 1 <= value <= limits[name][1]:
                raise DimensionBad(f"{value} is not from 1 to {limits[name][1]}", f"dims.{name}")
        return dims

    def graph(self, entry: str, dims: Mapping[str, int], recompute: bool = False) -> Graph:
        """The entry's graph at these dimensions; ModelUnknown (E1004) where there is no such entry.

        With `recompute`, a gradient computes each layer's forward pass again instead of keeping its values.
        """
        if entry not in self.entries:
            raise ModelUnknown(f"{self.family} has no entry {entry}; it has {', '.join(self.entries)}", "entry")
        found = self.entries[entry]
        graph = graph_from_entry(found.function, self.parameters(dims), found.inputs(dims), recompute)
        return graph if found.derived is None else found.derived(graph, dims)


def forward_entry(inputs: Callable[[Mapping[str, int]], dict[str, Input]], function: Callable[..., Any]) -> Entry:
    """A forward pass, whose tied head is read apart from the embedding."""
    return Entry(inputs, function, lambda graph, dims: untied_graph(graph))


def decode_entry(forward: Entry, longest: int) -> Entry:
    """The step of C tokens that follows from a forward pass over at most `longest` tokens."""
    return Entry(
        forward.inputs,
        forward.function,
        lambda graph, dims: decode_graph(untied_graph(graph), dims["C"]),
        {"C": (1, longest)},
    )


def next_token_entry(forward: Entry, longest: int) -> Entry:
    """That step with the token that is drawn from its last row."""
    step = decode_entry(forward, longest)
    assert step.derived is not None
    derived = step.derived
    return replace(step, derived=lambda graph, dims: next_token_graph(derived(graph, dims)))


DERIVED = {"decode": decode_entry, "next_token": next_token_entry}
"""The entries that follow from a forward pass."""
