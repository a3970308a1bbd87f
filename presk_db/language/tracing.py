"""Tracing: Tensor, module functions, folds, and `graph_from_entry`, which runs Python once to get a Graph."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from presk_db.errors import EntryBad, KindBad, PreskError, ShapeBad
from presk_db.language.graph import Equation, Function, Graph, Input, Kind, Parameter, Var

P = ParamSpec("P")
R = TypeVar("R")

_LANGUAGE = str(Path(__file__).resolve().parent) + os.sep


class Record(dict[str, Any]):
    """A tree of named tensors: `p["w"]` or `p.w`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Trace:
    """One function being traced; `root` keeps what all traces of one graph share."""

    def __init__(self, root: "Trace | None") -> None:
        self.root: Trace = root or self
        self.equations: list[Equation] = []
        self.source = ""
        """Where set, the line that new equations come from: an equation's derivative keeps its line."""
        if root is None:
            self.count = 0
            self.functions: dict[Any, tuple[Function, Any]] = {}
            self.derivatives: dict[Any, Any] = {}
            self.recompute = False

    def new_var(self, kind: Kind, shape: tuple[int, ...], limit: int | None = None) -> Var:
        self.root.count += 1
        return Var(self.root.count, kind, shape, limit)


_TRACE: ContextVar[Trace | None] = ContextVar("presk_trace", default=None)


def current_trace() -> Trace:
    """The trace in progress; EntryBad (E1203) outside one."""
    trace = _TRACE.get()
    if trace is None:
        raise EntryBad("tensors exist only while an entry is traced", source_line())
    return trace


@contextmanager
def inside(trace: Trace) -> Iterator[None]:
    """What is traced meanwhile goes to `trace`."""
    token = _TRACE.set(trace)
    try:
        yield
    finally:
        _TRACE.reset(token)


def source_line() -> str:
    """File name and line of the innermost caller outside the language."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_LANGUAGE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


class Tensor:
    """A value over the real numbers (or integers, or truth values) with a literal shape, while an entry is traced."""

    operators: ClassVar[dict[str, Callable[..., "Tensor"]]] = {}
    """What the operators below mean: `operators.OPERATORS`, which the package puts here."""

    def __init__(self, var: Var, trace: Trace) -> None:
        self.var = var
        self.trace = trace

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its axes."""
        return self.var.shape

    @property
    def kind(self) -> Kind:
        """real, int or bool."""
        return self.var.kind

    def __repr__(self) -> str:
        return f"Tensor({self.var.type_text})"

    def __add__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["add"](self, other)

    def __radd__(self, other: float) -> "Tensor":
        return self.operators["add"](self.operators["lift"](other, self), self)

    def __sub__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["sub"](self, other)

    def __rsub__(self, other: float) -> "Tensor":
        return self.operators["sub"](self.operators["lift"](other, self), self)

    def __mul__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["mul"](self, other)

    def __rmul__(self, other: float) -> "Tensor":
        return self.operators["mul"](self.operators["lift"](other, self), self)

    def __truediv__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["div"](self, other)

    def __rtruediv__(self, other: float) -> "Tensor":
        return self.operators["div"](self.operators["lift"](other, self), self)

    def __neg__(self) -> "Tensor":
        return self.operators["neg"](self)

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return self.operators["matmul"](self, other)

    def __lt__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["lt"](self, other)

    def __le__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["le"](self, other)

    def __gt__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["gt"](self, other)

    def __ge__(self, other: "Tensor | float") -> "Tensor":
        return self.operators["ge"](self, other)

    def __and__(self, other: "Tensor") -> "Tensor":
        return self.operators["logical_and"](self, other)

    def __or__(self, other: "Tensor") -> "Tensor":
        return self.operators["logical_or"](self, other)

    def __invert__(self) -> "Tensor":
        return self.operators["logical_not"](self)

    def __getitem__(self, index: Any) -> "Tensor":
        return self.operators["getitem"](self, index)

    def __bool__(self) -> bool:
        raise EntryBad("a tensor has no truth value while it is traced: use select", source_line())

    def __iter__(self) -> Iterator["Tensor"]:
        raise EntryBad("a tensor cannot be iterated: slice it or fold over it", source_line())


OF_KEYS = (
    "reshape",
    "slice",
    "gather",
    "take_rows",
    "update",
    "call",
    "fold",
    "key_child",
    "key_split",
    "uniform",
    "sample",
)
"""Equations that may have a key among their operands."""


