"""check_arguments: whether arrays and numbers fit a kernel's parameters, for every executor."""

from collections.abc import Mapping, Sequence
from math import prod

from presk_db.errors import InputBad
from presk_db.kernels.ir import ExtentParameter, Kernel, ScalarParameter
from presk_db.native.numbers import STORAGE, Array


def check_arguments(kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int]) -> None:
    """Raises InputBad (E1205) unless each array is contiguous and of its parameter's size and dtype, each number there."""
    if len(arrays) != len(kernel.arrays):
        raise InputBad(f"{len(arrays)} arrays for a kernel of {len(kernel.arrays)}")
    for parameter, array in zip(kernel.arrays, arrays, strict=True):
        if array.dtype != STORAGE[parameter.type]:
            raise InputBad(
                f"{parameter.name} is {parameter.type} and takes {STORAGE[parameter.type]}, not {array.dtype}"
            )
        if array.size != prod(parameter.shape):
            raise InputBad(f"{parameter.name} has {prod(parameter.shape)} elements, not {array.size}")
        if not array.flags.c_contiguous:
            raise InputBad(f"{parameter.name} must be contiguous")
        if parameter.mode == "out" and not array.flags.writeable:
            raise InputBad(f"{parameter.name} is written and must be writeable")
    for p in kernel.parameters:
        if isinstance(p, (ScalarParameter, ExtentParameter)) and p.name not in scalars:
            raise InputBad(f"the number {p.name} is missing")
        if isinstance(p, ExtentParameter) and not 0 <= scalars[p.name] <= p.bound:
            raise InputBad(f"{p.name} is {scalars[p.name]} and must be from 0 to {p.bound}")
