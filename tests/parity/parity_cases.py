"""Compares a function's result and gradient, under a random cotangent, with PyTorch's: f64 and f32, compiled kernels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from parity_models import Silent

from presk_db.language import primitives as p
from presk_db.language.gradients import value_and_grad
from presk_db.language.graph import Graph, Input, Parameter
from presk_db.language.tracing import graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.numbers import STORAGE
from presk_db.native.run import run

Array = np.ndarray[Any, np.dtype[Any]]

BOUNDS = {"f64": 1e-10, "f32": 1e-5}
"""The largest error of each result and of each gradient, relative to the tensor's largest element in f64."""


@dataclass(frozen=True)
class Case:
    """A function of reals (a list) and integers (by name), in the language and in PyTorch.

    `shapes` are the reals', uniform in [low, high), on a grid of quarters where `ties` are wanted; `integers` have
    (limit, shape) each; `differentiated` says whether a gradient is compared; f32 may be wrong by `f32` where that is
    more than its bound.
    """

    presk: Callable[..., Any]
    torch: Callable[..., torch.Tensor]
    shapes: Sequence[tuple[int, ...]]
    integers: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    ties: bool = False
    differentiated: bool = True
    f32: float = 0.0


def _given(case: Case) -> tuple[list[Array], dict[str, Array]]:
    """The reals, which f32 holds exactly, and the integers; the first element of each is the largest integer."""
    draw = np.random.default_rng(len(case.shapes) + sum(map(sum, case.shapes)))
    reals = [draw.uniform(case.low, case.high, s).astype(np.float32).astype(np.float64) for s in case.shapes]
    if case.ties:
        reals = [np.round(4.0 * a) / 4.0 for a in reals]
    integers = {n: np.array(draw.integers(0, limit, shape)) for n, (limit, shape) in case.integers.items()}
    for name, (limit, _) in case.integers.items():
        integers[name].reshape(-1)[:1] = limit - 1
    return reals, integers


def _wanted(case: Case, reals: list[Array], integers: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
    """PyTorch's result and gradients in f64, and the cotangent."""
    tensors = [torch.from_numpy(a).requires_grad_(case.differentiated) for a in reals]
    y = case.torch(tensors, **{n: torch.from_numpy(a) for n, a in integers.items()})
    c = np.random.default_rng(1).uniform(-1.0, 1.0, tuple(y.shape)).astype(np.float32).astype(np.float64)
    wanted = {"y": y.detach().numpy()}
    if case.differentiated:
        y.backward(torch.from_numpy(np.asarray(c)))
        for i, tensor in enumerate(tensors):
            assert tensor.grad is not None, f"PyTorch's result does not depend on operand {i}"
            wanted[f"grad.{i}"] = tensor.grad.numpy()
    return wanted, np.asarray(c)


def _graph(case: Case, result: tuple[int, ...]) -> Graph:
    """The entry that gives y and, where there is one, its gradient under the cotangent c."""

    def loss(parameters: Any, c: Any, integers: Any) -> Any:
        y = case.presk(parameters, **integers)
        return p.sum(p.reshape(y * c, -1)), y

    def entry(parameters: Any, c: Any, **integers: Any) -> Any:
        if not case.differentiated:
            return {"y": case.presk(parameters, **integers)}
        (_, y), grads = value_and_grad(loss, aux=True)(parameters, c, integers)
        return {"y": y, "grad": grads}

    parameters = [Parameter(s, (), case.low, case.high) for s in case.shapes]
    kinds = {n: Input("int", shape, limit) for n, (limit, shape) in case.integers.items()}
    return graph_from_entry(entry, parameters, {"c": Input("real", result)} | kinds)


def check_case(case: Case, type_: str) -> None:
    """Every element of y and of the gradient of every operand, within the bound of the type."""
    reals, integers = _given(case)
    wanted, c = _wanted(case, reals, integers)
    order = launch_order(_graph(case, wanted["y"].shape), Realization(type_))
    given = {str(i): a for i, a in enumerate(reals)} | {"c": c} | integers
    arrays: dict[str, dict[int, Array]] = {"input": {}, "weight": {}}
    for b in order.buffers:
        if b.role in arrays:
            arrays[b.role][b.id] = np.asarray(given[b.name]).astype(STORAGE[b.type]).reshape(b.shape)
    outputs = run(order, arrays["input"], arrays["weight"], Silent(), executor="compiled")
    found = {order.buffers[n].name: a for n, a in outputs.items()}
    assert set(found) == set(wanted)
    bound = max(BOUNDS[type_], case.f32 if type_ == "f32" else 0.0)
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        size = np.abs(array).max(initial=0.0)
        error = np.abs(found[name].astype(np.float64) - array).max(initial=0.0)
        assert error <= bound * size, (name, type_, error / size if size else error)
