"""condition: how much of a result's error cancellation can explain: the sum of its terms' magnitudes over its own.

The terms are those of the last product or sum that the result comes from, followed back through additions, factors and
changes of layout; a rounding of one term by an ulp moves the result by about that many ulps.
"""

import math
from typing import Any

import numpy as np

from presk_db.conformance import balls
from presk_db.conformance.balls import Ball
from presk_db.conformance.exact_evaluate import Frame
from presk_db.language.graph import Equation, Var

Index = tuple[int, ...]


def condition(frame: Frame, result: int, index: Index) -> float | None:
    """The condition of one element of the entry's result of that number; None where its values were not kept."""
    var = frame.function.results[result]
    if var.id not in frame.values or var.kind != "real":
        return None
    terms = _Terms()
    value = abs(terms.element(frame, var, index))
    total = terms.magnitude(frame, var, index)
    if not total.is_finite() or not value > 0:
        return None
    found = float(total / value)
    return found if math.isfinite(found) else None


class _Terms:
    def __init__(self) -> None:
        self.known: dict[tuple[int, int, Index], Ball] = {}

    def element(self, frame: Frame, var: Var, index: Index) -> Ball:
        """A value's element as a ball."""
        value: Any = frame.values[var.id][index]
        return value if not isinstance(value, (float, np.floating)) else balls.ball(float(value))

    def magnitude(self, frame: Frame, var: Var, index: Index) -> Ball:
        """The sum of the magnitudes of an element's terms."""
        key = (id(frame), var.id, index)
        if key not in self.known:
            self.known[key] = self._magnitude(frame, var, index)
        return self.known[key]

    def _magnitude(self, frame: Frame, var: Var, index: Index) -> Ball:
        place, e = next(((i, e) for i, e in enumerate(frame.function.equations) if var in e.outputs), (-1, None))
        match e.op if e is not None else "":
            case "add" | "sub":
                assert e is not None
                return self.magnitude(frame, e.inputs[0], index) + self.magnitude(frame, e.inputs[1], index)
            case "mul":
                assert e is not None
                return self.magnitude(frame, e.inputs[0], index) * self.magnitude(frame, e.inputs[1], index)
            case "div":
                assert e is not None
                return self.magnitude(frame, e.inputs[0], index) / abs(self.element(frame, e.inputs[1], index))
            case "neg" | "reshape" | "transpose" | "slice" | "broadcast":
                assert e is not None
                return self.magnitude(frame, e.inputs[0], origin(e, index))
            case "matmul" | "reduce_sum":
                assert e is not None
                return self._terms(frame, e, index)
            case "call" if place in frame.calls:
                assert e is not None
                inner = frame.calls[place]
                return self.magnitude(inner, inner.function.results[e.outputs.index(var)], index)
            case _:
                return abs(self.element(frame, var, index))

    def _terms(self, frame: Frame, e: Equation, index: Index) -> Ball:
        a = frame.values[e.inputs[0].id]
        if e.op == "reduce_sum":
            axis = e["axis"]
            terms = balls.balls(np.moveaxis(a, axis, -1)[index])
        else:
            b = frame.values[e.inputs[1].id]
            row, column = index[:-1], (*index[:-2], index[-1])
            terms = balls.balls(a[row]) * balls.balls(np.moveaxis(b, -1, -2)[column])
        return sum((abs(t) for t in terms), balls.ball(0))


def origin(e: Equation, index: Index) -> Index:
    """The index of the operand's element that a layout's element at `index` is."""
    source, shape = e.inputs[0].shape, e.outputs[0].shape
    match e.op:
        case "reshape":
            flat = int(np.ravel_multi_index(index, shape)) if shape else 0
            return tuple(int(i) for i in np.unravel_index(flat, source)) if source else ()
        case "transpose":
            axes = e["axes"]
            return tuple(index[axes.index(axis)] for axis in range(len(axes)))
        case "slice":
            return tuple(i + (e["start"] if axis == e["axis"] else 0) for axis, i in enumerate(index))
        case "broadcast":
            inner = index[len(index) - len(source) :]
            return tuple(0 if n == 1 else i for i, n in zip(inner, source, strict=True))
        case _:
            return index
