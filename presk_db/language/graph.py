"""The graph: an entry over the real numbers, as functions of typed equations, with its text and its checker.

    Graph     entry function, parameters, inputs, names of the results
    Function  parameters, equations, results
    Equation  op, input variables, output variables, attributes, source line

Two operations hold functions: `call` (attribute `function`) and `fold` (attributes `function`, `length`, `carried`,
`stacked`, `descending`): its inputs are the carried values, the stacked values with a leading axis of `length`, and
values shared by all iterations; its outputs are the carried values after the last iteration, then what each iteration
gave besides, stacked.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from presk_db.keys import KEY_WORDS

Kind = Literal["real", "int", "bool", "key"]
"""A key is the state of a generator of random numbers (`presk_db.keys`); see `sampling` for what can be done with one."""


@dataclass(frozen=True)
class Var:
    """One value of a function: a tensor. An int's elements are in [0, limit) where `limit` is given."""

    id: int
    kind: Kind
    shape: tuple[int, ...]
    limit: int | None = None

    @property
    def type_text(self) -> str:
        """`real[4,8]`, or `int[4]<65`."""
        return type_text(self.kind, self.shape, self.limit)


@dataclass(frozen=True, eq=False)
class Equation:
    """`outputs = op(inputs)` with attributes sorted by name; `source` is the user's file name and line."""

    op: str
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    attributes: tuple[tuple[str, Any], ...]
    source: str

    def __getitem__(self, name: str) -> Any:
        return dict(self.attributes)[name]


@dataclass(frozen=True, eq=False)
class Function:
    """A module function, traced at stated shapes."""

    name: str
    source: str
    parameters: tuple[Var, ...]
    equations: tuple[Equation, ...]
    results: tuple[Var, ...]


