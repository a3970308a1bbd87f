"""run_kernel: runs one kernel in NumPy. This is the definition of the bits.

Vectorized loops become axes of arrays, a chunk of the outer par loops at a time; the others are Python loops. A
kernel is turned once into a list of steps, small functions that read and write a `Frame`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    Acc,
    Const,
    End,
    Fold,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Op,
    Routine,
    Scalar,
    Statement,
    Store,
)
from presk_db.kernels.parser import parse
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address
from presk_db.kernels.routines import Given, arguments_of
from presk_db.kernels.tree import Nest, tree
from presk_db.kernels.types import COMPUTE
from presk_db.native.access import Access, Expression, Frame, Memory
from presk_db.native.accumulators import Step, begin, finish, fold
from presk_db.native.arguments import check_arguments
from presk_db.native.numbers import COMPUTED, Array, bf16_from_f32, f32_from_bf16
from presk_db.native.operations import UFUNCS, operation
from presk_db.native.routines import routine
from presk_db.native.vectorize import CHUNK, vectorized_loops, widths


def run_kernel(kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int], chunk: int = CHUNK) -> None:
    """Runs `kernel` on `arrays`, in the order of its array parameters; outputs are written in place.

    Args:
        kernel: a checked kernel.
        arrays: contiguous, of each parameter's number of elements and storage dtype: bf16 as uint16, bool as uint8.
        scalars: the value of each scalar and extent parameter, by the parameter's name.
        chunk: about how many elements an intermediate array should have; it changes no bit.

    Raises:
        InputBad (E1205): an argument does not fit its parameter.
    """
    check_arguments(kernel, arrays, scalars)
    program = _program(kernel.text, chunk)
    memory: dict[str, Memory] = {}
    for parameter, array in zip(kernel.arrays, arrays, strict=True):
        flat = array.reshape(-1)
        if parameter.type == "bool":
            flat = flat.view(np.bool_)
        elif parameter.type == "bf16" and parameter.mode == "in":
            flat = f32_from_bf16(flat)
        memory[parameter.name] = Memory(flat)
    integers = {name: int(value) for name, value in scalars.items() if name in program.extents}
    frame = Frame(dict(program.constants), integers, memory, [1] * program.axes)
    for dest, name in program.scalars:
        frame.values[dest] = np.full(frame.extents, scalars[name], np.float64)
    with np.errstate(all="ignore"):
        for step in program.steps:
            step(frame)


@dataclass(frozen=True)
class _Program:
    """A kernel made ready: `axes` is the number of axes of every value, `scalars` are pairs of value and parameter."""

    axes: int
    steps: tuple[Step, ...]
    constants: Mapping[str, Array]
    scalars: tuple[tuple[str, str], ...]
    extents: frozenset[str]


@lru_cache(maxsize=512)
def _program(text: str, chunk: int) -> _Program:
    kernel = parse(text)
    builder = _Builder(kernel)
    steps = builder.body(tree(kernel), chunk)
    constants = {
        s.dest: np.full((1,) * builder.axes, _number(s), COMPUTED[s.type])
        for s in kernel.statements
        if isinstance(s, Const)
    }
    scalars = tuple((s.dest, s.scalar) for s in kernel.statements if isinstance(s, Scalar))
    extents = frozenset(p.name for p in kernel.parameters) - {a.name for a in kernel.arrays}
    return _Program(builder.axes, steps, constants, scalars, extents)


def _number(s: Const) -> float | int:
    return float.fromhex(s.literal) if s.type in ("f32", "f64") else int(s.literal)


@dataclass
class _Builder:
    """Turns statements into steps. `axis_of` maps each open vectorized loop's variable to its axis."""

    kernel: Kernel
    axis_of: dict[str, int] = field(default_factory=dict)
    sequential: list[str] = field(default_factory=list)
    accumulators: dict[str, tuple[Acc, int]] = field(default_factory=dict)
    indices: dict[str, Affine] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vectorized = vectorized_loops(self.kernel)
        self.widths = widths(self.kernel, self.vectorized)
        self.bounds = extent_bounds(self.kernel)
        self.shapes = array_shapes(self.kernel)
        self.types = {a.name: a.type for a in self.kernel.arrays}
        self.rounded = {s.name for s in self.kernel.statements if isinstance(s, Local) and s.type == "bf16"}
        self.inputs = frozenset(a.name for a in self.kernel.arrays if a.mode == "in")
        self.loaded = frozenset(s.dest for s in self.kernel.statements if isinstance(s, Load))
        self.axes = max(1, self._levels(tree(self.kernel)))
        last_store = {s.array: n for n, s in enumerate(self.kernel.statements) if isinstance(s, Store)}
        self.kept: set[str] = set()
        for n, s in enumerate(self.kernel.statements):
            if isinstance(s, Index):
                self.indices[s.dest] = self._resolved(s.expression)
            elif isinstance(s, Load) and n < last_store.get(s.array, 0):
                self.kept.add(s.dest)

    def _levels(self, body: tuple[Statement | Nest, ...]) -> int:
        nests = [node for node in body if isinstance(node, Nest)]
        return max(((n.loop.var in self.vectorized) + self._levels(n.body) for n in nests), default=0)

    def body(
        self, nodes: tuple[Statement | Nest, ...], budget: int, rolled: frozenset[str] = frozenset()
    ) -> tuple[Step, ...]:
        """The steps of a loop's body. `rolled` are loads that the loop itself does."""
        steps: list[Step] = []
        opened: list[Acc] = []
        for node in nodes:
            if isinstance(node, Nest):
                vector = node.loop.var in self.vectorized
                steps.append(self._at_once(node, budget) if vector else self._one_by_one(node, budget))
                if node.loop.kind == "seq":
                    steps.extend(finish(acc) for acc in opened)
                    opened.clear()
            elif not (isinstance(node, Load) and node.dest in rolled):
                if isinstance(node, Acc):
                    opened.append(node)
                steps.extend(self._statement(node))
        return tuple(steps)

    def _expression(self, affine: Affine) -> Expression:
        return Expression.of(self._resolved(affine), self.axis_of, self.loaded)

    def _access(self, array: str, index: tuple[Affine, ...]) -> Access:
        return Access(array, self._expression(flat_address(self.shapes[array], index)))

    def _statement(self, s: Statement) -> list[Step]:
        match s:
            case Local():
                return [_local(s, len(self.axis_of))]
            case Acc():
                self.accumulators[s.dest] = (s, len(self.axis_of))
                return [begin(s, len(self.axis_of))]
            case Fold(name, value):
                acc, level = self.accumulators[name]
                counted = level == len(self.axis_of)
                return [fold(acc, value, level, len(self.axis_of), self.sequential[-1] if counted else None)]
            case Load(dest, array, index):
                return [_load(dest, self._access(array, index), dest in self.kept)]
            case Store(array, index, value):
                convert = (
                    bf16_from_f32 if self.types.get(array) == "bf16" else _rounded if array in self.rounded else None
                )
                return [_store(self._access(array, index), value, convert)]
            case Index(dest, expression):
                return [_index(dest, self._expression(expression))]
            case Op(dest, op, type_, args):
                return [_op(dest, op, type_, args)]
            case Routine(name, args):
                return [_routine(name, args, arguments_of(self.kernel, s))]
            case Const() | Scalar():
                return []  # set before the kernel starts
            case Loop() | End():
                raise AssertionError("loops are nests here")

    def _resolved(self, affine: Affine) -> Affine:
        """The expression without values of `index` statements."""
        total = Affine((), affine.const)
        for name, c in affine.terms:
            total = total + self.indices.get(name, Affine.var(name)) * c
        return total

    def _at_once(self, nest: Nest, budget: int) -> Step:
        var, kind = nest.loop.var, nest.loop.kind
        extent = self._expression(nest.loop.extent)
        axis = len(self.axis_of)
        chunk = max(1, self.bounds[var])
        if kind == "par":
            chunk = min(chunk, max(1, budget // self.widths[var]))
        self.axis_of[var] = axis
        steps = self.body(nest.body, max(1, budget // chunk))
        del self.axis_of[var]
        return _vector_loop(var, axis, extent, chunk, steps)

    def _one_by_one(self, nest: Nest, budget: int) -> Step:
        var = nest.loop.var
        extent = self._expression(nest.loop.extent)
        innermost = not any(isinstance(node, Nest) for node in nest.body)
        stored = {s.array for s in nest.body if isinstance(s, Store)} | {
            s.name for s in nest.body if isinstance(s, Local)
        }
        self.sequential.append(var)
        loads: list[tuple[str, Access, bool]] = []
        for s in nest.body:
            if isinstance(s, Load) and (s.array in self.inputs or (innermost and s.array not in stored)):
                access = self._access(s.array, s.index)
                if not access.address.loaded:
                    loads.append((s.dest, access, s.array in self.inputs))
        rolled = frozenset(dest for dest, _, _ in loads)
        steps = self.body(nest.body, budget, rolled)
        again = self._again(nest, rolled) if innermost else steps
        self.sequential.pop()
        return _sequential_loop(var, extent, tuple(loads), steps, again)

    def _again(self, nest: Nest, rolled: frozenset[str]) -> tuple[Step, ...]:
        """The body's steps from the second iteration on: results go into the arrays of the iteration before."""
        steps: list[Step] = []
        for s in nest.body:
            if isinstance(s, Op) and s.op in UFUNCS:
                steps.append(_op_again(s.dest, s.op, s.args))
            elif isinstance(s, Load) and s.dest in rolled:
                continue
            elif not isinstance(s, Nest):
                steps.extend(self._statement(s))
        return tuple(steps)


def _local(s: Local, level: int) -> Step:
    size = 1
    for n in s.shape:
        size *= n

    def step(frame: Frame) -> None:
        total, axes = size, []
        for axis in reversed(range(level)):
            axes.append((axis, total if frame.extents[axis] > 1 else 0))
            total *= frame.extents[axis]
        frame.memory[s.name] = Memory(np.empty(total, COMPUTED[COMPUTE[s.type]]), tuple(axes))

    return step


def _load(dest: str, access: Access, kept: bool) -> Step:
    """`kept`: the element may change while the value is in use, so it is copied."""

    def direct(frame: Frame) -> None:
        view = access.view(frame)
        frame.values[dest] = view.copy() if kept else view

    def gathered(frame: Frame) -> None:
        frame.values[dest] = frame.memory[access.array].flat[access.elements(frame)]

    return gathered if access.address.loaded else direct


def _rounded(array: Array) -> Array:
    return f32_from_bf16(bf16_from_f32(array))


def _store(access: Access, value: str, convert: Callable[[Array], Array] | None) -> Step:
    def direct(frame: Frame) -> None:
        array = convert(frame.values[value]) if convert else frame.values[value]
        if frame.mask is None:
            access.view(frame)[...] = array
        else:
            np.copyto(access.view(frame), array, where=frame.mask)

    def scattered(frame: Frame) -> None:
        array = convert(frame.values[value]) if convert else frame.values[value]
        mask = np.True_ if frame.mask is None else frame.mask
        elements, array, mask = np.broadcast_arrays(access.elements(frame), array, mask)
        frame.memory[access.array].flat[elements[mask]] = array[mask]

    return scattered if access.address.loaded else direct


def _index(dest: str, expression: Expression) -> Step:
    def step(frame: Frame) -> None:
        frame.values[dest] = expression.array(frame)

    return step


def _op(dest: str, op: str, type_: str, args: tuple[str, ...]) -> Step:
    call = operation(op, type_)
    if len(args) == 2:
        first, second = args

        def binary(frame: Frame) -> None:
            values = frame.values
            values[dest] = call(values[first], values[second])

        return binary

    def step(frame: Frame) -> None:
        frame.values[dest] = call(*[frame.values[a] for a in args])

    return step


def _routine(name: str, args: tuple[str, ...], given: tuple[Given, ...]) -> Step:
    call = routine(name)

    def step(frame: Frame) -> None:
        found: list[object] = []
        for arg, g in zip(args, given, strict=True):
            if g.mode == "value":
                found.append(frame.values[arg].item())
            elif g.mode != "local":
                found.append(frame.memory[arg].flat.reshape(g.shape))
        call(*found)

    return step


def _op_again(dest: str, op: str, args: tuple[str, ...]) -> Step:
    ufunc = UFUNCS[op]

    def step(frame: Frame) -> None:
        values = frame.values
        ufunc(*[values[a] for a in args], out=values[dest])

    return step


def _vector_loop(var: str, axis: int, extent: Expression, chunk: int, steps: tuple[Step, ...]) -> Step:
    def step(frame: Frame) -> None:
        most, extents = extent.upper(frame)
        outer = frame.mask
        for start in range(0, most, chunk):
            frame.integers[var] = start
            frame.extents[axis] = min(chunk, most - start)
            if extents is not None:
                inside = frame.along(axis, start) < extents
                frame.mask = inside if outer is None else inside & outer
            for inner in steps:
                inner(frame)
        frame.extents[axis] = 1
        frame.mask = outer

    return step


def _sequential_loop(
    var: str,
    extent: Expression,
    loads: tuple[tuple[str, Access, bool], ...],
    steps: tuple[Step, ...],
    again: tuple[Step, ...],
) -> Step:
    def step(frame: Frame) -> None:
        most, extents = extent.upper(frame)
        if most <= 0:
            return
        outer, values = frame.mask, frame.values
        rolled = [(dest, access.rolled(frame, var, most, constant)) for dest, access, constant in loads]
        body = steps
        for k in range(most):
            frame.integers[var] = k
            for dest, all_ in rolled:
                values[dest] = all_[k]
            if extents is not None:
                inside = extents > k
                frame.mask = inside if outer is None else inside & outer
            for inner in body:
                inner(frame)
            body = again
        frame.mask = outer

    return step
