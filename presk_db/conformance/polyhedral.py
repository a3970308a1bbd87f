"""polyhedron: a kernel's accesses as integer sets and relations of isl; obstacles: why a kernel has none.

A statement's instances are the points of its loops, under names of their own (`x0`, `x1`, … from the outermost loop;
run-time extents are parameters), so that no name of a kernel means something to isl.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from presk_db.errors import ProofUnavailable
from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import End, Index, Kernel, Load, Local, Loop, Routine, Statement, Store, statement_text
from presk_db.kernels.liveness import affine_names, defined, live_statements, parameters_of

isl: Any = importlib.import_module("islpy") if importlib.util.find_spec("islpy") else None
"""None where the optional group `polyhedral` is not installed."""


def need_isl() -> None:
    """Raises ProofUnavailable (E7020) where islpy is not installed."""
    if isl is None:
        raise ProofUnavailable("proofs need islpy: install presk[polyhedral]")


@dataclass(frozen=True)
class Access:
    """A load or store: its statement's number and line, its array, the loops around it from the outermost on.

    `place` says where it stands: the number of the statement, among those of its level, on the way there from the top:
    one number more than loops. A local array has an instance for each point of the first `depth` loops; a parameter's
    depth is 0. `domain` is the isl set of the instances, `elements` the map from them to the array's elements.
    """

    statement: int
    text: str
    array: str
    is_store: bool
    loops: tuple[str, ...]
    place: tuple[int, ...]
    depth: int
    domain: Any
    elements: Any

    @property
    def points(self) -> str:
        """`S3[x0, x1]`: an instance, as isl writes it."""
        return f"S{self.statement}[{', '.join(f'x{n}' for n in range(len(self.loops)))}]"


@dataclass(frozen=True)
class Polyhedron:
    """The accesses of an affine kernel, in order, and its run-time extents as isl's parameters."""

    kernel: Kernel
    parameters: tuple[str, ...]
    accesses: tuple[Access, ...]

    def map(self, text: str) -> Any:
        """The isl.Map `{ text }` under the kernel's parameters."""
        return isl.Map(f"[{', '.join(self.parameters)}] -> {{ {text} }}")

    def set(self, text: str) -> Any:
        """The isl.Set `{ text }` under the kernel's parameters."""
        return isl.Set(f"[{', '.join(self.parameters)}] -> {{ {text} }}")


def obstacles(kernel: Kernel) -> tuple[str, ...]:
    """What keeps a kernel's nest, as it is printed, from being static control, a line each; none where it is.

    It is where no loop variable is assigned, and every index and every extent is affine in loop variables and
    parameters; what is loaded otherwise is neither.
    """
    found: list[str] = []
    known, variables = set(parameters_of(kernel)), set[str]()
    for s in live_statements(kernel):
        name = defined(s)
        if name is not None and name in variables:
            found.append(f"assigned: '{statement_text(s)}' assigns a loop variable")
        loaded = [n for n in affine_names(s) if n not in known]
        match s:
            case Loop(_, var, _):
                variables.add(var)
                known.add(var)
                found += [f"extent: {n} of '{statement_text(s)}' is loaded" for n in loaded[:1]]
            case Index(dest, _) if not loaded:
                known.add(dest)
            case Load():
                found += [f"gather: the index {n} of '{statement_text(s)}' is loaded" for n in loaded[:1]]
            case Routine(name, _):
                found.append(f"routine: {name} is no nest of loops")
            case Store():
                found += [f"scatter: the index {n} of '{statement_text(s)}' is loaded" for n in loaded[:1]]
            case _:
                pass
    scatters = [line for line in found if line.startswith("scatter")]  # the heavier reason first
    return tuple(dict.fromkeys([*scatters, *found]))


def polyhedron(kernel: Kernel) -> Polyhedron:
    """The accesses of a kernel without obstacles. Raises ProofUnavailable (E7020) without islpy."""
    need_isl()
    walk = _Walk(kernel)
    for number, s in enumerate(live_statements(kernel)):
        walk.step(number, s)
    return Polyhedron(kernel, tuple(walk.parameters.values()), tuple(walk.accesses))


class _Walk:
    """Where the statements so far have led, and the accesses among them."""

    def __init__(self, kernel: Kernel) -> None:
        bounds = parameters_of(kernel)
        self.parameters = {name: f"p{n}" for n, name in enumerate(bounds)}
        self.limits = [f"0 <= {self.parameters[n]} <= {most}" for n, most in bounds.items() if most is not None]
        self.loops: list[str] = []
        self.place = [0]
        self.values: dict[str, Affine] = {}
        self.depths: dict[str, int] = {}
        self.accesses: list[Access] = []

    def step(self, number: int, s: Statement) -> None:
        """Takes in one statement."""
        match s:
            case Loop(_, var, extent):
                self.limits.append(f"0 <= x{len(self.loops)} < {self.text(extent)}")
                self.loops.append(var)
                self.place.append(0)
                return
            case End():
                self.limits.pop()
                self.loops.pop()
                self.place.pop()
            case Index(dest, expression):
                self.values[dest] = expression
            case Local(name, _, _):
                self.depths[name] = len(self.loops)
            case Load(_, array, index) | Store(array, index, _):
                self.access(number, s, array, index)
            case _:
                pass
        self.place[-1] += 1

    def access(self, number: int, s: Load | Store, array: str, index: tuple[Affine, ...]) -> None:
        """Adds a load or store."""
        points = f"S{number}[{', '.join(f'x{n}' for n in range(len(self.loops)))}]"
        where = f" : {' and '.join(self.limits)}" if self.limits else ""
        head = f"[{', '.join(self.parameters.values())}] -> "
        elements = isl.Map(f"{head}{{ {points} -> A_{array}[{', '.join(map(self.text, index))}]{where} }}")
        text, depth = statement_text(s), self.depths.get(array, 0)
        place, loops = tuple(self.place), tuple(self.loops)
        domain = isl.Set(f"{head}{{ {points}{where} }}")
        access = Access(number, text, array, isinstance(s, Store), loops, place, depth, domain, elements)
        self.accesses.append(access)

    def text(self, e: Affine) -> str:
        """An affine expression in isl's names."""
        terms = [f"{c} * {self.name(n)}" for n, c in e.terms]
        return " + ".join([*terms, str(e.const)])

    def name(self, name: str) -> str:
        """The variable of a loop around, an extent, or in parentheses what an index value stands for."""
        if name in self.loops:
            return f"x{self.loops.index(name)}"
        return self.parameters[name] if name in self.parameters else f"({self.text(self.values[name])})"
