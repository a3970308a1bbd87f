"""Index maps through layout equations: strided views of materialized values, and pulling and pushing of indices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from presk_db.kernels.affine import Affine, delinearized
from presk_db.language.primitives import LAYOUT
from presk_db.lowering.flat import FlatEquation, Value

Index = tuple[Affine, ...]
Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Strided:
    """`root` seen as a strided array: element index i lies at `offset + sum(i * strides)` of the root's elements."""

    root: Value
    offset: int
    strides: tuple[int, ...]

    def address(self, index: Index) -> Affine:
        """The row-major address in the root of the element at `index`."""
        total = Affine((), self.offset)
        for stride, i in zip(self.strides, index, strict=True):
            total = total + i * stride
        return total


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def is_lazy(equation: FlatEquation | None) -> bool:
    """Whether the equation only renames indices, so that nothing needs to be stored."""
    return equation is not None and equation.op in LAYOUT


def root_of(value: Value) -> Value:
    """The value whose elements these are, behind all layout equations."""
    while is_lazy(value.equation):
        assert value.equation is not None
        value = value.equation.inputs[0]
    return value


def chain_of(value: Value) -> list[FlatEquation]:
    """The layout equations from the root to the value, in order."""
    chain: list[FlatEquation] = []
    while is_lazy(value.equation):
        assert value.equation is not None
        chain.append(value.equation)
        value = value.equation.inputs[0]
    return chain[::-1]


def strided_of(value: Value) -> Strided | None:
    """The value as a strided view of its root, taken as row-major; None where a reshape would need a copy."""
    root = root_of(value)
    view = Strided(root, 0, contiguous_strides(root.shape))
    for equation in chain_of(value):
        step = strided_step(view, equation)
        if step is None:
            return None
        view = step
    return view


def strided_step(view: Strided, e: FlatEquation) -> Strided | None:
    """The view behind one more layout equation."""
    shape, out = e.inputs[0].shape, e.output.shape
    match e.op:
        case "transpose":
            return Strided(view.root, view.offset, tuple(view.strides[a] for a in e.attributes["axes"]))
        case "slice":
            offset = view.offset + e.attributes["start"] * view.strides[e.attributes["axis"]]
            return Strided(view.root, offset, view.strides)
        case "broadcast":
            padded = (1,) * (len(out) - len(shape)) + shape
            strides = (0,) * (len(out) - len(shape)) + view.strides
            return Strided(
                view.root, view.offset, tuple(s if n == m else 0 for s, n, m in zip(strides, padded, out, strict=True))
            )
        case _:
            found = _reshaped(shape, view.strides, out)
            return None if found is None else Strided(view.root, view.offset, found)


def _reshaped(shape: tuple[int, ...], strides: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the same elements under another shape, or None: groups of axes must be evenly strided."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[int] = []
    i = j = 0
    while i < len(axes):  # the next group: axes[i:i2] holds as many elements as out[j:j2]
        i2, j2 = i + 1, j + 1
        inside, outside = axes[i][0], out[j]
        while inside != outside:
            if inside < outside:
                inside *= axes[i2][0]
                i2 += 1
            else:
                outside *= out[j2]
                j2 += 1
        if any(s != n * t for (_, s), (n, t) in zip(axes[i : i2 - 1], axes[i + 1 : i2], strict=True)):
            return None
        result += [axes[i2 - 1][1] * math.prod(out[a + 1 : j2]) for a in range(j, j2)]
        i, j = i2, j2
    return tuple(result + [0] * (len(out) - j))


def pulled(value: Value, index: Index, ranges: Ranges) -> Index | None:
    """The index in the root of the element of `value` at `index`; None where it is not affine."""
    root = root_of(value)
    if math.prod(root.shape) == 1:
        return (Affine(),) * len(root.shape)
    for e in reversed(chain_of(value)):
        shape, out = e.inputs[0].shape, e.output.shape
        match e.op:
            case "transpose":
                axes = e.attributes["axes"]
                index = tuple(index[axes.index(a)] for a in range(len(axes)))
            case "slice":
                axis, start = e.attributes["axis"], e.attributes["start"]
                index = tuple(i + start if a == axis else i for a, i in enumerate(index))
            case "broadcast":
                tail = index[len(out) - len(shape) :]
                index = tuple(Affine() if n == 1 else i for n, i in zip(shape, tail, strict=True))
            case _:
                found = delinearized(Strided(e.output, 0, contiguous_strides(out)).address(index), shape, ranges)
                if found is None:
                    return None
                index = found
    return index


def pushed(chain: list[FlatEquation], index: Index, ranges: Ranges) -> Index | None:
    """The index, behind a chain of transposes and reshapes, of the element at `index` before it; None if not affine."""
    for e in chain:
        if e.op == "transpose":
            index = tuple(index[a] for a in e.attributes["axes"])
        elif e.op in ("reshape", "pack"):
            shape, out = e.inputs[0].shape, e.output.shape
            found = delinearized(Strided(e.inputs[0], 0, contiguous_strides(shape)).address(index), out, ranges)
            if found is None:
                return None
            index = found
        else:
            return None
    return index


def axis_variables(shape: tuple[int, ...], prefix: str = "x") -> tuple[Index, dict[str, tuple[int, int]]]:
    """A variable for each axis longer than 1 (0 for the others), with its range: a stand-in for any index."""
    index = tuple(Affine() if n == 1 else Affine.var(f"{prefix}{a}") for a, n in enumerate(shape))
    return index, {f"{prefix}{a}": (0, max(n - 1, 0)) for a, n in enumerate(shape) if n != 1}
