"""interpret: a kernel run one scalar at a time, slow and obviously right: the independent oracle of the executors."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import FUNCTIONS, Acc, Const, Fold, Index, Kernel, Load, Local, Op, Scalar, Statement, Store
from presk_db.kernels.tree import Nest, tree
from presk_db.native.functions import function

Number = Any
Array = np.ndarray[Any, np.dtype[Any]]


def interpret(kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int]) -> None:
    """Runs the kernel on flat or shaped arrays in place, exactly in the order of its text."""
    with np.errstate(all="ignore"):
        _Run(kernel, arrays, scalars).body(tree(kernel))


def key(x: float) -> tuple[int, float, float]:
    """Sorts as the maximum does: NaN above all, −0 below +0."""
    return (1, 0.0, 0.0) if math.isnan(x) else (0, float(x), math.copysign(1.0, x))


def round_f32(exact: Fraction) -> np.float32:
    """The f32 nearest to a rational, ties to even, by trying the neighbours of a guess."""
    guess = np.float32(float(exact)) if abs(exact) < Fraction(2) ** 200 else np.float32(math.copysign(math.inf, exact))
    largest, step = Fraction(2) ** 128 - Fraction(2) ** 104, Fraction(2) ** 103
    if abs(exact) >= largest + step:
        return np.float32(math.inf if exact > 0 else -math.inf)
    if np.isinf(guess):
        guess = np.float32(math.copysign(float(largest), exact))
    near = [x for x in (np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf)))]
    finite = [x for x in near if np.isfinite(x)]
    return min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), int(np.asarray(x).view(np.int32)) & 1))


def exact_fma(a: Number, b: Number, c: Number) -> Number:
    """a * b + c, rounded once."""
    type_ = type(a)
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)) or a == 0 or b == 0:
        return a * b + c if not (np.isfinite(a) and np.isfinite(b)) or np.isfinite(c) else c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return type_(0)
    if type_ is np.float32:
        return np.float32(np.copysign(round_f32(exact), np.float32(1 if exact > 0 else -1)))
    try:
        return np.float64(exact.numerator / exact.denominator)
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def bf16_bits(x: np.float32) -> int:
    """The bfloat16 nearest to x, by comparing distances to the two neighbours."""
    if np.isnan(x):
        return 0x7FC0
    low = struct.unpack("<I", struct.pack("<f", x))[0] >> 16
    if np.isinf(x):
        return int(low)

    def real(bits: int) -> Fraction:
        if bits & 0x7FFF == 0x7F80:
            return Fraction(2) ** 128
        return abs(Fraction(struct.unpack("<f", struct.pack("<I", bits << 16))[0]))

    distance = [abs(real(low + i) - abs(Fraction(float(x)))) for i in (0, 1)]
    return int(low + (distance[1] < distance[0] or (distance[0] == distance[1] and low & 1)))


def _wrap(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


def _to_i64(x: Number) -> int:
    if math.isnan(x):
        return 0
    return max(-(2**63), min(2**63 - 1, int(x))) if math.isfinite(x) else (2**63 - 1 if x > 0 else -(2**63))


def _convert(x: Number, to: str) -> Number:
    if to == "i64":
        return int(x) if isinstance(x, (bool, int)) else _to_i64(x)
    if to == "f32":
        return round_f32(Fraction(x)) if isinstance(x, (bool, int)) else np.float32(x)
    return np.float64(x)


_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": lambda a, b: a if a > b else b,
    "min": lambda a, b: a if a < b else b,
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


class _Run:
    def __init__(self, kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int]) -> None:
        self.types = {a.name: a.type for a in kernel.arrays}
        self.shapes = {a.name: a.shape for a in kernel.arrays}
        self.memory: dict[str, Any] = {a.name: x.reshape(-1) for a, x in zip(kernel.arrays, arrays, strict=True)}
        self.scalars = scalars
        self.values: dict[str, Number] = {k: v for k, v in scalars.items() if isinstance(v, int)}
        self.accs: dict[str, list[tuple[int, Number]]] = {}  # each folded value, with its iteration's number
        self.loops: list[str] = []

    def body(self, nodes: tuple[Statement | Nest, ...]) -> None:
        opened: list[Acc] = []
        for node in nodes:
            if isinstance(node, Nest):
                self.loops.append(node.loop.var)
                for i in range(self.affine(node.loop.extent)):
                    self.values[node.loop.var] = i
                    self.body(node.body)
                self.loops.pop()
                if node.loop.kind == "seq":
                    for acc in opened:
                        self.values[acc.dest] = self.finished(acc)
                    opened = []
            else:
                if isinstance(node, Acc):
                    opened.append(node)
                self.statement(node)

    def affine(self, e: Affine) -> int:
        return e.const + sum(c * int(self.values[n]) for n, c in e.terms)

    def at(self, array: str, index: tuple[Affine, ...]) -> int:
        address = 0
        for n, e in zip(self.shapes[array], index, strict=True):
            i = self.affine(e)
            assert 0 <= i < n
            address = address * n + i
        return address

    def finished(self, acc: Acc) -> Number:
        kind, type_ = acc.kind, acc.type
        number = {"f32": np.float32, "f64": np.float64, "i64": int}[type_]
        items = [x for _, x in self.accs[acc.dest]]
        if kind == "sum":
            total = number(0)
            for x in items:
                total = _wrap(total + x) if type_ == "i64" else total + x
            return total
        if kind == "lanes":
            lanes = [number(0) for _ in range(32)]
            for i, x in self.accs[acc.dest]:
                lanes[i % 32] = lanes[i % 32] + x
            for w in (16, 8, 4, 2, 1):
                lanes = [lanes[j] + lanes[j + w] for j in range(w)]
            return lanes[0]
        if kind == "max":
            if type_ == "i64":
                return max(items, default=-(2**63))
            return max(items, default=number(-math.inf), key=key)
        return max(self.accs[acc.dest], key=lambda item: key(item[1]), default=(0, 0))[0]

    def statement(self, s: Statement) -> None:
        v = self.values
        match s:
            case Local(name, type_, shape):
                self.types[name], self.shapes[name] = type_, shape
                self.memory[name] = [None] * math.prod(shape)
            case Acc():
                self.accs[s.dest] = []
            case Fold(acc, value):
                self.accs[acc].append((v[self.loops[-1]], v[value]))
            case Load(dest, array, index):
                v[dest] = self.loaded(self.types[array], self.memory[array][self.at(array, index)])
            case Store(array, index, value):
                x = v[value]
                self.memory[array][self.at(array, index)] = bf16_bits(x) if self.types[array] == "bf16" else x
            case Const(dest, type_, text):
                v[dest] = {
                    "f32": lambda t: np.float32(float.fromhex(t)),
                    "f64": lambda t: np.float64(float.fromhex(t)),
                    "i64": int,
                    "bool": lambda t: t == "1",
                }[type_](text)
            case Index(dest, expression):
                v[dest] = self.affine(expression)
            case Scalar(dest, scalar):
                v[dest] = np.float64(self.scalars[scalar])
            case Op(dest, op, type_, args):
                v[dest] = self.op(op, type_, [v[a] for a in args])

    @staticmethod
    def loaded(type_: str, x: Number) -> Number:
        assert x is not None, "an element of a local is read before it is written"
        if type_ == "bf16":
            return np.float32(struct.unpack("<f", struct.pack("<I", int(x) << 16))[0])
        return {"f32": np.float32, "f64": np.float64, "i64": int, "bool": bool}[type_](x)

    @staticmethod
    def op(op: str, type_: str, a: list[Number]) -> Number:
        if op in _BINARY:
            result = _BINARY[op](*a)
            return _wrap(result) if type_ == "i64" and not isinstance(result, bool) else result
        match op:
            case "neg":
                return _wrap(-a[0]) if type_ == "i64" else -a[0]
            case "abs":
                return np.abs(a[0])
            case "sqrt":
                return np.sqrt(a[0])
            case "fma":
                return exact_fma(*a)
            case "not":
                return not a[0]
            case "select":
                return a[1] if a[0] else a[2]
            case "cvt":
                return _convert(a[0], type_)
        assert op in FUNCTIONS
        return function(op, type_)(np.array([a[0]]))[0]  # tested on its own
