"""shared_pairs: the parameters of a kernel that may be given one memory: an `in` and the `out` that replaces it.

A launch's arrays share no memory, with this one exception. Both arrays have one type and one shape; all loads of the one
and all stores of the other stand in the same body of loops, at the same index; each iteration of the loops has an element
of its own; and every load stands before every store. So each element is read where it is written, before, and by
nobody else. A schedule keeps that: it moves whole iterations, and within one keeps the order of its statements.

In C such a kernel has the written array alone (`in_place`), and reads through its pointer, which stays `restrict`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Array, End, Kernel, Load, Loop, Store
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address

Place = tuple[tuple[int, ...], tuple[Affine, ...]]
"""The statements that open the loops around an access, and its index."""


def shared_pairs(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The names (in, out) of arrays that may be given one memory, in order of the parameters."""
    loads, stores = _accesses(kernel, Load), _accesses(kernel, Store)
    return tuple(
        (a.name, b.name)
        for a in kernel.arrays
        for b in kernel.arrays
        if (a.mode, b.mode) == ("in", "out") and (a.type, a.shape) == (b.type, b.shape)
        if _is_shared(kernel, loads.get(a.name, []), stores.get(b.name, []))
    )


def in_place(kernel: Kernel, pairs: Mapping[str, str]) -> Kernel:
    """The kernel without the arrays `in`, whose loads are of the `out` that has their memory. It is for printing alone."""
    statements = [
        replace(s, array=pairs[s.array]) if isinstance(s, Load) and s.array in pairs else s for s in kernel.statements
    ]
    return Kernel(tuple(p for p in kernel.parameters if p.name not in pairs), tuple(statements))


def _is_shared(kernel: Kernel, loads: list[tuple[int, Place]], stores: list[tuple[int, Place]]) -> bool:
    places = {place for _, place in (*loads, *stores)}
    if not loads or not stores or len(places) != 1 or max(n for n, _ in loads) > min(n for n, _ in stores):
        return False
    ((loops, index),) = places
    array = next(s.array for s in kernel.statements if isinstance(s, Store) and s.index == index)
    return _is_distinct(kernel, loops, flat_address(array_shapes(kernel)[array], index))


def _is_distinct(kernel: Kernel, loops: tuple[int, ...], address: Affine) -> bool:
    """Whether no two iterations of these loops have the same address."""
    bounds = extent_bounds(kernel)
    opened = [s for n in loops if isinstance(s := kernel.statements[n], Loop)]
    if set(address.names) != {loop.var for loop in opened} or len(address.names) != len(opened):
        return False
    reach = 0
    for size, extent in sorted((abs(address.coefficient(loop.var)), bounds[loop.var]) for loop in opened):
        if size <= reach:
            return False
        reach += size * max(extent - 1, 0)
    return True


def _accesses(kernel: Kernel, kind: type[Load] | type[Store]) -> dict[str, list[tuple[int, Place]]]:
    found: dict[str, list[tuple[int, Place]]] = {}
    arrays = {a.name for a in kernel.arrays if isinstance(a, Array)}
    for number, loops, s in _inside(kernel):
        if isinstance(s, kind) and s.array in arrays:
            found.setdefault(s.array, []).append((number, (loops, s.index)))
    return found


def _inside(kernel: Kernel) -> Iterator[tuple[int, tuple[int, ...], object]]:
    """Each statement that is no loop, with its number and the numbers of the loops around it."""
    path: list[int] = []
    for number, s in enumerate(kernel.statements):
        if isinstance(s, Loop):
            path.append(number)
        elif isinstance(s, End):
            path.pop()
        else:
            yield number, tuple(path), s
