"""Causality: what a value of a forward pass is behind the position of each row, from the equations that made it.

A score of query t and key s counts only where s <= t. These rules find that out: a comparison of positions that a
`select` asks, the constant that stands where it does not hold, and what becomes of that constant in later equations.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from presk_db.language.graph import Equation, Var


@dataclass(frozen=True)
class Rows:
    """How a value depends on tokens: element t along `row` on tokens up to t. `key` is an axis of all positions.

    `tail` is what all elements are whose position along `key` is behind the row's, None where that is not known.
    """

    row: int
    key: int | None = None
    tail: float | None = None


Made = Mapping[int, Equation]
"""The equation of a value, by the value's id; parameters have none."""


def axis_before(e: Equation, axis: int) -> int | None:
    """The operand's axis that a broadcast's axis comes from; None where it is new or repeated."""
    shape, out = e.inputs[0].shape, e.outputs[0].shape
    before = axis - (len(out) - len(shape))
    return None if before < 0 or shape[before] != out[axis] else before


def constant(v: Var, made: Made) -> float | None:
    """The number that every element of a value is, where it is a constant."""
    e = made.get(v.id)
    while e is not None and e.op in ("broadcast", "reshape", "stop", "site"):
        e = made.get(e.inputs[0].id)
    return float(e["value"]) if e is not None and e.op == "const" else None


def implies(condition: Var, truth: bool, state: Rows, made: Made) -> bool:
    """Whether elements at which the condition has this truth value have a key that is not behind the row."""
    e = made.get(condition.id)
    if e is None or state.key is None:
        return False
    match e.op:
        case "broadcast":
            row, key = axis_before(e, state.row), axis_before(e, state.key)
            return row is not None and key is not None and implies(e.inputs[0], truth, Rows(row, key), made)
        case "stop":
            return implies(e.inputs[0], truth, state, made)
        case "not":
            return implies(e.inputs[0], not truth, state, made)
        case "and" | "or":
            return (e.op == "and") == truth and any(implies(v, truth, state, made) for v in e.inputs)
        case "le" | "lt" | "ge" | "gt" | "eq":
            return _compared(e, truth, state, made)
    return False


def _compared(e: Equation, truth: bool, state: Rows, made: Made) -> bool:
    left, right = (_position(v, state, made) for v in e.inputs)
    if left is None or right is None or (e.op == "eq" and not truth):
        return False
    op = e.op if truth else {"le": "gt", "lt": "ge", "ge": "lt", "gt": "le"}[e.op]
    if op in ("ge", "gt"):
        left, right, op = right, left, {"ge": "le", "gt": "lt"}[op]
    key, row, const = (a - b for a, b in zip(left, right, strict=True))  # key * s + row * t + const <= 0, or < 0
    if op == "eq" and key < 0:
        key, row, const = -key, -row, -const
    return key > 0 and row == -key and const >= (1 - key if op == "lt" else 0)


def _position(v: Var, state: Rows, made: Made) -> tuple[int, int, int] | None:
    """(a, b, c) where the elements are a times the key's position, plus b times the row's, plus c."""
    e = made.get(v.id)
    if e is None:
        return None
    match e.op:
        case "const":
            return (0, 0, int(e["value"])) if float(e["value"]).is_integer() else None
        case "iota":
            return (int(e["axis"] == state.key), int(e["axis"] == state.row), 0) if e["axis"] in (
                state.key, state.row) else None  # fmt: skip
        case "broadcast":
            axes = [None if a is None else axis_before(e, a) for a in (state.row, state.key)]
            inner = Rows(-1 if axes[0] is None else axes[0], -1 if axes[1] is None else axes[1])
            return _position(e.inputs[0], inner, made)
        case "real" | "stop":
            return _position(e.inputs[0], state, made)
        case "add" | "sub":
            parts = [_position(x, state, made) for x in e.inputs]
            if parts[0] is None or parts[1] is None:
                return None
            sign = 1 if e.op == "add" else -1
            a, b, c = (x + sign * y for x, y in zip(*parts, strict=True))
            return a, b, c
    return None


def fixed_tail(v: Var, state: Rows, made: Made) -> float | None:
    """The tail of a value that depends on no token, seen with the axes of `state`."""
    number = constant(v, made)
    e = made.get(v.id)
    if number is not None or e is None or state.key is None:
        return number
    if e.op == "broadcast":
        row, key = axis_before(e, state.row), axis_before(e, state.key)
        return None if row is None or key is None else fixed_tail(e.inputs[0], Rows(row, key), made)
    return tail_of(e, state, [fixed_tail(x, state, made) for x in e.inputs], made)


def tail_of(e: Equation, state: Rows, tails: list[float | None], made: Made) -> float | None:
    """The tail of an elementwise equation's result; `tails` are its operands', or the number that an operand is.

    An operand that is not known is taken as finite.
    """
    match e.op:
        case "select":
            if implies(e.inputs[0], True, state, made):
                return tails[2]
            return tails[1] if implies(e.inputs[0], False, state, made) else None
        case "add":
            return -math.inf if -math.inf in tails else None
        case "sub":
            return -math.inf if tails[0] == -math.inf else None
        case "mul":
            if 0.0 in tails:
                return 0.0
            rest = [t for t in tails if t != -math.inf]
            return -math.inf if len(rest) == 1 and rest[0] is not None and rest[0] > 0 else None
        case "div":
            return 0.0 if tails[0] == 0.0 else None
        case "exp":
            return 0.0 if tails[0] == -math.inf else None
        case "stop" | "site":
            return tails[0]
    return None
