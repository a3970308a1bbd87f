"""A kernel from its text: the inverse of `Kernel.text`."""

import re
from typing import cast, get_args

from presk_db.errors import KernelTextBad
from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LOGIC,
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
)

_NAME = r"[a-z][a-z0-9_]*"
_SHAPE = r"\[([0-9,]*)\]"
_ARRAY = re.compile(rf"(in|out) ({_NAME}): ({_NAME}){_SHAPE}(?: < (\d+))?")
_SCALAR = re.compile(rf"scalar ({_NAME}): f64")
_EXTENT = re.compile(rf"extent ({_NAME}) <= (\d+)")
_LOOP = re.compile(rf"(par|seq) ({_NAME}) < (\S+)")
_LOCAL = re.compile(rf"local ({_NAME}): ({_NAME}){_SHAPE}")
_FOLD = re.compile(rf"fold ({_NAME}) ({_NAME})")
_STORE = re.compile(rf"store ({_NAME})\[(\S*)\] ({_NAME})")
_ROUTINE = re.compile(rf"run ({_NAME})((?: {_NAME})+)")
_ASSIGN = re.compile(rf"({_NAME}) = (\S+) (.+)")
_ACCESS = re.compile(rf"({_NAME})\[(\S*)\]")
_TERM = re.compile(rf"([+-]?)(?:(\d+)\*)?(?:({_NAME})|(\d+))")

_OPS = {*ARITHMETIC, *COMPARISONS, *FUNCTIONS, *LOGIC, "select", "cvt"}


def parse_affine(text: str) -> Affine:
    """The expression that `str(Affine)` printed; KernelTextBad where it is none."""
    terms: list[tuple[str, int]] = []
    const, at = 0, 0
    while at < len(text):
        match = _TERM.match(text, at)
        if not match or match.end() == at or (at and not match[1]) or (match[2] and match[4]):
            raise KernelTextBad(f"'{text}' is no affine expression")
        sign = -1 if match[1] == "-" else 1
        if match[3]:
            terms.append((match[3], sign * int(match[2] or 1)))
        else:
            const += sign * int(match[4])
        at = match.end()
    if not text:
        raise KernelTextBad("an affine expression is empty")
    return Affine.of(terms, const)


def _index(text: str) -> tuple[Affine, ...]:
    return tuple(parse_affine(part) for part in text.split(",")) if text else ()


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",")) if text else ()


def _parameter(line: str) -> Parameter | None:
    if m := _ARRAY.fullmatch(line):
        return Array(m[2], cast(Mode, m[1]), m[3], _shape(m[4]), int(m[5]) if m[5] else None)
    if m := _SCALAR.fullmatch(line):
        return ScalarParameter(m[1])
    if m := _EXTENT.fullmatch(line):
        return ExtentParameter(m[1], int(m[2]))
    return None


def _assignment(dest: str, head: str, rest: str) -> Statement | None:
    op, _, type_ = head.partition(".")
    match op:
        case "acc" if rest in get_args(AccKind):
            return Acc(dest, type_, cast(AccKind, rest))
        case "load":
            access = _ACCESS.fullmatch(rest)
            return Load(dest, access[1], _index(access[2])) if access and not type_ else None
        case "const":
            return Const(dest, type_, rest)
        case "index":
            return Index(dest, parse_affine(rest))
        case "scalar":
            return Scalar(dest, rest)
        case _ if op in _OPS and type_:
            return Op(dest, op, type_, tuple(rest.split(" ")))
    return None


def parse_statement(line: str) -> Statement:
    """One statement from its line, without indentation; KernelTextBad where it is none."""
    found: Statement | None = None
    if line == "end":
        found = End()
    elif m := _LOOP.fullmatch(line):
        found = Loop(cast(LoopKind, m[1]), m[2], parse_affine(m[3]))
    elif m := _LOCAL.fullmatch(line):
        found = Local(m[1], m[2], _shape(m[3]))
    elif m := _FOLD.fullmatch(line):
        found = Fold(m[1], m[2])
    elif m := _STORE.fullmatch(line):
        found = Store(m[1], _index(m[2]), m[3])
    elif m := _ROUTINE.fullmatch(line):
        found = Routine(m[1], tuple(m[2].split()))
    elif m := _ASSIGN.fullmatch(line):
        found = _assignment(m[1], m[2], m[3])
    if found is None:
        raise KernelTextBad(f"'{line}' is no statement")
    return found


def parse(text: str) -> Kernel:
    """The kernel whose text this is. Raises KernelTextBad (E2001) with the line's number; `check` judges the meaning."""
    parameters: list[Parameter] = []
    statements: list[Statement] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip(" ")
        try:
            parameter = _parameter(line)
            if parameter is None:
                statements.append(parse_statement(line))
            elif statements:
                raise KernelTextBad("parameters stand before all statements")
            else:
                parameters.append(parameter)
        except KernelTextBad as e:
            raise KernelTextBad(e.message, f"line {number}") from None
    return Kernel(tuple(parameters), tuple(statements))
