"""RULES: how each primitive hands the cotangent of its result back, one function an operand, None where there is none.

A rule sees one equation as an `At`: `g` is the result's cotangent, `a b c` the operands and `y` the result. These are
made on demand: what no rule asks for is not kept. Where a function has no derivative, the rule states which one it takes:

    abs          0 at 0
    maximum      of `a > b ? a : b`: all to b where they are equal; minimum likewise
    reduce_max   all to the first maximum, which argmax gives
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from presk_db.errors import EntryBad
from presk_db.language.elementwise import cos, equal, erf, exp, sigmoid, sin
from presk_db.language.graph import Equation, Var
from presk_db.language.primitives import (
    COMPARE,
    LOGIC,
    argmax,
    broadcast_to,
    const,
    gather,
    iota,
    matmul,
    reshape,
    scatter_add,
    select,
    slice_axis,
    sum,
    transpose,
)
from presk_db.language.tracing import Tensor


@dataclass(frozen=True)
class Piece:
    """The cotangent of a part of an operand, from `start` on along `axis`; the rest's is 0."""

    axis: int
    start: int
    tensor: Tensor


@dataclass(frozen=True)
class Behind:
    """The cotangent of what the operand is a broadcast of."""

    tensor: Tensor


Cotangent = Tensor | Piece | Behind


@dataclass(frozen=True)
class At:
    """An equation, its result's cotangent, the tensor of any of its values, and the equation that made a value."""

    equation: Equation
    g: Tensor
    primal: Callable[[Var], Tensor]
    made_by: Callable[[Var], Equation | None]

    @property
    def a(self) -> Tensor:
        """The first operand."""
        return self.primal(self.equation.inputs[0])

    @property
    def b(self) -> Tensor:
        """The second operand."""
        return self.primal(self.equation.inputs[1])

    @property
    def c(self) -> Tensor:
        """The third operand."""
        return self.primal(self.equation.inputs[2])

    @property
    def y(self) -> Tensor:
        """The result."""
        return self.primal(self.equation.outputs[0])

    def shape(self, operand: int = 0) -> tuple[int, ...]:
        """An operand's shape."""
        return self.equation.inputs[operand].shape


Rule = Callable[[At], Cotangent] | None


def zeros(shape: tuple[int, ...]) -> Tensor:
    """+0 everywhere."""
    return broadcast_to(const(0.0), shape)


def reduced_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The cotangent of what was broadcast from `shape`: repeated axes are summed.

    Neighbouring repeated axes are one long sum in row-major order; of several such groups, the last comes first.
    """
    padded = (1,) * (len(g.shape) - len(shape)) + shape
    axis = len(padded)
    while axis > 0:
        end = axis
        while axis > 0 and padded[axis - 1] == 1:
            axis -= 1
        if math.prod(g.shape[axis:end]) != 1:
            g = sum(reshape(g, *g.shape[:axis], math.prod(g.shape[axis:end]), *g.shape[end:]), axis)
        axis -= 1
    return reshape(g, *shape)


def _no_rule(r: At) -> Cotangent:
    raise EntryBad(f"{r.equation.op} has no derivative", r.equation.source)


def _silu(r: At) -> Tensor:
    s = sigmoid(r.a)
    return r.g * (s * (1.0 + r.a * (1.0 - s)))


def _gelu(r: At) -> Tensor:
    below = 0.5 * (1.0 + erf(r.a * math.sqrt(0.5)))
    return r.g * (below + r.a * exp(-0.5 * (r.a * r.a)) * (1.0 / math.sqrt(2.0 * math.pi)))


def _transposed(r: At) -> Tensor:
    axes = r.equation["axes"]
    return transpose(r.g, *(axes.index(a) for a in range(len(axes))))


def _repeated(r: At) -> Tensor:
    """A sum's cotangent, at each of its terms."""
    axis, shape = r.equation["axis"], r.shape()
    return broadcast_to(reshape(r.g, *shape[:axis], 1, *shape[axis + 1 :]), shape)


def _largest(r: At) -> Tensor:
    axis, shape = r.equation["axis"], r.shape()
    if shape[axis] == 0:
        return zeros(shape)
    row = (*shape[:axis], 1, *shape[axis + 1 :])
    first = equal(iota(shape, axis), reshape(argmax(r.a, axis), *row))
    return select(first, reshape(r.g, *row), 0.0)


