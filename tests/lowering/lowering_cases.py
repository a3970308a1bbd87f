"""What tests of the lowering share: small entries, their native run, and the comparison with the oracle."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from graph_oracle import evaluate

from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.parser import parse
from presk_db.language.graph import Graph, Input, Parameter
from presk_db.language.tracing import graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.run import run

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


class Silent:
    """A recorder that forgets."""

    def event(self, event: object) -> None:
        """Nothing."""


def weight(*shape: int) -> Parameter:
    """A parameter that no checkpoint fills."""
    return Parameter(shape, (), -1.0, 1.0)


def real(*shape: int) -> Input:
    """A real input."""
    return Input("real", shape)


def integer(limit: int, *shape: int) -> Input:
    """An integer input with elements in [0, limit)."""
    return Input("int", shape, limit)


def graph_of(fn: Callable[..., Any], parameters: Any = None, **inputs: Input) -> Graph:
    """The graph of an entry at these parameters and inputs."""
    return graph_from_entry(fn, parameters, inputs)


def contents(graph: Graph, type_: str, seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Numbers for the parameters and the inputs, drawn in f32 so that every type holds them."""
    draw = np.random.default_rng(seed)

    def reals(shape: tuple[int, ...]) -> Array:
        return draw.standard_normal(shape).astype(np.float32).astype(DTYPES[type_]).reshape(shape)

    parameters = {n: reals(p.shape) for n, p in graph.parameters}
    inputs: dict[str, Array] = {}
    for n, i in graph.inputs:
        if i.kind == "real":
            inputs[n] = reals(i.shape)
        else:
            high = i.limit if i.limit is not None else 5
            inputs[n] = draw.integers(0, high, i.shape).astype(np.int64) if high else np.zeros(i.shape, np.int64)
    return parameters, inputs


def native(order: LaunchOrder, parameters: Mapping[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the native run by name."""
    weights = {b.id: parameters[b.name] for b in order.buffers if b.role == "weight"}
    given = {b.id: inputs[b.name] for b in order.buffers if b.role == "input"}
    outputs = run(order, given, weights, Silent())
    return {order.buffers[n].name: a for n, a in outputs.items()}


def check_order(order: LaunchOrder) -> None:
    """What holds of every launch order: kernels parse back, every element is written once and before it is read."""
    written = {b.id: np.zeros(b.elements, bool) for b in order.buffers if b.role in ("temp", "output")}
    for kernel in order.kernels():
        assert parse(kernel.text) == kernel
    for launch in order.launches:
        views = [(a.mode, v, slice(v.offset, v.offset + math.prod(v.shape)))
                 for a, v in zip(launch.kernel.arrays, launch.arguments, strict=True)]  # fmt: skip
        for mode, view, window in views:
            if mode == "in" and view.buffer in written:
                name = order.buffers[view.buffer].name
                assert written[view.buffer][window].all(), f"{launch.label} reads {name} before it is written"
        assert "out" in [mode for mode, _, _ in views], launch.label
        for mode, view, window in views:
            if mode == "out":
                assert not written[view.buffer][window].any(), f"{launch.label} writes a second time"
                written[view.buffer][window] = True
    assert all(written[b.id].all() for b in order.buffers if b.role == "output")
    check_calls(order)


def check_calls(order: LaunchOrder) -> None:
    """The launches of each call, with its callees', are consecutive."""
    last: dict[int, int] = {}
    for number, launch in enumerate(order.launches):
        call: int | None = launch.call
        while call is not None:
            assert last.get(call, number - 1) == number - 1, f"call {order.calls[call].label} is left and entered again"
            last[call] = number
            call = order.calls[call].parent


def check(graph: Graph, type_: str = "f64", seed: int = 0) -> LaunchOrder:
    """Lowers the graph in one type, runs it, and demands the oracle's bits; the launch order comes back."""
    order = launch_order(graph, Realization(type_))
    check_order(order)
    parameters, inputs = contents(graph, type_, seed)
    wanted = evaluate(graph, parameters, inputs, type_)
    found = native(order, parameters, inputs)
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        same_bits(found[name], value, f"{name}\n{graph.text()}")
    return order


def same_bits(found: Array, wanted: Array, message: str) -> None:
    """Equal shapes and equal elements: zeros by their sign, NaNs whatever their bits."""
    assert found.shape == wanted.shape, message
    if wanted.dtype.kind != "f":
        assert np.array_equal(found, wanted.astype(found.dtype)), message
        return
    assert found.dtype == wanted.dtype, message
    integers = {4: np.int32, 8: np.int64}[found.dtype.itemsize]
    equal = (np.ascontiguousarray(found).view(integers) == np.ascontiguousarray(wanted).view(integers)) | (
        np.isnan(found) & np.isnan(wanted)
    )
    assert equal.all(), f"{message}\nfound {found}\nwanted {wanted}"
