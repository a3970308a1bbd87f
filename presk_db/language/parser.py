"""graph_from_text: a graph from its text, the inverse of `Graph.text`.

parameter NAME: real[SHAPE] in [LOW,HIGH) from "TENSOR"[SHAPE] transposed, ...      or   from "T.{}"[SHAPE] for 0..N
input NAME: TYPE in [LOW,HIGH) scalar                                                  (the range and `scalar` may lack; or `state`)
result NAME

function NAME(v0: TYPE, ...)  # SOURCE
  v1: TYPE, ... = OP v0 ... ATTRIBUTE=VALUE ...  # SOURCE
  return v1, ...
"""

import ast
import json
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

from presk_db.errors import GraphTextBad
from presk_db.language.graph import Equation, Function, Graph, Input, Kind, Parameter, SourceTensor, Var, layers_of

_TYPE = re.compile(r"(real|int|bool|key)\[([0-9,]*)\](?:<([0-9]+))?")
_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = re.compile(rf"({_STRING}|[A-Za-z_][A-Za-z0-9_.]*)")
_RANGE = re.compile(r": real\[([0-9,]*)\] in \[([^,]+),([^)]+)\)")
_INPUT = re.compile(r"(\S+)(?: in \[([^,]+),([^)]+)\))?( scalar)?( state)?")
_SOURCE = re.compile(rf"({_STRING})\[([0-9,]*)\]( transposed)?")
_LAYERS = re.compile(r" for 0\.\.([0-9]+)")
_VARIABLE = re.compile(r"(v[0-9]+): (\S+)")
_HEAD = re.compile(r"function (\S+)\((.*)\)  # (.*)")
_NUMBER = re.compile(r"-?(inf|nan|[0-9]+\.[0-9]*(e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+)")
_OPERATION = re.compile(r"[a-z_][a-z0-9_]*")


def graph_from_text(text: str) -> Graph:
    """The graph whose text this is. Raises GraphTextBad (E1206) with the line's number for any other text."""
    reader = _Reader()
    number = 0
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.line(line)
        except (ValueError, KeyError, SyntaxError, RecursionError) as e:
            raise GraphTextBad(
                str(e) if isinstance(e, _BadLineError) else "the line does not parse", _place(number)
            ) from None
    try:
        graph = reader.graph()
    except _BadLineError as e:
        raise GraphTextBad(str(e), _place(number)) from None
    lines, canonical = text.split("\n"), graph.text().split("\n")
    for number, (line, again) in enumerate(zip_longest(lines, canonical), 1):
        if line != again:
            raise GraphTextBad("the line is not as presk writes it", _place(number))
    return graph


def _place(number: int) -> str:
    return f"graph line {number}"


class _BadLineError(ValueError):
    pass


def _need(condition: object, message: str) -> None:
    if not condition:
        raise _BadLineError(message)


@dataclass
class _Open:
    """A function whose lines are being read."""

    text_name: str
    source: str
    variables: dict[str, Var]
    parameters: tuple[Var, ...]
    equations: list[Equation] = field(default_factory=list)


