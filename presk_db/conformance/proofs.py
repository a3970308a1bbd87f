"""proof_of: what isl proves of an affine kernel, in integers without bounds, for all values of run-time extents.

in_bounds     each load and store is of an element that its array has
partition     the units into which a schedule divides the output: no element is written by two, each iteration is in one,
              and where no extent is known at run time alone, the whole output is written
initialized   each element of a local array is written, in its own iteration, before it is read

A kernel's outputs are never read by it, and accumulators begin as stated: there is nothing to prove of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from presk_db.conformance.polyhedral import Access, Polyhedron, isl, obstacles, polyhedron
from presk_db.kernels.ir import Array, Kernel, Loop
from presk_db.kernels.legality import product_units, split_units, units
from presk_db.kernels.products import product_of
from presk_db.kernels.ranges import array_shapes, extent_bounds
from presk_db.kernels.schedule import Schedule, Split
from presk_db.kernels.tree import Nest, tree

PROPERTIES = ("in_bounds", "partition", "initialized")


@dataclass(frozen=True)
class Proof:
    """What keeps the kernel from being static control; else, by property, None where it is proved, or a counterexample."""

    obstacles: tuple[str, ...]
    refuted: tuple[tuple[str, str | None], ...] = ()

    @property
    def counterexamples(self) -> tuple[str, ...]:
        """The refuted properties with their counterexamples."""
        return tuple(f"{name}: {why}" for name, why in self.refuted if why is not None)


def proof_of(kernel: Kernel, schedules: Sequence[Schedule], launched: int | None = None) -> Proof:
    """Proves the kernel's properties, the partition for each schedule.

    `launched` is how many units are computed, where it is not the number that the schedule has (to plant a fault).
    Raises ProofUnavailable (E7020) where islpy is not installed.
    """
    found = obstacles(kernel)
    if found:
        return Proof(found)
    p = polyhedron(kernel)
    divided = (_partition(p, schedule, launched) for schedule in dict.fromkeys(schedules))
    partition = next((why for why in divided if why is not None), None)
    return Proof((), (("in_bounds", _in_bounds(p)), ("partition", partition), ("initialized", _initialized(p))))


def _in_bounds(p: Polyhedron) -> str | None:
    shapes = array_shapes(p.kernel)
    for a in p.accesses:
        outside = a.elements.range().subtract(_box(p, a.array, shapes[a.array]))
        if not outside.is_empty():
            return f"'{a.text}' reaches {_sample(outside)} of {list(shapes[a.array])}"
    return None


def _box(p: Polyhedron, array: str, shape: tuple[int, ...]) -> Any:
    axes = [f"e{n}" for n in range(len(shape))]
    inside = " and ".join(f"0 <= {e} < {n}" for e, n in zip(axes, shape, strict=True))
    return p.set(f"A_{array}[{', '.join(axes)}]{' : ' + inside if inside else ''}")


def _sample(found: Any) -> list[int]:
    """One point of a set that is not empty."""
    point = found.sample_point()
    return [int(str(point.get_coordinate_val(isl.dim_type.set, n))) for n in range(found.dim(isl.dim_type.set))]


# --- units ----------------------------------------------------------------------------------------------------


def _partition(p: Polyhedron, schedule: Schedule, launched: int | None) -> str | None:
    total = units(p.kernel, schedule) if launched is None else launched
    outputs = [a for a in p.kernel.arrays if a.mode == "out"]
    stores = {a.name: [s for s in p.accesses if s.is_store and s.array == a.name] for a in outputs}
    expressions = _unit_expressions(p.kernel, schedule)
    for array in outputs:
        owners: Any = None
        for s in stores[array.name]:
            unit = p.map(f"{s.points} -> U[{_unit_of(s, expressions)}]").intersect_domain(s.domain)
            idle = unit.range().subtract(p.set(f"U[u] : 0 <= u < {total}"))
            if not idle.is_empty():
                return f"'{s.text}' is in unit {_sample(idle)} of {total}"
            owner = s.elements.reverse().apply_range(unit)
            owners = owner if owners is None else owners.union(owner)
        wrong = _owners_wrong(p, array, owners)
        if wrong is not None:
            return wrong
    return None


def _owners_wrong(p: Polyhedron, array: Array, owners: Any) -> str | None:
    """What is wrong with the map from an output's elements to the units that write them."""
    box = _box(p, array.name, array.shape)
    missing = box if owners is None else box.subtract(owners.domain())
    if not p.parameters and not missing.is_empty():
        return f"no unit writes {array.name}{_sample(missing)}"
    if owners is not None and not owners.is_single_valued():
        others = p.map("U[u] -> U[v] : u < v")
        twice = owners.intersect(owners.apply_range(others)).domain()
        return f"two units write {array.name}{_sample(twice)}"
    return None


