"""run: executes a launch order, reports every event, and gives the outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from time import perf_counter_ns
from typing import Literal

import numpy as np

from presk_db.errors import InputBad, InputOutOfRange
from presk_db.kernels.ir import ExtentParameter, Kernel, ScalarParameter
from presk_db.kernels.launches import Buffer, Call, Launch, LaunchOrder, View
from presk_db.kernels.schedule import Schedule
from presk_db.native.compiled import compiled_executor
from presk_db.native.environment import check_float_environment
from presk_db.native.execute import run_kernel
from presk_db.native.hashing import hash_of
from presk_db.native.numbers import STORAGE, Array, canonical
from presk_db.recording.events import CallEntered, CallLeft, Launched, Recorder

Executor = Callable[[Kernel, Sequence[Array], Mapping[str, float | int]], None]


def run(
    order: LaunchOrder,
    inputs: Mapping[int, Array],
    weights: Mapping[int, Array],
    recorder: Recorder,
    scalars: Mapping[str, float | int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    executor: Literal["numpy", "compiled"] = "numpy",
    schedules: Mapping[str, Schedule] | None = None,
) -> dict[int, Array]:
    """Runs all launches in order.

    Args:
        order: what to run; its buffers are numbered by their position.
        inputs: the contents of the input buffers, and of the outputs that are given, by number, in the buffer's shape
            and storage dtype.
        weights: the weight buffers' contents, likewise; neither is written.
        recorder: is told of each call entered and left and of each launch with its time.
        scalars: run-time numbers by name.
        progress: is called with the number of launches done and their total, after each launch.
        executor: `numpy` defines the bits; `compiled` gives the same bits faster and needs a C compiler.
        schedules: of compiled kernels, by digest; the default for the others. They change no bit.

    Returns:
        The output buffers' contents by number, in their shape, NaNs canonical.

    Raises:
        FloatEnvironmentBad (E4001): this process cannot compute the bits.
        InputBad (E1205), InputOutOfRange (E1204): a buffer's contents do not fit; an input of shape () is not finite.
        CompilerFailed (E4002): the C compiler refused a kernel.
    """
    check_float_environment()
    arrays = _given(order, "input", inputs) | _given(order, "weight", weights)
    execute: Executor = compiled_executor(order.kernels(), schedules) if executor == "compiled" else run_kernel
    memory = _Memory(order, arrays)
    path = _Path(order.calls, recorder)
    path.go(next((c.id for c in order.calls if c.parent is None), None))
    for number, launch in enumerate(order.launches):
        path.go(launch.call)
        views = [memory.view(v) for v in launch.arguments]
        numbers = _numbers(launch, scalars or {})
        start = perf_counter_ns()
        execute(launch.kernel, views, numbers)
        nanoseconds = perf_counter_ns() - start
        recorder.event(Launched(number, nanoseconds, _hashes(launch.kernel, views)))
        memory.free_after(number)
        if progress is not None:
            progress(number + 1, len(order.launches))
    path.go(None)
    outputs = (b for b in order.buffers if b.role == "output")
    return {b.id: canonical(memory.flat(b.id).reshape(b.shape), b.type) for b in outputs}


def _hashes(kernel: Kernel, views: Sequence[Array]) -> tuple[int, ...]:
    """The hashes of what a launch has written, in the order of its array arguments."""
    return tuple(hash_of(v, a.type) for a, v in zip(kernel.arrays, views, strict=True) if a.mode == "out")


def check_contents(buffer: Buffer, array: Array) -> None:
    """Raises E1205 where dtype or shape are not the buffer's, E1204 where an integer is outside its range."""
    dtype = STORAGE[buffer.type]
    if array.dtype != dtype:
        raise InputBad(f"is {array.dtype} and must be {dtype} ({buffer.type})", buffer.name)
    if array.shape != buffer.shape:
        raise InputBad(f"has shape {list(array.shape)} and must have {list(buffer.shape)}", buffer.name)
    limit = 2 if buffer.type == "bool" else buffer.limit
    if limit is None or buffer.type not in ("i64", "bool"):
        return
    bad = (array < 0) | (array >= limit)
    if bad.any():
        at = np.unravel_index(int(bad.argmax()), bad.shape)
        position = ", ".join(str(int(i)) for i in at)
        raise InputOutOfRange(f"element [{position}] is {int(array[at])} and must be in [0, {limit})", buffer.name)


def _given(order: LaunchOrder, role: Literal["input", "weight"], arrays: Mapping[int, Array]) -> dict[int, Array]:
    wanted = {b.id: b for b in order.buffers if b.role == role or (role == "input" and b.given)}
    for number in arrays:
        if number not in wanted:
            raise InputBad(f"buffer {number} is no {role}")
    for number, buffer in wanted.items():
        if number not in arrays:
            raise InputBad(f"the {role} is missing", buffer.name)
        check_contents(buffer, arrays[number])
        if role == "input" and buffer.shape == () and buffer.type in ("f64", "f32") and not np.isfinite(arrays[number]):
            raise InputBad(f"is {float(arrays[number])} and must be a finite number", buffer.name)
    contents = {number: np.ascontiguousarray(arrays[number]).reshape(-1) for number in wanted}
    return {number: array.copy() if wanted[number].given else array for number, array in contents.items()}


def _numbers(launch: Launch, scalars: Mapping[str, float | int]) -> dict[str, float | int]:
    names = [p.name for p in launch.kernel.parameters if isinstance(p, (ScalarParameter, ExtentParameter))]
    for name in launch.scalars:
        if name not in scalars:
            raise InputBad("the number is missing", name)
    return {name: scalars[given] for name, given in zip(names, launch.scalars, strict=True)}


class _Memory:
    """The buffers' flat arrays: made at their first use, temporaries freed after their last."""

    def __init__(self, order: LaunchOrder, given: dict[int, Array]) -> None:
        self.buffers = order.buffers
        self.arrays = dict(given)
        last = {v.buffer: number for number, launch in enumerate(order.launches) for v in launch.arguments}
        self.dying: dict[int, list[int]] = {}
        for buffer, number in last.items():
            if self.buffers[buffer].role == "temp":
                self.dying.setdefault(number, []).append(buffer)

    def flat(self, buffer: int) -> Array:
        if buffer not in self.arrays:
            info = self.buffers[buffer]
            self.arrays[buffer] = np.zeros(info.elements, STORAGE[info.type])
        return self.arrays[buffer]

    def view(self, view: View) -> Array:
        return self.flat(view.buffer)[view.offset : view.offset + prod(view.shape)]

    def free_after(self, launch: int) -> None:
        for buffer in self.dying.get(launch, ()):
            del self.arrays[buffer]


@dataclass
class _Path:
    """The calls that are open, from the root down."""

    calls: tuple[Call, ...]
    recorder: Recorder
    open: list[int] = field(default_factory=list)

    def go(self, call: int | None) -> None:
        """Leaves and enters calls until `call` is the innermost; None leaves all."""
        wanted = list(self._ancestors(call))[::-1]
        common = 0
        while common < min(len(wanted), len(self.open)) and wanted[common] == self.open[common]:
            common += 1
        while len(self.open) > common:
            self.recorder.event(CallLeft(self.open.pop()))
        for entered in wanted[common:]:
            self.open.append(entered)
            self.recorder.event(CallEntered(entered))

    def _ancestors(self, call: int | None) -> Iterator[int]:
        while call is not None:
            yield call
            call = self.calls[call].parent
