"""The loop-nest kernel: a flat list of statements over parameters, whose text is its identity.

The grammar, one statement a line (names: arrays a0 a1 …, locals l0 …, scalars s0 …, extents n0 …, loops i0 …, values v0 …):

    in    a0: f32[256,384]            an array that is read; row-major, contiguous, literal extents
    in    a1: i64[256] < 65           an integer array whose elements are in [0, 65)
    out   a2: f32[256,65]             an array that is written, never read
    scalar s0: f64                    a run-time number
    extent n0 <= 256                  a run-time integer in [0, 256]
    par   i0 < 256                    a loop whose iterations are independent
    seq   i1 < i0+1                   a loop that feeds accumulators; the extent may be affine in outer names
    end                               closes the innermost loop
    local l0: f32[256]                a scratch array of the enclosing iteration; bf16 rounds what is stored
    v0 = acc.f32 sum                  an accumulator: sum lanes max argmax; readable after the seq that folds into it
    fold  v0 v1                       one step of it
    v1 = load a0[i0,64*i1+3]          an element, by affine indices; a name may also be a loaded integer
    store a2[i0,i1] v1                rounds once to the array's type
    v2 = const.f32 0x1.8p+1           a literal, exact
    v3 = index 2*i0+1                 an integer from loop variables
    v4 = scalar s0
    v5 = mul.f32 v1 v2                an operation in a stated type
    v6 = cvt.f64 v5                   a conversion, rounded once
    run   uniform a0 a1               a routine on whole arrays, outside all loops (see `routines`)

Accumulators: `sum` adds in the loop's order from +0; `lanes` is the sum of 32 lanes (element i to lane i mod 32, then
halves added); `max` is the maximum of the order-preserving integer keys (−0 < +0, NaN above all), −inf over nothing;
`argmax` is the first index of the maximum by the same keys, 0 over nothing.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from presk_db.kernels.affine import Affine

Mode = Literal["in", "out"]
LoopKind = Literal["par", "seq"]
AccKind = Literal["sum", "lanes", "max", "argmax"]

LANES = 32
"""The lanes of a long sum."""

FUNCTIONS: tuple[str, ...] = (
    "exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "erf", "sigmoid", "silu", "gelu",
)  # fmt: skip
"""Unary operations whose result is the correctly rounded real value."""

ARITHMETIC: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "abs": 1, "sqrt": 1, "max": 2, "min": 2, "fma": 3,
}  # fmt: skip
"""Operations from one type to the same type, with their number of operands. `max` is a > b ? a : b, `min` a < b ? a : b."""

COMPARISONS: tuple[str, ...] = ("lt", "le", "gt", "ge", "eq", "ne")
"""Operations from two operands of the stated type to bool."""

LOGIC: dict[str, int] = {"and": 2, "or": 2, "not": 1}
"""Operations on bool, written with the type bool."""


@dataclass(frozen=True)
class Array:
    """A parameter in memory: row-major and contiguous. `limit` bounds the integers of an i64 array: [0, limit)."""

    name: str
    mode: Mode
    type: str
    shape: tuple[int, ...]
    limit: int | None = None


@dataclass(frozen=True)
class ScalarParameter:
    """A run-time f64 number."""

    name: str


@dataclass(frozen=True)
class ExtentParameter:
    """A run-time integer in [0, bound]."""

    name: str
    bound: int


Parameter = Array | ScalarParameter | ExtentParameter


@dataclass(frozen=True)
class Loop:
    """Opens a loop over `var` from 0 below `extent`."""

    kind: LoopKind
    var: str
    extent: Affine


@dataclass(frozen=True)
class End:
    """Closes the innermost loop."""


@dataclass(frozen=True)
class Local:
    """A scratch array, undefined at the start of each iteration of the enclosing loops."""

    name: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Acc:
    """Defines an accumulator, which the next `seq` loop at this level folds into."""

    dest: str
    type: str
    kind: AccKind


@dataclass(frozen=True)
class Fold:
    """One step of an accumulator."""

    acc: str
    value: str


@dataclass(frozen=True)
class Load:
    """Reads one element; a bf16 element becomes an f32."""

    dest: str
    array: str
    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Store:
    """Writes one element; an f32 is rounded to a bf16 array's type."""

    array: str
    index: tuple[Affine, ...]
    value: str


@dataclass(frozen=True)
class Const:
    """A literal: f32 and f64 as hexadecimal floats, inf, -inf or nan; i64 in decimal; bool as 0 or 1."""

    dest: str
    type: str
    literal: str


@dataclass(frozen=True)
class Index:
    """An i64 from loop variables and extents."""

    dest: str
    expression: Affine


@dataclass(frozen=True)
class Scalar:
    """Reads a scalar parameter, an f64."""

    dest: str
    scalar: str


@dataclass(frozen=True)
class Op:
    """`dest = op.type args`: arithmetic, a function, a comparison, logic, `select` (bool, then two) or `cvt`."""

    dest: str
    op: str
    type: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Routine:
    """Runs a routine of `routines` on arrays, locals and values, which it takes in its own order."""

    name: str
    args: tuple[str, ...]


Statement = Loop | End | Local | Acc | Fold | Load | Store | Const | Index | Scalar | Op | Routine


@dataclass(frozen=True)
class Kernel:
    """Parameters and statements. Equal text means an equal kernel."""

    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]

    @cached_property
    def text(self) -> str:
        """The kernel's text, indented, ending in a newline; `parse` gives the kernel back."""
        lines = [_parameter_text(p) for p in self.parameters]
        depth = 0
        for s in self.statements:
            if isinstance(s, End):
                depth -= 1
            lines.append("  " * depth + statement_text(s))
            if isinstance(s, Loop):
                depth += 1
        return "\n".join(lines) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The array parameters, in order."""
        return tuple(p for p in self.parameters if isinstance(p, Array))


def literal(value: float, type_: str) -> str:
    """The exact literal of `value` (already a number of `type_`) for `Const`."""
    if type_ in ("i64", "bool"):
        return str(int(value))
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return float(value).hex()


def _shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _parameter_text(p: Parameter) -> str:
    match p:
        case Array(name, mode, type_, shape, limit):
            return f"{mode} {name}: {type_}{_shape_text(shape)}" + (f" < {limit}" if limit is not None else "")
        case ScalarParameter(name):
            return f"scalar {name}: f64"
        case ExtentParameter(name, bound):
            return f"extent {name} <= {bound}"


def access_text(array: str, index: tuple[Affine, ...]) -> str:
    """`a0[i0,64*i1+3]`."""
    return f"{array}[{','.join(map(str, index))}]"


def statement_text(s: Statement) -> str:
    """One statement's line, without indentation."""
    match s:
        case Loop(kind, var, extent):
            return f"{kind} {var} < {extent}"
        case End():
            return "end"
        case Local(name, type_, shape):
            return f"local {name}: {type_}{_shape_text(shape)}"
        case Acc(dest, type_, kind):
            return f"{dest} = acc.{type_} {kind}"
        case Fold(acc, value):
            return f"fold {acc} {value}"
        case Load(dest, array, index):
            return f"{dest} = load {access_text(array, index)}"
        case Store(array, index, value):
            return f"store {access_text(array, index)} {value}"
        case Const(dest, type_, text):
            return f"{dest} = const.{type_} {text}"
        case Index(dest, expression):
            return f"{dest} = index {expression}"
        case Scalar(dest, scalar):
            return f"{dest} = scalar {scalar}"
        case Op(dest, op, type_, args):
            return f"{dest} = {op}.{type_} {' '.join(args)}"
        case Routine(name, args):
            return f"run {name} {' '.join(args)}"
