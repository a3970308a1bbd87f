"""tails_of: which values are one number wherever a key comes behind what its query sees.

A score of query t and key s, the last two axes, counts only where s <= t + c: a `select` says so, and gives another
number elsewhere. These rules follow that number through elementwise equations, copies and the layers of a stack. An
operand that is not known is taken as finite, and of zeros the sign is not told apart.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from presk_db.kernels.affine import Affine
from presk_db.language.primitives import ELEMENTWISE
from presk_db.lowering.flat import Flat, FlatEquation, Value
from presk_db.lowering.views import Index, Ranges, axis_variables, chain_of, pulled, root_of


@dataclass(frozen=True)
class Tail:
    """The elements (…, t, s) with s > t + behind are `number`; with no `behind`, all are."""

    number: float
    behind: int | None = None


Tails = Mapping[int, Tail]
"""By a value's id."""


def tails_of(flat: Flat) -> Tails:
    """The tails of all values that have one."""
    found: dict[int, Tail] = {}
    for e in flat.equations:
        tail = _tail(e, found)
        if tail is not None:
            found[e.output.id] = tail
    return found


def masked_behind(e: FlatEquation) -> int | None:
    """The c of a select whose condition is s <= t + c; None where it is another one."""
    value = e.inputs[0]
    condition, shape = root_of(value).equation, value.shape
    if e.op != "select" or condition is None or condition.op != "le" or len(shape) < 2 or min(shape[-2:]) < 2:
        return None
    index, ranges = axis_variables(shape)
    at = pulled(value, index, ranges)
    if at is None:
        return None
    left, right = (_position(v, at, ranges) for v in condition.inputs)
    if left is None or right is None:
        return None
    rest = left + right * -1 + index[-1] * -1 + index[-2]
    return -rest.const if rest.is_const else None


def _position(value: Value, index: Index, ranges: Ranges) -> Affine | None:
    """An integer as an affine expression of its own place."""
    e, at = root_of(value).equation, pulled(value, index, ranges)
    if e is None or at is None:
        return None
    match e.op:
        case "iota":
            place: Affine = at[e.attributes["axis"]]
            return place
        case "const":
            return Affine((), int(e.attributes["value"])) if value.kind == "int" else None
        case "add" | "sub":
            a, b = (_position(v, at, ranges) for v in e.inputs)
            if a is None or b is None:
                return None
            return a + (b if e.op == "add" else b * -1)
    return None


def tail_seen(value: Value, found: Tails) -> Tail | None:
    """The tail of a value that an equation reads: of a view that keeps the last two axes, or of a stack's layer."""
    root = root_of(value)
    if root.equation is not None and root.equation.op == "const":
        return Tail(float(root.equation.attributes["value"]))
    if any(e.op != "reshape" or e.output.shape[-2:] != e.inputs[0].shape[-2:] for e in chain_of(value)):
        return None
    return _tail_of_root(root, found)


def _tail_of_root(root: Value, found: Tails) -> Tail | None:
    if root.window is None:
        return found.get(root.id)
    stack, layer = root.window
    made = stack.equation
    if made is None or made.op != "stack" or made.inputs[layer].shape != root.shape:
        return None
    return tail_seen(made.inputs[layer], found)


def is_zero_before_row(value: Value, found: Tails) -> bool:
    """Whether the element (…, s, t) of a matrix is 0 wherever t < s: whether it is one with that tail, transposed."""
    root = root_of(value)
    if len(root.shape) < 2 or len(value.shape) < 2 or min(value.shape[-2:]) < 2:
        return False
    index, ranges = axis_variables(value.shape)
    at = pulled(value, index, ranges)
    return at is not None and at[-2:] == (index[-1], index[-2]) and _tail_of_root(root, found) == Tail(0.0, 0)


def _tail(e: FlatEquation, found: Tails) -> Tail | None:
    if e.op == "pack" and e.output.shape[-2:] == e.inputs[0].shape[-2:]:
        return tail_seen(e.inputs[0], found)
    if e.op not in ELEMENTWISE or e.output.kind != "real":
        return None
    tails = [tail_seen(v, found) for v in e.inputs]
    if e.op == "select":
        behind, other = masked_behind(e), tails[2]
        if behind is None or other is None:
            return None
        return Tail(other.number, behind if other.behind is None else max(behind, other.behind))
    number = _number(e.op, [None if t is None else t.number for t in tails])
    places = [t.behind for t in tails if t is not None and t.behind is not None]
    return Tail(number, max(places)) if number is not None and places else None


def _number(op: str, tails: list[float | None]) -> float | None:
    """What an operation makes of its operands' tails."""
    match op:
        case "add":
            return -math.inf if -math.inf in tails else None
        case "sub":
            return -math.inf if tails[0] == -math.inf else None
        case "mul" if 0.0 in tails:
            return 0.0
        case "mul":
            rest = [t for t in tails if t != -math.inf]
            return -math.inf if len(rest) == 1 and rest[0] is not None and rest[0] > 0 else None
        case "div" | "neg":
            return 0.0 if tails[0] == 0.0 else None
        case "exp":
            return 0.0 if tails[0] == -math.inf else None
    return None
