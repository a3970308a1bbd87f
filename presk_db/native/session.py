"""Session: an entry that runs again and again on the same weights; its states stay from run to run."""

from collections.abc import Mapping
from math import prod

import numpy as np

from presk_db.kernels.launches import LaunchOrder
from presk_db.native.compiled import compiled_executor
from presk_db.native.environment import check_float_environment
from presk_db.native.numbers import STORAGE, Array
from presk_db.native.run import check_contents


class Session:
    """Compiled kernels and memory, made once; states begin as zeros."""

    def __init__(self, order: LaunchOrder, weights: Mapping[int, Array]) -> None:
        """`weights` by buffer, in storage types. Errors: FloatEnvironmentBad (E4001), CompilerFailed (E4002)."""
        check_float_environment()
        self.buffers = {b.name: b for b in order.buffers if b.role in ("input", "output")}
        self._arrays = {
            b.id: np.ascontiguousarray(weights[b.id]).reshape(-1)
            if b.role == "weight"
            else np.zeros(b.elements, STORAGE[b.type])
            for b in order.buffers
        }
        self._execute = compiled_executor(order.kernels())
        self._launches = [
            (x.kernel, [self._arrays[v.buffer][v.offset : v.offset + prod(v.shape)] for v in x.arguments])
            for x in order.launches
        ]

    def take_states(self, other: "Session") -> None:
        """The contents of another session's states of the same names."""
        for name, buffer in self.buffers.items():
            if buffer.given:
                self._arrays[buffer.id][...] = other._arrays[other.buffers[name].id]

    def run(self, inputs: Mapping[str, Array]) -> None:
        """Runs the entry. Errors: InputBad (E1205), InputOutOfRange (E1204) for an input that does not fit."""
        for name, array in inputs.items():
            check_contents(self.buffers[name], array)
            self._arrays[self.buffers[name].id][...] = array.reshape(-1)
        for kernel, views in self._launches:
            self._execute(kernel, views, {})

    def output(self, name: str) -> Array:
        """An output of the last run, in its shape; the next run changes it."""
        buffer = self.buffers[name]
        return self._arrays[buffer.id].reshape(buffer.shape)