@dataclass(frozen=True)
class SourceTensor:
    """A tensor of the checkpoint that fills a parameter, or one layer of it; `shape` is as in the checkpoint."""

    name: str
    shape: tuple[int, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Parameter:
    """What a model reads from a checkpoint: a real tensor of `shape`, filled from `sources`, in order.

    Drawn from a seed, its elements are uniform in [low, high).
    """

    shape: tuple[int, ...]
    sources: tuple[SourceTensor, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Input:
    """What a caller gives: reals, integers in [0, limit), or a key, in memory 8 integers below 2**32.

    A `scalar` is one finite real number, an f64 whatever the realization. A `state` is memory that the caller keeps: the
    entry writes it in place and gives it back as the result of the same name. Drawn from a seed, reals are uniform in
    [low, high): always `low` where both are equal.
    """

    kind: Kind
    shape: tuple[int, ...]
    limit: int | None = None
    scalar: bool = False
    low: float = -1.0
    high: float = 1.0
    state: bool = False

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape that it has in memory."""
        return (*self.shape, KEY_WORDS) if self.kind == "key" else self.shape


@dataclass(frozen=True, eq=False)
class Graph:
    """An entry: its function takes the parameters, then the inputs, in the order in which they are named here."""

    entry: Function
    parameters: tuple[tuple[str, Parameter], ...]
    inputs: tuple[tuple[str, Input], ...]
    results: tuple[str, ...]

    def functions(self) -> tuple[Function, ...]:
        """Every function, callees before callers, the entry last."""
        found: dict[int, Function] = {}
        _collect(self.entry, found)
        return tuple(found.values())

    def text(self) -> str:
        """What the entry takes and gives, a line each; then all functions, callees first. `parser` reads it back."""
        functions = self.functions()
        names = function_names(functions)
        head = [_parameter_text(name, p) for name, p in self.parameters]
        head += [_input_text(name, i) for name, i in self.inputs]
        head += [f"result {name_text(n)}" for n in self.results]
        return "\n".join(["\n".join(head) + "\n", *(_function_text(f, names) for f in functions)])


def _input_text(name: str, i: Input) -> str:
    drawn = f" in [{i.low},{i.high})" if (i.low, i.high) != (-1.0, 1.0) or i.scalar else ""
    marks = f"{' scalar' if i.scalar else ''}{' state' if i.state else ''}"
    return f"input {name_text(name)}: {type_text(i.kind, i.shape, i.limit)}{drawn}{marks}"


def _collect(function: Function, found: dict[int, Function]) -> None:
    if id(function) in found:
        return
    for equation in function.equations:
        if equation.op in ("call", "fold"):
            _collect(equation["function"], found)
    found[id(function)] = function


def function_names(functions: tuple[Function, ...]) -> dict[int, str]:
    """A distinct name a function, by its identity: its own, with a number where several share it."""
    names: dict[int, str] = {}
    count: dict[str, int] = {}
    for f in functions:
        count[f.name] = count.get(f.name, 0) + 1
        names[id(f)] = f.name if count[f.name] == 1 else f"{f.name}.{count[f.name]}"
    return names


def type_text(kind: Kind, shape: tuple[int, ...], limit: int | None) -> str:
    """`real[4,8]`, or `int[4]<65`."""
    return f"{kind}{_shape_text(shape)}" + (f"<{limit}" if limit is not None else "")


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def name_text(name: str) -> str:
    """A name as it is where it is dotted words, else as a JSON string."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) else json.dumps(name)


def _parameter_text(name: str, p: Parameter) -> str:
    """`parameter h.w: real[2,4] in [-0.1,0.1) from "h.{}.w"[4] for 0..1`: as drawn, and from which tensors."""
    head = f"parameter {name_text(name)}: {type_text('real', p.shape, None)} in [{float(p.low)},{float(p.high)})"
    layered = _layered(p.sources)
    if layered is not None:
        return f"{head} from {_source_text(layered)} for 0..{len(p.sources) - 1}"
    return head + (" from " + ", ".join(_source_text(s) for s in p.sources) if p.sources else "")


def _source_text(source: SourceTensor) -> str:
    return f"{json.dumps(source.name)}{_shape_text(source.shape)}{' transposed' if source.transposed else ''}"


def _layered(sources: tuple[SourceTensor, ...]) -> SourceTensor | None:
    """The one source with `{}` for the layer's number that stands for all of them, if there is one."""
    if len(sources) < 2:
        return None
    first = sources[0]
    for zero in re.finditer("0", first.name):
        pattern = f"{first.name[: zero.start()]}{{}}{first.name[zero.end() :]}"
        if pattern.count("{}") == 1 and sources == layers_of(
            SourceTensor(pattern, first.shape, first.transposed), len(sources)
        ):
            return SourceTensor(pattern, first.shape, first.transposed)
    return None


def layers_of(pattern: SourceTensor, count: int) -> tuple[SourceTensor, ...]:
    """The sources that a pattern with `{}` in its name stands for: one for each layer from 0 on."""
    return tuple(
        SourceTensor(pattern.name.replace("{}", str(l)), pattern.shape, pattern.transposed) for l in range(count)
    )


def _attribute_text(value: Any, names: dict[int, str]) -> str:
    """No attribute's text holds a space: it ends where the next one begins."""
    if isinstance(value, Function):
        return names[id(value)]
    if isinstance(value, str):
        return json.dumps(value).replace(" ", "\\u0020")
    return str(value).replace(" ", "")


def _function_text(f: Function, names: dict[int, str]) -> str:
    numbers: dict[int, str] = {}

    def name(var: Var) -> str:
        return numbers.setdefault(var.id, f"v{len(numbers)}")

    head = ", ".join(f"{name(v)}: {v.type_text}" for v in f.parameters)
    lines = [f"function {names[id(f)]}({head})  # {f.source}"]
    for e in f.equations:
        attributes = "".join(f" {k}={_attribute_text(v, names)}" for k, v in e.attributes)
        inputs = "".join(f" {name(v)}" for v in e.inputs)
        outputs = ", ".join(f"{name(v)}: {v.type_text}" for v in e.outputs)
        lines.append(f"  {outputs} = {e.op}{inputs}{attributes}  # {e.source}")
    lines.append(f"  return {', '.join(name(v) for v in f.results)}")
    return "\n".join(lines) + "\n"


def equations(graph: Graph) -> Iterator[Equation]:
    """Every equation of every function, once."""
    for function in graph.functions():
        yield from function.equations
