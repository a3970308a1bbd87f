"""Tensors of exact reals: elementwise functions, comparisons, sums and products in ball arithmetic (Johansson 2017).

A tensor is a NumPy array: of floats, which stand for themselves; of objects, which are `arb` balls, each a proven
enclosure of one real number; of int64 or bool. Infinities follow limits, without signs of zero; what has no value
(0/0, the root of a negative number, a quotient by zero) is NaN. Where a ball is too wide to tell, Undecided is raised.
"""

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from presk_db.errors import ExactUnavailable

flint: Any = importlib.import_module("flint") if importlib.util.find_spec("flint") else None
"""None where the optional group `exact` is not installed."""

Values = np.ndarray[Any, np.dtype[Any]]
Ball = Any
"""A flint.arb; its stubs name no type."""

NAN, INF = float("nan"), float("inf")


class Undecided(Exception):
    """A ball is too wide to say on which side of a boundary its number lies.

    No error: the precision is raised and the computation begun again.
    """


def need_flint() -> None:
    """Raises ExactUnavailable (E7006) where python-flint is not installed."""
    if flint is None:
        raise ExactUnavailable("exact values need python-flint: install presk[exact]")


def working_precision(bits: int) -> Any:
    """A context in which every operation on balls rounds its midpoint to so many bits."""
    return flint.ctx.workprec(bits)


def ball(value: float | int) -> Ball:
    """The exact ball of a number."""
    return flint.arb(value)


def array_of(f: Callable[..., Any], *arrays: Values) -> Values:
    """`f` of the elements of arrays of one shape, as an array of objects."""
    result = np.frompyfunc(f, len(arrays), 1)(*arrays)
    if isinstance(result, np.ndarray):
        return result
    scalar = np.empty((), object)
    scalar[()] = result
    return scalar


def filled(shape: tuple[int, ...], value: float) -> Values:
    """A view of one float, repeated."""
    return np.broadcast_to(np.float64(value), shape)


def balls(x: Values) -> Values:
    """The same reals as balls; a repeated axis stays a view."""
    if x.dtype == object:
        return x
    repeated = tuple(slice(0, 1) if s == 0 and n > 1 else slice(None) for s, n in zip(x.strides, x.shape, strict=True))
    base = x[repeated]
    if base.dtype.kind == "f":
        base = base.astype(np.float64)
    return np.broadcast_to(array_of(flint.arb, base.astype(object)), x.shape)


def _flags(f: Callable[[Ball], bool], x: Values) -> Values:
    return np.asarray(array_of(f, x), np.bool_)


def finite(x: Values) -> Values:
    """Where a ball is a bounded interval."""
    return _flags(flint.arb.is_finite, x)


# --- functions ------------------------------------------------------------------------------------------------------


def _sigmoid(x: Ball) -> Ball:
    return 1 / (1 + (-x).exp())


def _silu(x: Ball) -> Ball:
    return x / (1 + (-x).exp())


def _gelu(x: Ball) -> Ball:
    return x * (-x / flint.arb(2).sqrt()).erfc() / 2