def _right(r: At) -> Cotangent:
    """a^T g. Where the matrix was broadcast along the last batch axes, one product over these and the rows, in order."""
    whole, e = r.shape(1), r.made_by(r.equation.inputs[1])
    if e is not None and e.op == "broadcast":
        small = e.inputs[0].shape
        padded = (1,) * (len(whole) - len(small)) + small
        kept = len(whole) - 2
        while kept > 0 and padded[kept - 1] == 1:
            kept -= 1
        if padded[:kept] == whole[:kept] and padded[-2:] == whole[-2:]:
            rows = math.prod(r.shape()[kept:-1])
            a = reshape(r.a, *whole[:kept], rows, whole[-2])
            return Behind(reshape(matmul(transpose(a), reshape(r.g, *whole[:kept], rows, whole[-1])), *small))
    if e is not None and e.op == "transpose" and e["axes"][-1] != len(whole) - 1:
        return transpose(matmul(transpose(r.g), r.a))  # the same products, in the rows of what was transposed
    return matmul(transpose(r.a), r.g)


def _part(operand: int) -> Callable[[At], Tensor]:
    def rule(r: At) -> Tensor:
        axis = r.equation["axis"]
        start = 0
        for before in range(operand):
            start += r.shape(before)[axis]
        return slice_axis(r.g, axis, start, start + r.shape(operand)[axis])

    return rule


RULES: dict[str, tuple[Rule, ...]] = {
    "neg": (lambda r: -r.g,),
    "abs": (lambda r: select(r.a > 0.0, r.g, select(r.a < 0.0, -r.g, 0.0)),),
    "sqrt": (lambda r: 0.5 * r.g / r.y,),
    "exp": (lambda r: r.g * r.y,),
    "expm1": (lambda r: r.g * (r.y + 1.0),),
    "log": (lambda r: r.g / r.a,),
    "log1p": (lambda r: r.g / (r.a + 1.0),),
    "tanh": (lambda r: r.g * (1.0 - r.y * r.y),),
    "sin": (lambda r: r.g * cos(r.a),),
    "cos": (lambda r: -(r.g * sin(r.a)),),
    "erf": (lambda r: r.g * (2.0 / math.sqrt(math.pi)) * exp(-(r.a * r.a)),),
    "sigmoid": (lambda r: r.g * (r.y * (1.0 - r.y)),),
    "silu": (_silu,),
    "gelu": (_gelu,),
    "add": (lambda r: r.g, lambda r: r.g),
    "sub": (lambda r: r.g, lambda r: -r.g),
    "mul": (lambda r: r.g * r.b, lambda r: r.g * r.a),
    "div": (lambda r: r.g / r.b, lambda r: -(r.g / r.b * r.y)),
    "maximum": (lambda r: select(r.a > r.b, r.g, 0.0), lambda r: select(r.a > r.b, 0.0, r.g)),
    "minimum": (lambda r: select(r.a < r.b, r.g, 0.0), lambda r: select(r.a < r.b, 0.0, r.g)),
    "select": (None, lambda r: select(r.a, r.g, 0.0), lambda r: select(r.a, 0.0, r.g)),
    **dict.fromkeys((*COMPARE, "and", "or"), (None, None)),
    **dict.fromkeys(("not", "real", "argmax", "stop"), (None,)),
    "site": (lambda r: r.g,),
    "update": (lambda r: r.g, None),
    "reshape": (lambda r: reshape(r.g, *r.shape()),),
    "transpose": (_transposed,),
    "slice": (lambda r: Piece(r.equation["axis"], r.equation["start"], r.g),),
    "broadcast": (lambda r: reduced_to(r.g, r.shape()),),
    "reduce_sum": (_repeated,),
    "reduce_max": (_largest,),
    "const": (),
    "iota": (),
    "take_rows": (_no_rule, None),
    "seen": (_no_rule, None),
    "put_rows": (_no_rule, _no_rule, None),
    "gather": (lambda r: scatter_add(r.b, r.g, r.shape()[0]), None),
    "scatter_add": (None, lambda r: gather(r.g, r.a)),
    "uniform": (None,),
    "penalize": (None, None, None, None),
    "sample": (None, None, None, None, None, None),
    **dict.fromkeys(("key_seed", "key_split"), (None,)),
    "key_child": (None, None),
    "matmul": (lambda r: matmul(r.g, transpose(r.b)), _right),
}
"""By primitive. A concat has as many rules as operands: see `rules_of`."""

assert set(LOGIC) <= set(RULES)


def rules_of(e: Equation) -> tuple[Rule, ...]:
    """An equation's rules, one an operand."""
    return tuple(_part(i) for i in range(len(e.inputs))) if e.op == "concat" else RULES[e.op]
