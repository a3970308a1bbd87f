"""Which loops of a kernel NumPy may run all at once without changing a bit, and how much of a loop at a time.

A par loop always may. A seq loop may where nothing depends on the order of its iterations: it feeds no ordered sum
of floats, and no two iterations touch one element of memory of which one writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Acc, Fold, Index, Kernel, Load, Local, Loop, Statement, Store
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address
from presk_db.kernels.tree import Nest, tree

CHUNK = 65536
"""About how many elements an intermediate array should have: small enough for the cache, large enough for NumPy."""


@dataclass(frozen=True)
class _Access:
    """A load or store inside a loop: its array, index, and the loops between, outermost first."""

    array: str
    index: tuple[Affine, ...]
    inner: tuple[Loop, ...]
    is_store: bool


def vectorized_loops(kernel: Kernel) -> frozenset[str]:
    """The variables of the loops that run all at once (or in chunks)."""
    accumulators = {s.dest: s for s in kernel.statements if isinstance(s, Acc)}
    shapes, bounds = array_shapes(kernel), extent_bounds(kernel)
    found: set[str] = set()
    for nest in _nests(tree(kernel)):
        if nest.loop.kind == "par" or (_folds_commute(nest, accumulators) and _memory_commutes(nest, shapes, bounds)):
            found.add(nest.loop.var)
    return frozenset(found)


def _nests(body: tuple[Statement | Nest, ...]) -> Iterator[Nest]:
    for node in body:
        if isinstance(node, Nest):
            yield node
            yield from _nests(node.body)


def _statements(nest: Nest, inner: tuple[Loop, ...] = ()) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    """Every statement inside, with the loops between `nest` and it."""
    for node in nest.body:
        if isinstance(node, Nest):
            yield from _statements(node, (*inner, node.loop))
        else:
            yield node, inner


def _folds_commute(nest: Nest, accumulators: dict[str, Acc]) -> bool:
    inside = {s.dest for s, _ in _statements(nest) if isinstance(s, Acc)}
    folded = [s.acc for s, _ in _statements(nest) if isinstance(s, Fold) and s.acc not in inside]
    for name in folded:
        acc = accumulators[name]
        if acc.kind == "sum" and acc.type != "i64":
            return False
        if acc.kind in ("lanes", "argmax") and folded.count(name) > 1:
            return False
    return True


def _memory_commutes(nest: Nest, shapes: dict[str, tuple[int, ...]], bounds: dict[str, int]) -> bool:
    private = {s.name for s, _ in _statements(nest) if isinstance(s, Local)}
    defined = {s.dest for s, _ in _statements(nest) if isinstance(s, (Load, Index))}
    moving = defined | {loop.var for s, inner in _statements(nest) for loop in inner}
    accesses: dict[str, list[_Access]] = {}
    for s, inner in _statements(nest):
        if isinstance(s, (Load, Store)) and s.array not in private:
            accesses.setdefault(s.array, []).append(_Access(s.array, s.index, inner, isinstance(s, Store)))
    for array, group in accesses.items():
        if not any(a.is_store for a in group) or _apart_by_an_axis(group, nest.loop.var, moving):
            continue
        if len(group) > 1 or not _injective(group[0], nest.loop, shapes[array], bounds, defined):
            return False
    return True


def _apart_by_an_axis(group: list[_Access], var: str, moving: set[str]) -> bool:
    """Whether all accesses agree on one axis whose index moves with `var` and with nothing else inside the loop."""
    for axis in zip(*(a.index for a in group), strict=True):
        first = axis[0]
        same = all(expression == first for expression in axis)
        if same and first.coefficient(var) and not moving.intersection(first.names):
            return True
    return False


def _injective(access: _Access, loop: Loop, shape: tuple[int, ...], bounds: dict[str, int], defined: set[str]) -> bool:
    """Whether different iterations of `loop` and of the loops inside it reach different elements: a mixed radix."""
    moving = (loop.var, *(inner.var for inner in access.inner))
    address = flat_address(shape, access.index)
    if defined.intersection(address.names):
        return False
    reach = 0
    for coefficient, var in sorted((abs(address.coefficient(v)), v) for v in moving):
        if bounds[var] > 1 and coefficient <= reach:
            return False
        reach += coefficient * max(bounds[var] - 1, 0)
    return True


def widths(kernel: Kernel, vectorized: frozenset[str]) -> dict[str, int]:
    """For each loop, the most elements that an intermediate has in one iteration of it."""
    bounds = extent_bounds(kernel)
    found: dict[str, int] = {}

    def width(body: tuple[Statement | Nest, ...]) -> int:
        most = 1
        for node in body:
            if isinstance(node, Nest):
                found[node.loop.var] = width(node.body)
                times = bounds[node.loop.var] if node.loop.var in vectorized else 1
                most = max(most, times * found[node.loop.var])
        return most

    width(tree(kernel))
    return found
