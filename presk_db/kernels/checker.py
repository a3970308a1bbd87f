"""check_kernel: names, types, loops and bounds of a kernel, each with its own error code."""

import math
from dataclasses import dataclass, field

from presk_db.errors import KernelAliasBad, KernelBoundsBad, KernelLoopBad, KernelNameBad, KernelTypeBad
from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LOGIC,
    Acc,
    Array,
    Const,
    End,
    ExtentParameter,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Op,
    Routine,
    Scalar,
    ScalarParameter,
    Statement,
    Store,
    literal,
    statement_text,
)
from presk_db.kernels.routines import Given, check_routine
from presk_db.kernels.types import COMPUTE, SIZES

_FLOATS = ("f32", "f64")
_I64_OPS = ("add", "sub", "mul", "neg", "max", "min")


@dataclass
class _Scope:
    """What is visible: a stack of levels, one a loop, and every name ever defined."""

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Array | Local] = field(default_factory=dict)
    scalars: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    levels: list[tuple[Loop, list[str]]] = field(default_factory=list)
    open_accs: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # name -> kind, type, level of definition

    def define(self, name: str) -> None:
        if name in self.used:
            raise KernelNameBad(f"{name} is defined twice")
        self.used.add(name)
        if self.levels:
            self.levels[-1][1].append(name)

    def type_of(self, name: str) -> str:
        if name not in self.values:
            raise KernelNameBad(f"{name} is not a value here")
        return self.values[name]


def check_kernel(kernel: Kernel) -> None:
    """Raises E2002 … E2006 with the statement's line where the kernel is not well formed; returns None where it is."""
    scope = _Scope()
    line = 0
    try:
        for p in kernel.parameters:
            line += 1
            scope.define(p.name)
            match p:
                case Array(name, _, type_, shape, limit):
                    if type_ not in SIZES:
                        raise KernelTypeBad(f"{type_} is no storage type")
                    if limit is not None and (type_ != "i64" or limit < 0):
                        raise KernelTypeBad("only an i64 array has a limit, and it is not negative")
                    if any(n < 0 for n in shape):
                        raise KernelBoundsBad(f"{name} has a negative extent")
                    scope.arrays[name] = p
                case ScalarParameter(name):
                    scope.scalars.add(name)
                case ExtentParameter(name, bound):
                    if bound < 0:
                        raise KernelBoundsBad(f"{name} has a negative bound")
                    scope.ranges[name] = (0, bound)
        for s in kernel.statements:
            line += 1
            _check_statement(s, scope)
        if scope.levels:
            raise KernelLoopBad(f"the loop over {scope.levels[-1][0].var} is not closed")
    except (KernelAliasBad, KernelBoundsBad, KernelLoopBad, KernelNameBad, KernelTypeBad) as e:
        raise type(e)(e.message, f"line {line}") from None


def _check_statement(s: Statement, scope: _Scope) -> None:
    match s:
        case Loop():
            _open(s, scope)
        case End():
            _close(scope)
        case Local(name, type_, shape):
            if type_ not in SIZES or any(n < 0 for n in shape):
                raise KernelTypeBad("a local has a storage type and extents that are not negative")
            scope.define(name)
            scope.arrays[name] = s
        case Acc(dest, type_, kind):
            if type_ not in _FLOATS and not (type_ == "i64" and kind in ("sum", "max")):
                raise KernelTypeBad(f"no accumulator {kind} of {type_}")
            scope.define(dest)
            scope.open_accs[dest] = (kind, type_, len(scope.levels))
        case Fold(acc, value):
            _check_fold(acc, value, scope)
        case Load(dest, array, index):
            target = _array(array, scope)
            if isinstance(target, Array) and target.mode == "out":
                raise KernelAliasBad(f"{array} is written and cannot be read")
            _check_bounds(target, index, scope)
            scope.define(dest)
            scope.values[dest] = COMPUTE[target.type]
            if isinstance(target, Array) and target.limit is not None:
                scope.ranges[dest] = (0, max(target.limit - 1, 0))
        case Store(array, index, value):
            target = _array(array, scope)
            if isinstance(target, Array) and target.mode == "in":
                raise KernelAliasBad(f"{array} is read and cannot be written")
            _check_bounds(target, index, scope)
            if scope.type_of(value) != COMPUTE[target.type]:
                raise KernelTypeBad(f"{array} takes {COMPUTE[target.type]}, {value} is {scope.type_of(value)}")
        case Const(dest, type_, text):
            _check_literal(type_, text)
            scope.define(dest)
            scope.values[dest] = type_
        case Index(dest, expression):
            bounds = _range(expression, scope)
            scope.define(dest)
            scope.values[dest] = "i64"
            scope.ranges[dest] = bounds
        case Scalar(dest, scalar):
            if scalar not in scope.scalars:
                raise KernelNameBad(f"{scalar} is not a scalar parameter")
            scope.define(dest)
            scope.values[dest] = "f64"
        case Op(dest, op, type_, args):
            result = _op_type(op, type_, tuple(scope.type_of(a) for a in args), statement_text(s))
            scope.define(dest)
            scope.values[dest] = result
        case Routine(name, args):
            if scope.levels:
                raise KernelLoopBad("a routine runs outside all loops")
            check_routine(name, args, [_given(a, scope) for a in args])


