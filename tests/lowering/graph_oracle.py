"""evaluate: a graph computed equation by equation in NumPy, without any of the lowering: its independent oracle.

Every site has one type, f32 or f64. Products and sums follow the stated order, and the functions are the package's
correctly rounded ones, so the lowered kernels must give the same bits, however they fuse.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from presk_db.language.graph import Equation, Function, Graph
from presk_db.native.functions import function

Array = np.ndarray[Any, np.dtype[Any]]

_UFUNCS: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where,
}  # fmt: skip


def evaluate(
    graph: Graph, parameters: Mapping[str, Array], inputs: Mapping[str, Array], type_: str
) -> dict[str, Array]:
    """The results by name; reals as `type_`, integers as int64, truth values as bool."""
    arguments = [parameters[n] for n, _ in graph.parameters] + [inputs[n] for n, _ in graph.inputs]
    with np.errstate(all="ignore"):
        results = _body(graph.entry, arguments, type_)
    return dict(zip(graph.results, results, strict=True))


def _body(f: Function, arguments: list[Array], type_: str) -> list[Array]:
    values: dict[int, Array] = {v.id: a for v, a in zip(f.parameters, arguments, strict=True)}
    for e in f.equations:
        inputs = [values[v.id] for v in e.inputs]
        match e.op:
            case "call":
                outputs = _body(e["function"], inputs, type_)
            case "fold":
                outputs = _fold(e, inputs, type_)
            case _:
                outputs = [np.asarray(_primitive(e, inputs, type_))]
        for var, value in zip(e.outputs, outputs, strict=True):
            dtype = {"int": "i8", "bool": "?"}.get(var.kind, {"f32": "f4", "f64": "f8"}[type_])
            assert value.shape == var.shape and value.dtype == np.dtype(dtype), (e.op, value.shape, value.dtype, var)
            if var.limit is not None and value.size:
                assert value.min() >= 0 and value.max() < var.limit, (e.op, var)
            values[var.id] = value
    return [values[v.id] for v in f.results]


def _fold(e: Equation, inputs: list[Array], type_: str) -> list[Array]:
    carried, stacked = e["carried"], e["stacked"]
    carry, stacks, shared = inputs[:carried], inputs[carried : carried + stacked], inputs[carried + stacked :]
    order = range(e["length"])
    collected: dict[int, list[Array]] = {}
    for l in reversed(order) if e["descending"] else order:
        results = _body(e["function"], [*carry, *(s[l] for s in stacks), *shared], type_)
        carry, collected[l] = results[:carried], results[carried:]
    stacks = []
    for i, var in enumerate(e.outputs[carried:]):
        dtype = {"int": "i8", "bool": "?"}.get(var.kind, {"f32": "f4", "f64": "f8"}[type_])
        stacks.append(np.array([collected[l][i] for l in order], dtype).reshape(var.shape))
    return [*carry, *stacks]


def _primitive(e: Equation, inputs: list[Array], type_: str) -> Any:
    real = {"f32": np.float32, "f64": np.float64}[type_]
    out = e.outputs[0]
    match e.op:
        case "const":
            return np.asarray(e["value"], np.int64 if out.kind == "int" else real)
        case "iota":
            view = np.arange(out.shape[e["axis"]]).reshape([-1 if a == e["axis"] else 1 for a in range(len(out.shape))])
            return np.broadcast_to(view, out.shape).astype(np.int64)
        case "real":
            return inputs[0].astype(real)
        case "reshape":
            return inputs[0].reshape(out.shape)
        case "transpose":
            return inputs[0].transpose(e["axes"])
        case "slice":
            start = e["start"]
            return np.take(inputs[0], np.arange(start, start + out.shape[e["axis"]]), e["axis"])
        case "broadcast":
            return np.broadcast_to(inputs[0], out.shape)
        case "concat":
            return np.concatenate(inputs, e["axis"])
        case "gather":
            return inputs[0][inputs[1]]
        case "take_rows":
            return np.take(inputs[0], np.arange(out.shape[e["axis"]]) + int(inputs[1]), e["axis"])
        case "put_rows":
            result = inputs[0].copy()
            np.moveaxis(result, e["axis"], 0)[int(inputs[2]) :][: e.inputs[1].shape[e["axis"]]] = np.moveaxis(
                inputs[1], e["axis"], 0
            )
            return result
        case "scatter_add":
            return _scattered(*inputs, out.shape)
        case "stop" | "site" | "update" | "seen":
            return inputs[0]
        case "matmul":
            return _matmul(*inputs)
        case "reduce_sum":
            return _lanes(np.moveaxis(inputs[0], e["axis"], 0))
        case "reduce_max" | "argmax":
            return _maximum(np.moveaxis(inputs[0], e["axis"], 0), e.op)
        case "maximum":
            return np.where(inputs[0] > inputs[1], inputs[0], inputs[1])
        case "minimum":
            return np.where(inputs[0] < inputs[1], inputs[0], inputs[1])
        case op if op in _UFUNCS:
            return _UFUNCS[op](*inputs)
        case op:
            return function(op, type_)(np.ascontiguousarray(inputs[0])).reshape(out.shape)


def _matmul(a: Array, b: Array) -> Array:
    total = np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., None, k, :]
    return total


def _scattered(index: Array, updates: Array, shape: tuple[int, ...]) -> Array:
    table = np.zeros(shape, updates.dtype)
    for row, update in zip(index.reshape(-1), updates.reshape(index.size, *shape[1:]), strict=True):
        table[row] = table[row] + update
    return table


def _lanes(x: Array) -> Array:
    lanes = [np.zeros(x.shape[1:], x.dtype) for _ in range(32)]
    for i in range(x.shape[0]):
        lanes[i % 32] = lanes[i % 32] + x[i]
    for w in (16, 8, 4, 2, 1):
        lanes = [lanes[j] + lanes[j + w] for j in range(w)]
    return lanes[0]


def _maximum(x: Array, op: str) -> Array:
    if x.shape[0] == 0:
        return np.full(x.shape[1:], -np.inf, x.dtype)
    bits = np.ascontiguousarray(x).view({4: np.int32, 8: np.int64}[x.dtype.itemsize])
    keys = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    keys = np.where(np.isnan(x), np.iinfo(bits.dtype).max, keys)
    at = keys.argmax(0)
    return at if op == "argmax" else np.take_along_axis(x, at[None], 0)[0]