def emit(
    op: str, inputs: Sequence[Tensor], kind: Kind, shape: Sequence[int], limit: int | None = None, **attributes: Any
) -> Tensor:
    """Appends an equation with one output to the trace and returns that output."""
    return emit_many(op, inputs, [(kind, tuple(shape), limit)], attributes)[0]


def emit_many(
    op: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[Kind, tuple[int, ...], int | None]],
    attributes: Mapping[str, Any],
) -> list[Tensor]:
    """Appends an equation with outputs of these kinds, shapes and limits."""
    trace = current_trace()
    for tensor in inputs:
        if tensor.trace is not trace:
            raise EntryBad("a function uses only its arguments: this tensor belongs to another one", source_line())
        if tensor.kind == "key" and op not in OF_KEYS:
            raise KindBad(f"{op} takes no key: draw numbers from it, or a child", source_line())
    variables = [trace.new_var(*o) for o in outputs]
    equation = Equation(
        op,
        tuple(t.var for t in inputs),
        tuple(variables),
        tuple(sorted(attributes.items())),
        trace.source or source_line(),
    )
    trace.equations.append(equation)
    return [Tensor(v, trace) for v in variables]


def flatten(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """The leaves of a tree of mappings, sequences and leaves, with their names (`h.attn.w`); None is no leaf."""
    match tree:
        case None:
            return []
        case Mapping():
            return [leaf for k, v in tree.items() for leaf in flatten(v, f"{prefix}.{k}" if prefix else str(k))]
        case list() | tuple():
            return [leaf for i, v in enumerate(tree) for leaf in flatten(v, f"{prefix}.{i}" if prefix else str(i))]
        case _:
            return [(prefix, tree)]


def rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same form whose leaves come from the iterator, in `flatten`'s order."""
    match tree:
        case None:
            return None
        case Mapping():
            return Record({k: rebuilt(v, leaves) for k, v in tree.items()})
        case list() | tuple():
            return type(tree)(rebuilt(v, leaves) for v in tree)
        case _:
            return next(leaves)


def _key(tree: Any) -> Any:
    """What a trace depends on: the form of the arguments, the types of tensors, the values of everything else."""
    match tree:
        case Tensor():
            return ("tensor", tree.var.kind, tree.var.shape, tree.var.limit)
        case Mapping():
            return ("map", tuple((k, _key(v)) for k, v in tree.items()))
        case list() | tuple():
            return ("seq", tuple(_key(v) for v in tree))
        case float():
            return ("float", tree.hex())  # tells -0.0 from 0.0
        case _:
            return ("static", type(tree).__name__, tree)


def traced(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Function, Any]:
    """The function at these arguments' types, and the tree of its results. Traced once for equal types and statics."""
    outer = current_trace()
    cache = outer.root.functions
    key = (fn, _key(args), _key(kwargs))
    try:
        if key in cache:
            return cache[key]
    except TypeError:
        raise EntryBad(
            f"an argument of {fn.__name__} is neither a tensor nor a hashable value", source_line()
        ) from None
    trace = Trace(outer.root)
    parameters: list[Var] = []

    def parameter(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        parameters.append(trace.new_var(leaf.var.kind, leaf.var.shape, leaf.var.limit))
        return Tensor(parameters[-1], trace)

    tree = (args, kwargs)
    inner_args, inner_kwargs = rebuilt(tree, iter([parameter(leaf) for _, leaf in flatten(tree)]))
    with inside(trace):
        result = fn(*inner_args, **inner_kwargs)
    source = _definition(fn)
    results = _tensors(result, fn.__name__, trace, source)
    function = Function(fn.__name__, source, tuple(parameters), tuple(trace.equations), tuple(t.var for t in results))
    cache[key] = (function, result)
    return cache[key]


def _definition(fn: Callable[..., Any]) -> str:
    code = fn.__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _tensors(tree: Any, name: str, trace: Trace, source: str) -> list[Tensor]:
    leaves = [leaf for _, leaf in flatten(tree)]
    if not leaves or not all(isinstance(leaf, Tensor) and leaf.trace is trace for leaf in leaves):
        raise EntryBad(f"{name} must return tensors, or a tree of them, computed from its arguments", source)
    return leaves


def function(fn: Callable[P, R]) -> Callable[P, R]:
    """Makes a Python function a module function: each use is a call in the graph, traced once for equal shapes."""

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        known, result = traced(fn, args, kwargs)
        inputs = [leaf for _, leaf in flatten((args, kwargs)) if isinstance(leaf, Tensor)]
        types = [(v.kind, v.shape, v.limit) for v in known.results]
        return cast(R, rebuilt(result, iter(emit_many("call", inputs, types, {"function": known}))))

    return call


def fold(
    fn: Callable[..., Any], carry: Any, stacked: Any, *shared: Any, reverse: bool = False, collect: bool = False
) -> Any:
    """Applies `carry = fn(carry, layer, *shared)` for every layer of `stacked` (trees with one leading axis).

    With `collect`, fn returns (carry, ys), and the ys come back stacked on a leading axis: (carry, stacked ys).
    `reverse` runs from the last layer down. Raises ShapeBad (E1201) where leading axes differ or the carry changes.
    """
    plain = getattr(fn, "__wrapped__", fn)
    leaves = [leaf for _, leaf in flatten(stacked)]
    lengths = {leaf.shape[0] if leaf.shape else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise ShapeBad(
            f"the stacked values of a fold need one leading length, not {sorted(map(str, lengths))}", source_line()
        )
    trace = current_trace()
    layer = rebuilt(stacked, iter([Tensor(trace.new_var(t.kind, t.shape[1:], t.var.limit), trace) for t in leaves]))
    body, result = traced(plain, (carry, layer, *shared), {})
    carried = [leaf for _, leaf in flatten(carry)]
    count = len(carried)
    types = [(v.kind, v.shape, v.limit) for v in body.results]
    if [(k, s) for k, s, _ in types[:count]] != [(t.kind, t.shape) for t in carried] or (
        not collect and len(types) != count
    ):
        raise ShapeBad(f"{plain.__name__} must return its carry with the same shapes", source_line())
    for (_, _, limit), t in zip(types, carried, strict=False):
        if t.var.limit is not None and (limit is None or limit > t.var.limit):
            raise ShapeBad(
                f"{plain.__name__} returns integers of its carry that leave [0, {t.var.limit})", source_line()
            )
    length = cast(int, next(iter(lengths)))
    outputs = types[:count] + [(k, (length, *s), m) for k, s, m in types[count:]]
    inputs = carried + leaves + [leaf for _, leaf in flatten(shared) if isinstance(leaf, Tensor)]
    attributes = {"function": body, "length": length, "carried": count, "stacked": len(leaves), "descending": reverse}
    return rebuilt(result, iter(emit_many("fold", inputs, outputs, attributes)))


def graph_from_entry(
    fn: Callable[..., Any], parameters: Any, inputs: Mapping[str, Input], recompute: bool = False
) -> Graph:
    """Traces `fn(parameters, **inputs)` and returns its graph.

    `parameters` is a tree of `Parameter`; the entry returns a tensor (named `output`) or a mapping of named tensors.
    With `recompute`, a fold's gradient computes each iteration again instead of keeping its values.
    Raises EntryBad (E1203) with the user's line for anything that Python raises while tracing.
    """
    trace = Trace(None)
    named = flatten(parameters)
    tensors = [Tensor(trace.new_var("real", p.shape), trace) for _, p in named]
    given = {n: Tensor(trace.new_var(i.kind, i.shape, i.limit), trace) for n, i in inputs.items()}
    trace.recompute = recompute
    plain = getattr(fn, "__wrapped__", fn)
    try:
        with inside(trace):
            result = plain(rebuilt(parameters, iter(tensors)), **given)
        results = flatten(result if isinstance(result, Mapping) else {"output": result})
        _tensors([leaf for _, leaf in results], plain.__name__, trace, _definition(plain))
    except (PreskError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as e:
        raise EntryBad(
            f"{plain.__name__} failed with {type(e).__name__}: {e}", _traceback_line(e) or _definition(plain)
        ) from e
    variables = tuple(t.var for t in [*tensors, *given.values()])
    entry = Function(
        plain.__name__, _definition(plain), variables, tuple(trace.equations), tuple(t.var for _, t in results)
    )
    return Graph(
        entry, tuple(cast(list[tuple[str, Parameter]], named)), tuple(inputs.items()), tuple(n for n, _ in results)
    )


def _traceback_line(e: BaseException) -> str:
    place, tb = "", e.__traceback__
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_LANGUAGE):
            place = f"{Path(tb.tb_frame.f_code.co_filename).name}:{tb.tb_lineno}"
        tb = tb.tb_next
    return place
