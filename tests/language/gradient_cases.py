"""What tests of gradients share: an entry's native run in f64, and finite differences."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from presk_db.language import primitives as p
from presk_db.language.gradients import value_and_grad
from presk_db.language.graph import Graph, Input, Parameter
from presk_db.language.tracing import graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.run import run

Array = np.ndarray[Any, np.dtype[Any]]


class Silent:
    """A recorder that forgets."""

    def event(self, event: object) -> None:
        """Nothing."""


def values_of(graph: Graph, given: Mapping[str, Array]) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """The native run in f64, as a function of what differs from `given`."""
    order = launch_order(graph, Realization("f64"))

    def values(other: Mapping[str, Array]) -> dict[str, Array]:
        arrays = {b.role: {} for b in order.buffers} | {"input": {}, "weight": {}}
        for b in order.buffers:
            if b.role in ("input", "weight"):
                arrays[b.role][b.id] = np.asarray(other.get(b.name, given[b.name])).reshape(b.shape)
        outputs = run(order, arrays["input"], arrays["weight"], Silent())
        return {order.buffers[n].name: a for n, a in outputs.items()}

    return values


def gradient_entry(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An entry that gives the loss sum(c * fn(parameters, **inputs)) and its gradient."""

    def loss(parameters: Any, c: Any, inputs: Any) -> Any:
        y = fn(parameters, **inputs)
        return p.sum(p.reshape(y * c, -1))

    def entry(parameters: Any, c: Any, **inputs: Any) -> Any:
        value, grads = value_and_grad(loss)(parameters, c, inputs)
        return {"loss": value, "grad": grads}

    return entry


def check_gradient(
    fn: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    result: tuple[int, ...],
    low: float = -2.0,
    high: float = 2.0,
    recompute: bool = False,
    **inputs: tuple[int, tuple[int, ...]],
) -> dict[str, Array]:
    """Compares the gradient of fn([x, y, …], **inputs) with central differences, element by element.

    `shapes` are the parameters', uniform in [low, high); `result` is fn's; inputs are integers, (limit, shape) each.
    """
    draw = np.random.default_rng(len(shapes) + sum(map(sum, shapes)))
    parameters = [Parameter(s, (), low, high) for s in shapes]
    given: dict[str, Array] = {str(i): draw.uniform(low, high, s) for i, s in enumerate(shapes)}
    given["c"] = draw.uniform(0.5, 1.5, result)
    given |= {n: draw.integers(0, limit, shape) for n, (limit, shape) in inputs.items()}
    kinds = {"c": Input("real", result)} | {n: Input("int", shape, limit) for n, (limit, shape) in inputs.items()}
    graph = graph_from_entry(gradient_entry(fn), parameters, kinds, recompute)
    values = values_of(graph, given)
    found = values({})
    for i in range(len(shapes)):
        name, step = str(i), 1e-5
        numeric = np.zeros(given[name].size)
        for at in range(numeric.size):
            for sign in (1, -1):
                moved = given[name].copy()
                moved.reshape(-1)[at] += sign * step
                numeric[at] += sign * float(values({name: moved})["loss"].reshape(())) / (2 * step)
        error = np.abs(numeric - found[f"grad.{i}"].reshape(-1)).max(initial=0.0)
        assert error < 1e-7 * max(1.0, np.abs(numeric).max(initial=0.0)), (name, error)
    return found
