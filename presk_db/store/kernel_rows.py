"""A kernel as rows, and a kernel from its rows."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from presk_db.errors import DatabaseDamaged
from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    Acc,
    AccKind,
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
    LoopKind,
    Mode,
    Op,
    Parameter,
    Routine,
    Scalar,
    ScalarParameter,
    Statement,
    Store,
    statement_text,
)
from presk_db.kernels.parser import parse_affine

Row = dict[str, Any]

_MOST_STEPS = 1 << 20  # of counting how often a statement runs, before the count is left out


def parameter_rows(kernel: Kernel) -> Iterator[Row]:
    """A row of kernel_parameters for each parameter, without kernel_id."""
    for position, p in enumerate(kernel.parameters):
        match p:
            case Array(name, mode, type_, shape, limit):
                row = {"kind": mode, "name": name, "type": type_, "shape": shape_text(shape), "int_limit": limit}
            case ScalarParameter(name):
                row = {"kind": "scalar", "name": name, "type": "f64", "shape": None, "int_limit": None}
            case ExtentParameter(name, bound):
                row = {"kind": "extent", "name": name, "type": "i64", "shape": None, "int_limit": bound}
        yield {"position": position, **row}


def statement_rows(kernel: Kernel) -> Iterator[Row]:
    """A row of kernel_statements for each statement, without kernel_id."""
    counts = _executions(kernel)
    depth = 0
    for number, s in enumerate(kernel.statements):
        if isinstance(s, End):
            depth -= 1
        row: Row = dict.fromkeys(("dest", "op", "type", "array", "expression", "operands"))
        row |= {"number": number, "depth": depth, "text": statement_text(s), "executions": counts[number]}
        yield row | _statement_columns(s)
        if isinstance(s, Loop):
            depth += 1


def _statement_columns(s: Statement) -> Row:
    match s:
        case Loop(kind, var, extent):
            return {"kind": "loop", "op": kind, "dest": var, "expression": str(extent)}
        case End():
            return {"kind": "end"}
        case Local(name, type_, shape):
            return {"kind": "local", "dest": name, "type": type_, "expression": shape_text(shape)}
        case Acc(dest, type_, kind):
            return {"kind": "acc", "dest": dest, "type": type_, "op": kind}
        case Fold(acc, value):
            return {"kind": "fold", "dest": acc, "operands": value}
        case Load(dest, array, index):
            return {"kind": "load", "dest": dest, "array": array, "expression": index_text(index)}
        case Store(array, index, value):
            return {"kind": "store", "array": array, "expression": index_text(index), "operands": value}
        case Const(dest, type_, text):
            return {"kind": "const", "dest": dest, "type": type_, "operands": text}
        case Index(dest, expression):
            return {"kind": "index", "dest": dest, "expression": str(expression)}
        case Scalar(dest, scalar):
            return {"kind": "scalar", "dest": dest, "operands": scalar}
        case Op(dest, op, type_, args):
            return {"kind": "op", "dest": dest, "op": op, "type": type_, "operands": " ".join(args)}
        case Routine(name, args):
            return {"kind": "op", "op": name, "operands": " ".join(args)}


def loop_rows(kernel: Kernel) -> Iterator[Row]:
    """A row of kernel_loops for each loop, without kernel_id."""
    stack: list[int] = []
    for number, s in enumerate(kernel.statements):
        if isinstance(s, Loop):
            row: Row = {"statement": number, "var": s.var, "kind": s.kind, "extent": str(s.extent)}
            value = s.extent.const if s.extent.is_const else None
            yield row | {"extent_value": value, "parent": stack[-1] if stack else None}
            stack.append(number)
        elif isinstance(s, End):
            stack.pop()


def access_rows(kernel: Kernel) -> Iterator[Row]:
    """A row of kernel_accesses for each load and store; not affine where an index uses a loaded integer."""
    loaded: set[str] = set()
    for number, s in enumerate(kernel.statements):
        if isinstance(s, (Load, Store)):
            affine = loaded.isdisjoint(name for expression in s.index for name in expression.names)
            row: Row = {"statement": number, "array": s.array, "mode": "read" if isinstance(s, Load) else "write"}
            yield row | {"index_text": index_text(s.index), "is_affine": int(affine)}
        if isinstance(s, Load) or (isinstance(s, Index) and not loaded.isdisjoint(s.expression.names)):
            loaded.add(s.dest)


def _executions(kernel: Kernel) -> list[int | None]:
    """How often each statement runs in one launch; None where a run-time extent or a loaded integer decides."""
    counts: list[int | None] = []
    path: list[Loop] = []
    known: dict[tuple[Loop, ...], int | None] = {(): 1}
    for s in kernel.statements:
        if isinstance(s, End):
            path.pop()
        loops = tuple(path)
        if loops not in known:
            known[loops] = _iterations(loops)
        counts.append(known[loops])
        if isinstance(s, Loop):
            path.append(s)
    return counts


def _iterations(loops: tuple[Loop, ...]) -> int | None:
    """The number of iterations of the innermost of nested loops, over all iterations of the outer ones."""
    variables = {loop.var for loop in loops}
    if any(not variables.issuperset(loop.extent.names) for loop in loops):
        return None
    points: dict[tuple[tuple[str, int], ...], int] = {(): 1}  # values of the variables that later extents use -> count
    steps = 0
    for place, loop in enumerate(loops):
        later = {name for other in loops[place + 1 :] for name in other.extent.names}
        following: dict[tuple[tuple[str, int], ...], int] = {}
        for point, count in points.items():
            extent = max(loop.extent.value(dict(point)), 0)
            kept = tuple((name, value) for name, value in point if name in later)
            values = range(extent) if loop.var in later else [None] if extent else []
            steps += len(values)
            if steps > _MOST_STEPS:
                return None
            for value in values:
                at = kept if value is None else (*kept, (loop.var, value))
                following[at] = following.get(at, 0) + (count * extent if value is None else count)
        points = following
    return sum(points.values())


def kernel_from_rows(parameters: Iterable[Mapping[str, Any]], statements: Iterable[Mapping[str, Any]]) -> Kernel:
    """The kernel that rows of kernel_parameters and kernel_statements, in order, describe.

    Raises:
        DatabaseDamaged: E5005, where a row describes none.
    """
    try:
        return Kernel(tuple(_parameter(p) for p in parameters), tuple(_statement(s) for s in statements))
    except (AttributeError, TypeError, ValueError) as e:
        raise DatabaseDamaged(f"a row of a kernel is malformed: {e}") from None


def _parameter(p: Mapping[str, Any]) -> Parameter:
    match p["kind"]:
        case "scalar":
            return ScalarParameter(p["name"])
        case "extent":
            return ExtentParameter(p["name"], p["int_limit"])
        case kind:
            return Array(p["name"], cast(Mode, kind), p["type"], shape_from_text(p["shape"]), p["int_limit"])


def _statement(s: Mapping[str, Any]) -> Statement:
    match s["kind"]:
        case "loop":
            return Loop(cast(LoopKind, s["op"]), s["dest"], parse_affine(s["expression"]))
        case "end":
            return End()
        case "local":
            return Local(s["dest"], s["type"], shape_from_text(s["expression"]))
        case "acc":
            return Acc(s["dest"], s["type"], cast(AccKind, s["op"]))
        case "fold":
            return Fold(s["dest"], s["operands"])
        case "load":
            return Load(s["dest"], s["array"], _index(s["expression"]))
        case "store":
            return Store(s["array"], _index(s["expression"]), s["operands"])
        case "const":
            return Const(s["dest"], s["type"], s["operands"])
        case "index":
            return Index(s["dest"], parse_affine(s["expression"]))
        case "scalar":
            return Scalar(s["dest"], s["operands"])
        case _ if s["dest"] is None:
            return Routine(s["op"], tuple(s["operands"].split(" ")))
        case _:
            return Op(s["dest"], s["op"], s["type"], tuple(s["operands"].split(" ")))


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as JSON: `[256,384]`."""
    return "[" + ",".join(map(str, shape)) + "]"


def shape_from_text(text: str) -> tuple[int, ...]:
    """A shape from its JSON."""
    return tuple(json.loads(text))


def index_text(index: tuple[Affine, ...]) -> str:
    """The index of an access: `i0,64*i1+3`."""
    return ",".join(map(str, index))


def _index(text: str) -> tuple[Affine, ...]:
    return tuple(parse_affine(part) for part in text.split(",")) if text else ()
