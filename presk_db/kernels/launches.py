"""The launch order: buffers, views, the tree of calls with its folds, and launches of kernels in order.

This is the value that crosses from lowering to a native run. Everything is frozen, in a stated order, and free of
types of other layers.
"""

from dataclasses import dataclass
from typing import Literal

from presk_db.errors import KernelAliasBad, KernelBoundsBad
from presk_db.kernels.ir import Array, ExtentParameter, Kernel, ScalarParameter
from presk_db.kernels.types import SIZES

Role = Literal["input", "weight", "temp", "output"]


@dataclass(frozen=True)
class Buffer:
    """One piece of memory. `name` is a site's or a parameter's name; `limit` bounds the integers of an i64 buffer.

    An output that is `given` is some state of the caller's: it has contents before the run, which the run changes.
    """

    id: int
    role: Role
    name: str
    type: str
    shape: tuple[int, ...]
    limit: int | None = None
    given: bool = False

    @property
    def elements(self) -> int:
        """The product of the shape."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def bytes(self) -> int:
        """Elements times the bytes of one."""
        return self.elements * SIZES[self.type]


@dataclass(frozen=True)
class View:
    """A row-major contiguous window: `shape` elements of `buffer` from element `offset` on."""

    buffer: int
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class WeightPart:
    """Elements of a weight buffer, from `offset` on, that come from one tensor of the checkpoint.

    `shape` is the tensor's shape in the checkpoint; where `transposed`, it is a matrix and its transpose is stored.
    Drawn from a seed, the tensor's elements are uniform in [low, high), computed in f64 and rounded once to f32.
    """

    buffer: int
    offset: int
    tensor: str
    shape: tuple[int, ...]
    transposed: bool
    low: float
    high: float


@dataclass(frozen=True)
class FunctionInfo:
    """A module function: its name, and the file name and line where it is written."""

    name: str
    source: str


@dataclass(frozen=True)
class Call:
    """One use of a function. The root has no parent; `fold` and `iteration` are set for an iteration of a fold."""

    id: int
    parent: int | None
    function: int
    label: str
    fold: int | None = None
    iteration: int | None = None


@dataclass(frozen=True)
class FoldInfo:
    """A function applied down a stack of `length` layers, inside the call `call`."""

    id: int
    call: int
    function: int
    label: str
    length: int
    descending: bool = False


@dataclass(frozen=True)
class Launch:
    """One run of a kernel: a view for each array parameter, in order, and a scalar's name for each scalar or extent."""

    kernel: Kernel
    call: int
    label: str
    source: str
    arguments: tuple[View, ...]
    scalars: tuple[str, ...] = ()


@dataclass(frozen=True)
class Update:
    """The output buffer `output` is the new value of the input or weight buffer `state`, of the same type and shape."""

    output: int
    state: int


@dataclass(frozen=True)
class LaunchOrder:
    """All of a program: what there is, and what happens, in order; updates in the order of their outputs."""

    functions: tuple[FunctionInfo, ...]
    calls: tuple[Call, ...]
    folds: tuple[FoldInfo, ...]
    buffers: tuple[Buffer, ...]
    weights: tuple[WeightPart, ...]
    launches: tuple[Launch, ...]
    updates: tuple[Update, ...] = ()

    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, in order of their first launch."""
        return tuple({launch.kernel.digest: launch.kernel for launch in self.launches}.values())


def check_launches(order: LaunchOrder) -> None:
    """Raises E2004 or E2006 where a launch's arguments do not fit its kernel, leave their buffers, or alias.

    Likewise where an update is none of an input or weight by an output of its type and shape, each in one update at most.
    """
    for number, launch in enumerate(order.launches):
        place = f"launch {number} ({launch.label})"
        arrays = launch.kernel.arrays
        scalars = [p for p in launch.kernel.parameters if isinstance(p, (ScalarParameter, ExtentParameter))]
        if len(arrays) != len(launch.arguments) or len(scalars) != len(launch.scalars):
            raise KernelBoundsBad(f"{len(launch.arguments)} views for {len(arrays)} arrays", place)
        for array, view in zip(arrays, launch.arguments, strict=True):
            _check_argument(array, view, order.buffers[view.buffer], place)
        _check_alias(arrays, launch.arguments, place)
    _check_updates(order)


def _check_updates(order: LaunchOrder) -> None:
    seen: set[int] = set()
    for update in order.updates:
        output, state = order.buffers[update.output], order.buffers[update.state]
        if output.role != "output" or state.role not in ("input", "weight") or seen & {output.id, state.id}:
            raise KernelAliasBad(f"{output.name} cannot be the new value of {state.name}", "the updates")
        if (output.type, output.shape) != (state.type, state.shape):
            raise KernelBoundsBad(f"{output.name} and {state.name} differ in type or shape", "the updates")
        seen |= {output.id, state.id}


def _check_argument(array: Array, view: View, buffer: Buffer, place: str) -> None:
    if array.type != buffer.type or array.limit not in (None, buffer.limit):
        raise KernelBoundsBad(f"{array.name} is {array.type}, {buffer.name} is {buffer.type}", place)
    if array.shape != view.shape:
        raise KernelBoundsBad(f"{array.name} has shape {array.shape}, its view {view.shape}", place)
    if view.offset < 0 or view.offset + _size(view.shape) > buffer.elements:
        raise KernelBoundsBad(
            f"the view of {buffer.name} at {view.offset} leaves its {buffer.elements} elements", place
        )
    if array.mode == "out" and buffer.role in ("input", "weight"):
        raise KernelAliasBad(f"{buffer.name} is an {buffer.role} and cannot be written", place)


def _check_alias(arrays: tuple[Array, ...], views: tuple[View, ...], place: str) -> None:
    for i, (array, view) in enumerate(zip(arrays, views, strict=True)):
        if array.mode != "out":
            continue
        for j, other in enumerate(views):
            apart = view.offset + _size(view.shape) <= other.offset or other.offset + _size(other.shape) <= view.offset
            if i != j and other.buffer == view.buffer and not apart:
                raise KernelAliasBad(f"{array.name} and {arrays[j].name} share memory", place)


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n
