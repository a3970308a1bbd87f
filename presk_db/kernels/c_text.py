"""Pieces of C11 text for kernels: types, constants, affine expressions, operations with their precedence."""

import re
from collections.abc import Sequence

import numpy as np

from presk_db.errors import KernelNameBad
from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import COMPARISONS, FUNCTIONS
from presk_db.kernels.types import COMPUTE

STORED = {"f64": "double", "f32": "float", "bf16": "presk_bf16", "i64": "int64_t", "bool": "uint8_t"}
"""The C type of a stored element, by storage type."""

COMPUTED = {"f64": "double", "f32": "float", "i64": "int64_t", "bool": "int"}
"""The C type of a value, by compute type."""

KEYS = {"f64": "int64_t", "f32": "int32_t", "i64": "int64_t"}
"""The C type of an order-preserving key, by compute type."""

PRIMARY, UNARY, PRODUCT, SUM, COMPARISON, EQUALITY, AND, OR, CHOICE = range(9, 0, -1)
"""How tightly an expression holds together."""

Expression = tuple[str, int]
"""C text and its precedence."""

_INFIX = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT),
    "lt": ("<", COMPARISON), "le": ("<=", COMPARISON), "gt": (">", COMPARISON), "ge": (">=", COMPARISON),
    "eq": ("==", EQUALITY), "ne": ("!=", EQUALITY), "and": ("&&", AND),
}  # fmt: skip

NAMED_OPERANDS = ("max", "min")
"""Operations whose C text holds an operand twice, so that it must be a name."""

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern float for goto if inline int long"
        " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while"
        " asm main bool true false errno stdin stdout stderr linux unix",
    )
)
"""Names that a kernel may use and C may not."""


def check_names(names: set[str]) -> None:
    """Raises KernelNameBad (E2002) where a name of a kernel is C's or the runtime's."""
    for name in sorted(names):
        if name in KEYWORDS or name.startswith("presk_"):
            raise KernelNameBad(f"{name} means something in C")


def wrapped(head: str, texts: Sequence[str]) -> list[str]:
    """`head` and the texts, separated by commas and closed, as many on a line as fit."""
    lines = [head]
    for number, text in enumerate(texts):
        piece = text + (")" if number == len(texts) - 1 else ", ")
        if number and len(lines[-1]) + len(piece) > 120:
            lines[-1] = lines[-1].rstrip()
            lines.append("    ")
        lines[-1] += piece
    return lines


def local_element(type_: str) -> str:
    """The C type of a local's element: bf16 as floats that are rounded."""
    return "uint8_t" if type_ == "bool" else COMPUTED[COMPUTE[type_]]


def grouped(expression: Expression, at_least: int) -> str:
    """The text, in parentheses where it holds together less tightly than `at_least`."""
    text, precedence = expression
    return text if precedence >= at_least else f"({text})"


def affine_text(affine: Affine) -> Expression:
    """`384 * i0 + i1 + 3`: large strides first, so that it reads like an index."""
    terms = sorted(affine.terms, key=lambda t: (-t[1], t[0]))
    parts = [(c < 0, name if abs(c) == 1 else f"{abs(c)} * {name}") for name, c in terms]
    if affine.const or not parts:
        parts.append((affine.const < 0, str(abs(affine.const))))
    if parts[0][0]:
        parts.sort(key=lambda p: p[0])
    text = ("-" if parts[0][0] else "") + parts[0][1]
    for negative, part in parts[1:]:
        text += (" - " if negative else " + ") + part
    if len(parts) > 1:
        return text, SUM
    return text, UNARY if parts[0][0] else PRODUCT if " " in text else PRIMARY


def constant_text(type_: str, literal: str) -> tuple[str, str | None]:
    """A constant's C text, and the decimal for a comment beside it where the text is hexadecimal."""
    if type_ == "bool":
        return literal, None
    if type_ == "i64":
        value = int(literal)
        if value == -(2**63):
            return "INT64_MIN", None
        return (literal if abs(value) < 2**31 else f"INT64_C({literal})"), None
    if literal in ("inf", "-inf", "nan"):
        bits = {"inf": 0x7F800000, "-inf": 0xFF800000, "nan": 0x7FC00000}[literal]
        if type_ == "f32":
            return f"presk_f32_from_bits(UINT32_C({bits:#x}))", literal
        bits = {"inf": 0x7FF << 52, "-inf": 0xFFF << 52, "nan": 0x7FF8 << 48}[literal]
        return f"presk_f64_from_bits(UINT64_C({bits:#x}))", literal
    number = float.fromhex(literal)
    if type_ == "f32":
        return _short_hex(literal) + "f", str(np.float32(number))
    return _short_hex(literal), repr(number)


def _short_hex(literal: str) -> str:
    """0x1.8000000000000p+1 as 0x1.8p+1."""
    mantissa, exponent = literal.split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def operation_text(op: str, type_: str, args: list[Expression], sources: list[str]) -> Expression:
    """An operation's C expression; `sources` are the operands' types."""
    if op == "cvt":
        return _conversion(args[0], sources[0], type_)
    if op in _INFIX and (type_ != "i64" or op in COMPARISONS):
        sign, precedence = _INFIX[op]
        return f"{grouped(args[0], precedence)} {sign} {grouped(args[1], precedence + 1)}", precedence
    match op:
        case "or":  # compilers want && inside || in parentheses
            return f"{grouped(args[0], EQUALITY)} || {grouped(args[1], EQUALITY)}", OR
        case "max" | "min":
            a, b = args[0][0], args[1][0]
            if a == b:  # compilers warn of a > a
                return args[0]
            return f"{a} {'>' if op == 'max' else '<'} {b} ? {a} : {b}", CHOICE
        case "select" if type_ in ("f32", "f64"):
            return f"presk_select_{type_}({', '.join(a for a, _ in args)})", PRIMARY
        case "select":
            texts = [grouped(a, CHOICE + 1) for a in args]
            return f"{texts[0]} ? {texts[1]} : {texts[2]}", CHOICE
        case "neg" if type_ != "i64":
            return f"-{grouped(args[0], PRIMARY)}", UNARY
        case "not":
            return f"!{grouped(args[0], PRIMARY)}", UNARY
    assert op in (*FUNCTIONS, "add", "sub", "mul", "neg", "abs", "sqrt", "fma")
    return f"presk_{op}_{type_}({', '.join(a for a, _ in args)})", PRIMARY


def _conversion(arg: Expression, source: str, to: str) -> Expression:
    if to == "i64" and source != "bool":
        return f"presk_i64_from_{source}({arg[0]})", PRIMARY
    if to == "f32" and source == "i64":
        return f"presk_f32_from_i64({arg[0]})", PRIMARY
    return f"({COMPUTED[to]}){grouped(arg, UNARY)}", UNARY