def _unit_of(store: Access, expressions: dict[str, str]) -> str:
    """The unit of a store's instance; of one outside all loops, the only one."""
    if not store.loops:
        return "0"
    text = expressions[store.loops[0]]
    for n, var in enumerate(store.loops):
        text = text.replace(f"<{var}>", f"x{n}")
    return text


def _unit_expressions(kernel: Kernel, schedule: Schedule) -> dict[str, str]:
    """By the outermost loop's variable: the number of the unit that an iteration is in, with `<var>` for variables.

    It says what `legality` documents and the printers print: the units of splits follow each other, the iterations of
    their loops in order, the last cut into grains; those of a product are batches, chunks of columns, rows, the last
    fastest.
    """
    bounds, tops = extent_bounds(kernel), [n.loop for n in tree(kernel) if isinstance(n, Nest)]
    if schedule.product is not None:
        product = product_of(kernel)
        assert product is not None, "a legal schedule"
        _, chunks, rows = product_units(kernel, product, schedule.product)
        group = _mixed([(loop.var, bounds[loop.var]) for loop in product.batch])
        wide = product.columns * schedule.product.panels
        chunk = f"(({group}) * {chunks} + floor(<{product.column.var}> / {wide}))"
        row = "0" if product.row is None else f"floor(<{product.row.var}> / {schedule.product.rows})"
        return {loop.var: f"{chunk} * {rows} + {row}" for loop in tops}
    if not schedule.splits:
        return {loop.var: "0" for loop in tops}
    return _split_expressions(schedule.splits, tops, bounds)


def _split_expressions(splits: Sequence[Split], tops: Sequence[Loop], bounds: dict[str, int]) -> dict[str, str]:
    found: dict[str, str] = {}
    begin = 0
    by_first = {split.loops[0]: split for split in splits}
    for loop in tops:
        if loop.var not in by_first:  # a loop that no output needs
            found[loop.var] = "0"
            continue
        split = by_first[loop.var]
        last = split.loops[-1]
        outer = _mixed([(var, bounds[var]) for var in split.loops[:-1]])
        grains = -(-bounds[last] // split.grain)
        found[loop.var] = f"{begin} + ({outer}) * {grains} + floor(<{last}> / {split.grain})"
        begin += split_units(split, bounds)
    return found


def _mixed(digits: Sequence[tuple[str, int]]) -> str:
    """The number whose digits are these variables, the last fastest."""
    text = "0"
    for var, size in digits:
        text = f"({text}) * {size} + <{var}>"
    return text


# --- locals ---------------------------------------------------------------------------------------------------


def _initialized(p: Polyhedron) -> str | None:
    outputs = {a.name for a in p.kernel.arrays}
    steps = max((2 * len(a.loops) + 1 for a in p.accesses), default=0)
    for read in p.accesses:
        if read.is_store or read.array in outputs:
            continue
        missing = read.domain
        for write in p.accesses:
            if write.is_store and write.array == read.array:
                same = read.elements.apply_range(write.elements.reverse())
                before = _time(p, read, steps).apply_range(_earlier(p, 2 * read.depth, steps))
                earlier = before.apply_range(_time(p, write, steps).reverse())
                missing = missing.subtract(same.intersect(earlier).domain())
        if not missing.is_empty():
            at = ", ".join(f"{var} = {n}" for var, n in zip(read.loops, _sample(missing), strict=True))
            return f"'{read.text}' reads what is not written yet{' at ' + at if at else ''}"
    return None


def _time(p: Polyhedron, a: Access, steps: int) -> Any:
    """The map from an access' instances to when they run: places and variables in turn, compared in order."""
    when = [str(a.place[0])]
    for n, place in enumerate(a.place[1:]):
        when += [f"x{n}", str(place)]
    when += ["0"] * (steps - len(when))
    return p.map(f"{a.points} -> T[{', '.join(when)}]")


def _earlier(p: Polyhedron, common: int, steps: int) -> Any:
    """The map from a time to all earlier ones in the same instance of a local array: the first numbers are equal."""
    a, b = [f"a{n}" for n in range(steps)], [f"b{n}" for n in range(steps)]
    cases = []
    for n in range(common, steps):
        equal = [f"{x} = {y}" for x, y in zip(a[:n], b[:n], strict=True)]
        cases.append(f"({' and '.join([*equal, f'{b[n]} < {a[n]}'])})")
    return p.map(f"T[{', '.join(a)}] -> T[{', '.join(b)}] : {' or '.join(cases) or '1 = 0'}")
