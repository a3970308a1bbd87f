"""The state of a kernel that runs in NumPy, and the strided views of its memory.

Every value is an array with one axis for each level of vectorized loops: an axis has the extent of the open loop of
its level, or 1 where the value does not vary along it. So values of all levels broadcast together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from presk_db.kernels.affine import Affine
from presk_db.native.numbers import Array

PACKED = 4096
"""From how many elements on a view is copied, to be read in order."""


@dataclass
class Memory:
    """A flat contiguous array; a local has a copy for each point of the enclosing loops' `axes` (axis, stride)."""

    flat: Array
    axes: tuple[tuple[int, int], ...] = ()


@dataclass
class Frame:
    """The state of a run: values by name, each integer's value (a vectorized loop's first), open extents, the mask."""

    values: dict[str, Array]
    integers: dict[str, int]
    memory: dict[str, Memory]
    extents: list[int]
    mask: Array | None = None
    packed: dict[str, dict[object, Array]] = field(default_factory=dict)

    def along(self, axis: int, start: int) -> Array:
        """start, start + 1, … along `axis`: the values of the loop that is open there."""
        shape = [1] * len(self.extents)
        shape[axis] = self.extents[axis]
        return np.arange(start, start + self.extents[axis], dtype=np.int64).reshape(shape)


@dataclass(frozen=True)
class Expression:
    """An affine expression made ready: its integers, its vectorized variables (name, axis), its loaded integers."""

    const: int
    integers: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, int, int], ...]
    loaded: tuple[tuple[str, int], ...]

    @staticmethod
    def of(affine: Affine, axis_of: Mapping[str, int], loaded: frozenset[str]) -> "Expression":
        """Sorts the terms of `affine` by what their names are."""
        plain = tuple((n, c) for n, c in affine.terms if n not in axis_of and n not in loaded)
        axes = tuple((n, axis_of[n], c) for n, c in affine.terms if n in axis_of)
        return Expression(affine.const, plain, axes, tuple((n, c) for n, c in affine.terms if n in loaded))

    def first(self, frame: Frame) -> int:
        """The value at the first iteration of the vectorized loops, without the loaded integers."""
        total = self.const
        for name, c in self.integers:
            total += c * frame.integers[name]
        for name, _, c in self.axes:
            total += c * frame.integers[name]
        return total

    def array(self, frame: Frame) -> Array:
        """The value at every iteration of the vectorized loops."""
        total: Array = np.full((1,) * len(frame.extents), self.const, np.int64)
        for name, c in self.integers:
            total = total + c * frame.integers[name]
        for name, axis, c in self.axes:
            total = total + c * frame.along(axis, frame.integers[name])
        for name, c in self.loaded:
            total = total + c * frame.values[name]
        return total

    def upper(self, frame: Frame) -> tuple[int, Array | None]:
        """The largest value, and all values unless they are equal: an extent."""
        if not self.loaded and all(frame.extents[axis] == 1 for _, axis, _ in self.axes):
            return self.first(frame), None
        values = self.array(frame)
        most = int(values.max())
        return most, None if int(values.min()) == most else values


@dataclass(frozen=True)
class Access:
    """One load's or store's place in memory: the array's name and the flat address in elements."""

    array: str
    address: Expression

    def view(self, frame: Frame) -> Array:
        """The elements at every iteration of the vectorized loops, without a copy. For addresses without loads."""
        memory = frame.memory[self.array]
        shape, strides = self._strides(frame, memory)
        flat = memory.flat
        item = flat.itemsize
        return np.ndarray(shape, flat.dtype, flat, self.address.first(frame) * item, strides)

    def rolled(self, frame: Frame, var: str, extent: int, constant: bool) -> Array:
        """`view` at each of the `extent` values of the sequential loop `var`, along a new first axis.

        `constant`: nothing writes the array while the kernel runs, so that a copy may stay from loop to loop.
        """
        memory = frame.memory[self.array]
        shape, strides = self._strides(frame, memory)
        flat = memory.flat
        item = flat.itemsize
        step = dict(self.address.integers).get(var, 0)
        frame.integers[var] = 0
        first = self.address.first(frame)
        view: Array = np.ndarray((extent, *shape), flat.dtype, flat, first * item, (step * item, *strides))
        moving = [abs(s) for n, s in zip(shape, strides, strict=True) if n > 1 and s]
        if constant and step and view.size >= PACKED and moving and min(moving) > item:
            return self._packed(frame, view, first)
        return view

    def _packed(self, frame: Frame, view: Array, first: int) -> Array:
        """A contiguous copy, kept for the next time (all copies together twice the array): read in order."""
        key = (first, view.shape, view.strides)
        copies = frame.packed.setdefault(self.array, {})
        found = copies.get(key)
        if found is None:
            if sum(c.size for c in copies.values()) > frame.memory[self.array].flat.size:
                copies.clear()
            found = copies[key] = np.ascontiguousarray(view)
        return found

    def elements(self, frame: Frame) -> Array:
        """The flat element numbers at every iteration of the vectorized loops."""
        numbers = self.address.array(frame)
        for axis, stride in frame.memory[self.array].axes:
            numbers = numbers + stride * frame.along(axis, 0)
        return numbers

    def _strides(self, frame: Frame, memory: Memory) -> tuple[tuple[int, ...], tuple[int, ...]]:
        strides = [0] * len(frame.extents)
        item = memory.flat.itemsize
        for _, axis, c in self.address.axes:
            strides[axis] += c * item
        for axis, stride in memory.axes:
            strides[axis] += stride * item
        shape = [n if s else 1 for n, s in zip(frame.extents, strides, strict=True)]
        return tuple(shape), tuple(strides)