def _given(name: str, scope: _Scope) -> Given:
    """What an argument of a routine is."""
    if name not in scope.arrays:
        return Given("value", scope.type_of(name))
    array = scope.arrays[name]
    return Given(array.mode if isinstance(array, Array) else "local", array.type, array.shape)


def _open(loop: Loop, scope: _Scope) -> None:
    low, high = _range(loop.extent, scope)
    if low < 0:
        raise KernelLoopBad(f"the extent {loop.extent} can be negative")
    if loop.kind == "par" and any(level.kind == "seq" for level, _ in scope.levels):
        raise KernelLoopBad("a par loop stands outside every seq loop")
    scope.define(loop.var)  # belongs to the enclosing level's list, but leaves scope with its own
    scope.levels.append((loop, []))
    scope.ranges[loop.var] = (0, max(high - 1, 0))


def _close(scope: _Scope) -> None:
    if not scope.levels:
        raise KernelLoopBad("end without a loop")
    loop, names = scope.levels.pop()
    for name in (*names, loop.var):
        scope.values.pop(name, None)
        scope.ranges.pop(name, None)
        scope.arrays.pop(name, None)
        scope.open_accs.pop(name, None)
    if loop.kind == "seq":
        for name in [n for n, (_, _, level) in scope.open_accs.items() if level == len(scope.levels)]:
            kind, type_, _ = scope.open_accs.pop(name)
            scope.values[name] = "i64" if kind == "argmax" else type_


def _check_fold(acc: str, value: str, scope: _Scope) -> None:
    if acc not in scope.open_accs:
        raise KernelLoopBad(f"{acc} is not an accumulator that is open here")
    kind, type_, level = scope.open_accs[acc]
    inner = scope.levels[level:]
    if not inner or any(loop.kind != "seq" for loop, _ in inner):
        raise KernelLoopBad(f"{acc} is folded only inside the seq loops that follow it")
    if kind in ("lanes", "argmax") and len(inner) != 1:
        raise KernelLoopBad(f"{acc} is folded in one loop: lanes and argmax count its iterations")
    if scope.type_of(value) != type_:
        raise KernelTypeBad(f"{acc} takes {type_}, {value} is {scope.type_of(value)}")


def _array(name: str, scope: _Scope) -> Array | Local:
    if name not in scope.arrays:
        raise KernelNameBad(f"{name} is not an array here")
    return scope.arrays[name]


def _range(expression: Affine, scope: _Scope) -> tuple[int, int]:
    for name in expression.names:
        if name not in scope.ranges:
            raise KernelNameBad(f"{name} is not an integer with a known range here")
    return expression.range(scope.ranges)


def _check_bounds(target: Array | Local, index: tuple[Affine, ...], scope: _Scope) -> None:
    if len(index) != len(target.shape):
        raise KernelBoundsBad(f"{target.name} has {len(target.shape)} axes, not {len(index)}")
    bounds = [_range(expression, scope) for expression in index]
    if any(scope.ranges[loop.var][1] == 0 and _empty(loop, scope) for loop, _ in scope.levels):
        return  # a loop without iterations accesses nothing
    for axis, (n, expression, (low, high)) in enumerate(zip(target.shape, index, bounds, strict=True)):
        if low < 0 or high >= n:
            raise KernelBoundsBad(
                f"axis {axis} of {target.name} has {n} elements, {expression} reaches {low} to {high}"
            )


def _empty(loop: Loop, scope: _Scope) -> bool:
    return loop.extent.range(scope.ranges)[1] <= 0


def _check_literal(type_: str, text: str) -> None:
    try:
        match type_:
            case "f32" | "f64":
                value = float.fromhex(text)
                good = text == literal(value, type_) and (type_ == "f64" or _fits_f32(value))
            case "i64":
                good = text == str(int(text)) and -(2**63) <= int(text) < 2**63
            case "bool":
                good = text in ("0", "1")
            case _:
                good = False
    except (ValueError, OverflowError):
        good = False
    if not good:
        raise KernelTypeBad(f"{text} is no literal of {type_}")


def _fits_f32(value: float) -> bool:
    if math.isnan(value) or math.isinf(value) or value == 0:
        return True
    mantissa, exponent = math.frexp(value)
    digits = 24 - max(0, -125 - exponent)
    return exponent <= 128 and digits > 0 and (mantissa * 2.0**digits).is_integer()


def _op_type(op: str, type_: str, args: tuple[str, ...], text: str) -> str:
    """The type of an operation's result; KernelTypeBad where an operand does not fit."""
    if op in ARITHMETIC:
        good = args == (type_,) * ARITHMETIC[op] and (type_ in _FLOATS or (type_ == "i64" and op in _I64_OPS))
    elif op in FUNCTIONS:
        good = args == (type_,) and type_ in _FLOATS
    elif op in COMPARISONS:
        good = args == (type_, type_) and type_ in (*_FLOATS, "i64")
    elif op in LOGIC:
        good = args == ("bool",) * LOGIC[op] and type_ == "bool"
    elif op == "select":
        good = args == ("bool", type_, type_) and type_ in (*_FLOATS, "i64", "bool")
    else:
        numbers = (*_FLOATS, "i64")
        good = (
            op == "cvt" and len(args) == 1 and type_ in numbers and args[0] in (*numbers, "bool") and type_ != args[0]
        )
    if not good:
        raise KernelTypeBad(f"'{text}' does not fit its operands' types ({', '.join(args)})")
    return "bool" if op in COMPARISONS else type_