@cache
def _functions() -> dict[str, Callable[[Ball], Ball]]:
    arb = flint.arb
    own = {"neg": arb.__neg__, "abs": arb.__abs__, "sigmoid": _sigmoid, "silu": _silu, "gelu": _gelu}
    return own | {n: getattr(arb, n) for n in ("sqrt", "exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "erf")}


_LIMITS: dict[str, tuple[float, float]] = {
    "neg": (INF, -INF),
    "abs": (INF, INF),
    "sqrt": (NAN, INF),
    "exp": (0.0, INF),
    "expm1": (-1.0, INF),
    "log": (NAN, INF),
    "log1p": (NAN, INF),
    "tanh": (-1.0, 1.0),
    "sin": (NAN, NAN),
    "cos": (NAN, NAN),
    "erf": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "silu": (0.0, INF),
    "gelu": (0.0, INF),
}
"""The limits of each function at -inf and at +inf."""

_LOWEST = {"sqrt": (0, 0.0), "log": (0, -INF), "log1p": (-1, -INF)}
"""Where the domain of a function begins, and the function's limit there."""


def unary(op: str, x: Values) -> Values:
    """An elementwise function of reals."""
    if x.dtype != object and op in ("neg", "abs"):
        return np.negative(x) if op == "neg" else np.abs(x)
    x = balls(x)
    y = array_of(_functions()[op], x)
    odd = ~finite(y)
    if op in ("sin", "cos"):
        odd |= ~finite(x)
    for at in np.argwhere(odd):
        place = tuple(at)
        y[place] = _unary_special(op, x[place])
    return y


def _unary_special(op: str, x: Ball) -> Ball:
    """A function's value where arb gives none, or none that is finite."""
    if x.is_nan():
        return ball(NAN)
    if not x.is_finite():
        if not x.is_exact():
            raise Undecided
        return ball(_LIMITS[op][1 if x > 0 else 0])
    if op in _LOWEST:
        edge, value = _LOWEST[op]
        if x < edge:
            return ball(NAN)
        if x == edge:
            return ball(value)
    raise Undecided


def binary(op: str, a: Values, b: Values) -> Values:
    """add, sub, mul, div, maximum or minimum of reals of one shape."""
    a, b = balls(a), balls(b)
    match op:
        case "add":
            return np.add(a, b, dtype=object)
        case "sub":
            return np.subtract(a, b, dtype=object)
        case "mul":
            y = np.asarray(np.multiply(a, b, dtype=object), object)
        case "div":
            y = np.asarray(np.divide(a, b, dtype=object), object)
        case _:
            y = array_of(flint.arb.max if op == "maximum" else flint.arb.min, a, b)
    for at in np.argwhere(~finite(y)):
        place = tuple(at)
        y[place] = _binary_special(op, a[place], b[place], y[place])
    return y


def _binary_special(op: str, a: Ball, b: Ball, y: Ball) -> Ball:
    if op in ("maximum", "minimum"):
        return b if a.is_nan() or b.is_nan() else y  # a > b ? a : b
    for x in (a, b):
        if not (x.is_finite() or x.is_nan() or x.is_exact()):
            raise Undecided
    if a.is_nan() or b.is_nan():
        return ball(NAN)
    if op == "div" and b.is_zero():
        return ball(NAN)
    if op == "div" and not a.is_finite() and not b.is_finite():
        return ball(NAN)
    if op == "mul" and (a.is_zero() or b.is_zero()):
        return ball(NAN)
    sign = _sign(a) * _sign(b)  # one of them is infinite, or the divisor's ball holds zero
    return ball(sign * INF)


def _sign(x: Ball) -> int:
    if x > 0:
        return 1
    if x < 0:
        return -1
    raise Undecided


# --- comparisons ----------------------------------------------------------------------------------------------------

_COMPARE: dict[str, tuple[Any, Any]] = {
    "lt": (np.less, np.greater_equal),
    "le": (np.less_equal, np.greater),
    "gt": (np.greater, np.less_equal),
    "ge": (np.greater_equal, np.less),
    "eq": (np.equal, np.not_equal),
    "ne": (np.not_equal, np.equal),
}
"""A comparison and its opposite; of balls, each is true only where it is certain."""


def compared(op: str, a: Values, b: Values) -> Values:
    """The truth of a comparison; Undecided where the balls overlap. A NaN makes all false but `ne`."""
    yes, no = _COMPARE[op]
    if a.dtype != object and b.dtype != object:
        return np.asarray(yes(a, b))
    a, b = balls(a), balls(b)
    true, false = np.asarray(yes(a, b), np.bool_), np.asarray(no(a, b), np.bool_)
    nan = _flags(flint.arb.is_nan, a) | _flags(flint.arb.is_nan, b)
    if (~(true | false | nan)).any():
        raise Undecided
    return np.where(nan, op == "ne", true)


def selected(condition: Values, a: Values, b: Values) -> Values:
    """`a` where the condition holds, else `b`."""
    if a.dtype != b.dtype and object in (a.dtype, b.dtype):
        a, b = balls(a), balls(b)
    return np.where(condition, a, b)


def reals(x: Values) -> Values:
    """Integers or truth values as reals."""
    if x.dtype == np.bool_ or x.size == 0 or max(abs(int(x.min())), abs(int(x.max()))) <= 2**53:
        return x.astype(np.float64)
    return balls(x)


# --- sums -----------------------------------------------------------------------------------------------------------


def summed(x: Values, axis: int) -> Values:
    """The sum along one axis."""
    if x.shape[axis] == 0:
        return filled((*x.shape[:axis], *x.shape[axis + 1 :]), 0.0)
    return np.asarray(np.add.reduce(balls(x), axis), object)


def largest(x: Values, axis: int) -> Values:
    """The maximum along one axis, NaN above all; -inf over nothing."""
    if x.shape[axis] == 0:
        return filled((*x.shape[:axis], *x.shape[axis + 1 :]), -INF)
    return np.asarray(np.frompyfunc(flint.arb.max, 2, 1).reduce(balls(x), axis), object)


def first_largest(x: Values, axis: int) -> Values:
    """The first index of the maximum along one axis, NaN above all; Undecided where two may be the largest."""
    rows = np.moveaxis(balls(x), axis, -1)
    found = np.empty(rows.shape[:-1], np.int64)
    for at in np.ndindex(found.shape):
        found[at] = _first_largest(list(rows[at]))
    return found


def _first_largest(row: list[Ball]) -> int:
    for i, x in enumerate(row):
        if x.is_nan():
            return i
    best = 0
    for i, x in enumerate(row):
        if x.mid() > row[best].mid():
            best = i
    if not all(x < row[best] for x in row[:best]) or not all(x <= row[best] for x in row[best + 1 :]):
        raise Undecided
    return best


def product(a: Values, b: Values) -> Values:
    """a (..., M, K) @ b (..., K, N) with equal leading axes."""
    batch, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
    if k == 0 or 0 in (*batch, m, n):
        return filled((*batch, m, n), 0.0)
    if all(s == 0 or e == 1 for s, e in zip(b.strides[:-2], batch, strict=True)):  # one matrix for all: one product
        one = _matrix(a.reshape(-1, k)) * _matrix(b[(0,) * len(batch)])
        return _entries(one, (*batch, m, n))
    out = np.empty((*batch, m, n), object)
    for at in np.ndindex(batch):
        out[at] = _entries(_matrix(a[at]) * _matrix(b[at]), (m, n))
    return out


def _matrix(x: Values) -> Any:
    if x.dtype.kind == "f":
        x = x.astype(np.float64)
    return flint.arb_mat(x.shape[0], x.shape[1], x.reshape(-1).tolist())


def _entries(matrix: Any, shape: tuple[int, ...]) -> Values:
    flat = np.empty(matrix.nrows() * matrix.ncols(), object)
    flat[:] = matrix.entries()
    return flat.reshape(shape)