class _Reader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.parameters: list[tuple[str, Parameter]] = []
        self.inputs: list[tuple[str, Input]] = []
        self.results: list[str] = []
        self.functions: dict[str, Function] = {}
        self.open: _Open | None = None
        self.entry: Function | None = None
        self.count = 0

    def line(self, line: str) -> None:
        """Takes the next line."""
        if self.open is not None:
            _need(line, f"function {self.open.text_name} ends without its results")
            if line.startswith("  return "):
                self._return(line.removeprefix("  return "), self.open)
            else:
                self._equation(line, self.open)
        elif line.startswith("function "):
            self._function(line)
        elif line:
            _need(not self.functions, "what the entry takes and gives stands above the functions")
            self._header(line)

    def _header(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        found = _NAME.match(rest)
        _need(found, "a name is missing")
        name = _name(found.group(1)) if found else ""
        rest = rest[found.end() if found else 0 :]
        match word:
            case "parameter":
                self.parameters.append((name, _parameter(rest)))
            case "input":
                _need(rest.startswith(": "), "a type is missing")
                self.inputs.append((name, _input(rest[2:])))
            case "result":
                _need(not rest, "a result is a name alone")
                self.results.append(name)
            case _:
                raise _BadLineError(f"{word} is neither parameter, input, result nor function")

    def _var(self, type_text: str) -> Var:
        self.count += 1
        return Var(self.count, *_type(type_text))

    def _variables(self, text: str, known: dict[str, Var]) -> tuple[Var, ...]:
        """New variables, declared as `v0: TYPE, v1: TYPE`."""
        found = []
        for part in text.split(", ") if text else ():
            declared = _VARIABLE.fullmatch(part)
            if declared is None or declared.group(1) in known:
                raise _BadLineError(f"{part!r} is not a new variable and its type")
            known[declared.group(1)] = self._var(declared.group(2))
            found.append(known[declared.group(1)])
        return tuple(found)

    def _function(self, line: str) -> None:
        found = _HEAD.fullmatch(line)
        if found is None or found.group(1) in self.functions:
            raise _BadLineError("this is not the head of a new function")
        known: dict[str, Var] = {}
        self.open = _Open(found.group(1), found.group(3), known, self._variables(found.group(2), known))

    def _equation(self, line: str, f: _Open) -> None:
        code, marked, source = line.partition("  # ")
        left, equals, right = code.removeprefix("  ").partition(" = ")
        op, *words = right.split(" ")
        _need(line.startswith("  ") and marked and equals and _OPERATION.fullmatch(op), "this is no equation")
        names = [w for w in words if "=" not in w]
        for name in names:
            _need(name in f.variables, f"{name} is not defined above")
        inputs = tuple(f.variables[name] for name in names)
        attributes = []
        for word in words:
            if "=" in word:
                key, _, value = word.partition("=")
                attributes.append((key, self._attribute(key, value)))
        outputs = self._variables(left, f.variables)
        equation = Equation(op, inputs, outputs, tuple(attributes), source)
        if op in ("call", "fold"):
            _check_use(equation)
        f.equations.append(equation)

    def _attribute(self, key: str, value: str) -> Any:
        if key == "function":
            _need(value in self.functions, f"function {value} does not stand above")
            return self.functions[value]
        if value.startswith('"'):
            return json.loads(value)
        if value in ("True", "False"):
            return value == "True"
        if value.startswith("("):
            return ast.literal_eval(value)
        return float(value) if _NUMBER.fullmatch(value) else int(value)

    def _return(self, text: str, f: _Open) -> None:
        names = text.split(", ")
        for name in names:
            _need(name in f.variables, f"{name} is not defined above")
        results = tuple(f.variables[name] for name in names)
        base, dot, digits = f.text_name.rpartition(".")
        name = base if dot and digits.isdigit() and base in self.functions else f.text_name
        self.entry = Function(name, f.source, f.parameters, tuple(f.equations), results)
        self.functions[f.text_name] = self.entry
        self.open = None

    def graph(self) -> Graph:
        """The whole: the last function is the entry. Raises _BadLineError where it does not fit what stands above."""
        if self.entry is None or self.open is not None:
            raise _BadLineError("the text ends before the entry does")
        taken: list[tuple[str, tuple[int, ...], int | None]] = [("real", p.shape, None) for _, p in self.parameters]
        taken += [(i.kind, i.shape, i.limit) for _, i in self.inputs]
        types = [(v.kind, v.shape, v.limit) for v in self.entry.parameters]
        _need(taken == types, "the entry does not take the parameters and inputs that stand above")
        _need(len(self.results) == len(self.entry.results), "the entry does not give the results that stand above")
        graph = Graph(self.entry, tuple(self.parameters), tuple(self.inputs), tuple(self.results))
        _need(len(graph.functions()) == len(self.functions), "a function is not used")
        return graph


def _check_use(e: Equation) -> None:
    """A call's or fold's values fit the function."""
    f = dict(e.attributes).get("function")
    if not isinstance(f, Function):
        raise _BadLineError(f"a {e.op} names a function")
    expected = [v.shape for v in f.parameters]
    given = [v.shape for v in e.inputs]
    if e.op == "fold":
        carried, stacked, length = e["carried"], e["stacked"], e["length"]
        stacks = given[carried : carried + stacked]
        _need(all(s[:1] == (length,) for s in stacks), f"the stacked values do not have {length} layers")
        given[carried : carried + stacked] = [s[1:] for s in stacks]
    _need(given == expected and len(e.outputs) == len(f.results), f"the values do not fit function {f.name}")


def _name(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",")) if text else ()


def _type(text: str) -> tuple[Kind, tuple[int, ...], int | None]:
    found = _TYPE.fullmatch(text)
    if found is None:
        raise _BadLineError(f"{text!r} is no type")
    kind, shape, limit = found.groups()
    return cast(Kind, kind), _shape(shape), None if limit is None else int(limit)


def _input(text: str) -> Input:
    found = _INPUT.fullmatch(text)
    if found is None:
        return Input(*_type(text))
    kind, shape, limit = _type(found.group(1))
    low, high = (float(n) if n else d for n, d in zip(found.group(2, 3), (-1.0, 1.0), strict=True))
    return Input(kind, shape, limit, found.group(4) is not None, low, high, found.group(5) is not None)


def _parameter(text: str) -> Parameter:
    found = _RANGE.match(text)
    if found is None:
        raise _BadLineError("a parameter is a name, a type and a range")
    shape, low, high = _shape(found.group(1)), float(found.group(2)), float(found.group(3))
    rest = text[found.end() :]
    sources: list[SourceTensor] = []
    separator = " from "
    while rest.startswith(separator):
        source = _SOURCE.match(rest, len(separator))
        if source is None:
            raise _BadLineError("a tensor's name and shape are missing")
        sources.append(SourceTensor(json.loads(source.group(1)), _shape(source.group(2)), source.group(3) is not None))
        rest, separator = rest[source.end() :], ", "
    layers = _LAYERS.fullmatch(rest)
    if layers is not None and len(sources) == 1:
        return Parameter(shape, layers_of(sources[0], int(layers.group(1)) + 1), low, high)
    _need(not rest, f"{rest!r} does not belong to a parameter")
    return Parameter(shape, tuple(sources), low, high)
