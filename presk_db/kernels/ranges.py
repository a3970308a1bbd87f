"""Facts about a kernel's names: the range of each integer, the type of each value, the flat address of an access."""

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import (
    COMPARISONS,
    Acc,
    Array,
    Const,
    ExtentParameter,
    Index,
    Kernel,
    Load,
    Local,
    Loop,
    Op,
    Scalar,
)
from presk_db.kernels.types import COMPUTE


def name_ranges(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """The inclusive range of every integer that an affine expression may name; of a checked kernel.

    A loop that never runs gives its variable the range (0, 0).
    """
    ranges: dict[str, tuple[int, int]] = {
        p.name: (0, p.bound) for p in kernel.parameters if isinstance(p, ExtentParameter)
    }
    limits = {a.name: a.limit for a in kernel.arrays if a.limit is not None}
    for s in kernel.statements:
        match s:
            case Loop(_, var, extent):
                ranges[var] = (0, max(extent.range(ranges)[1] - 1, 0))
            case Load(dest, array, _) if array in limits:
                ranges[dest] = (0, max(limits[array] - 1, 0))
            case Index(dest, expression):
                ranges[dest] = expression.range(ranges)
    return ranges


def extent_bounds(kernel: Kernel) -> dict[str, int]:
    """The largest number of iterations of every loop, by its variable."""
    ranges = name_ranges(kernel)
    return {s.var: max(s.extent.range(ranges)[1], 0) for s in kernel.statements if isinstance(s, Loop)}


def value_types(kernel: Kernel) -> dict[str, str]:
    """The compute type of every value and accumulator."""
    arrays = {p.name: p.type for p in kernel.arrays}
    types: dict[str, str] = {}
    for s in kernel.statements:
        match s:
            case Local(name, type_, _):
                arrays[name] = type_
            case Acc(dest, type_, kind):
                types[dest] = "i64" if kind == "argmax" else type_
            case Load(dest, array, _):
                types[dest] = COMPUTE[arrays[array]]
            case Const(dest, type_, _):
                types[dest] = type_
            case Index(dest, _):
                types[dest] = "i64"
            case Scalar(dest, _):
                types[dest] = "f64"
            case Op(dest, op, type_, _):
                types[dest] = "bool" if op in COMPARISONS else type_
    return types


def flat_address(shape: tuple[int, ...], index: tuple[Affine, ...]) -> Affine:
    """The row-major element number of `index` in an array of `shape`."""
    address = Affine()
    for n, expression in zip(shape, index, strict=True):
        address = address * n + expression
    return address


def array_shapes(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """The shape of every array parameter and local."""
    named = [*kernel.arrays, *(s for s in kernel.statements if isinstance(s, Local))]
    return {a.name: a.shape for a in named if isinstance(a, (Array, Local))}
