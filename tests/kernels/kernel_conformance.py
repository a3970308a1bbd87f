"""Kernel conformance: NumPy, the compiled kernel through cffi, and an emitted C program agree bit for bit.

    python -m tests.kernels.kernel_conformance [--quick] [--random N] [--seed N]

A case is one kernel run in one way on one set of arguments and compared with the NumPy run of its text. The ways: the
nest as it stands (scalar), the default schedule with its units in one piece and cut into three, every legal split (of
the outermost par loop, of the two outermost, ...) with each grain and number of pieces of CUTS, the loops that can be
tiled in lanes of each width of WIDTHS, and the kernel inside an emitted program. Arguments hold NaN, infinities, zeros
of both signs and subnormals.
"""

import argparse
import hashlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.conformance.program import Build, built, ran
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import ScheduleIllegal
from presk_db.kernels.ir import Kernel
from presk_db.kernels.launches import Buffer, Call, FunctionInfo, Launch, LaunchOrder, View
from presk_db.kernels.legality import check_schedule, is_tileable
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.schedule import Schedule, Split, Tile
from presk_db.kernels.tree import Nest, nests
from presk_db.native.compiled import compiled_executor
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import STORAGE, canonical
from presk_db.recording.events import (
    CallEntered,
    CallLeft,
    Event,
    Launched,
    ObservedTensor,
    Recording,
    WeightsReference,
)
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from tests.kernels.primitive_kernels import gradient_cases, primitive_cases, primitive_kernels
from tests.kernels.random_kernels import random_arguments, random_kernel

Array = np.ndarray[Any, np.dtype[Any]]

WIDTHS = (1, 4, 5, 64)
CUTS = ((1, 1), (1, 3), (5, 7))
"""Iterations of a split's last loop that are a unit, and into how many pieces the units are cut."""

FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno")
IN_A_PROGRAM = 150  # kernels


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and the arrays after the NumPy run."""

    name: str
    kernel: Kernel
    arrays: tuple[Array, ...]
    scalars: Mapping[str, float | int]
    expected: tuple[Array, ...]


def case_of(name: str, kernel: Kernel, seed: str) -> Case:
    """The case of a kernel on arguments that the seed gives."""
    arrays, scalars = random_arguments(random.Random(f"{seed} {kernel.digest}"), kernel)
    expected = [a.copy() for a in arrays]
    run_kernel(kernel, expected, scalars)
    return Case(name, kernel, tuple(arrays), scalars, tuple(expected))


@dataclass(frozen=True)
class Way:
    """A way to run a kernel: a schedule, its units cut into so many pieces."""

    name: str
    schedule: Schedule
    pieces: int = 1


def ways(kernel: Kernel) -> Iterator[Way]:
    """Every way in which this conformance runs the kernel."""
    yield Way("scalar", Schedule())
    yield Way("default", default_schedule(kernel))
    yield Way("default in three pieces", default_schedule(kernel), 3)
    for depth, loops in enumerate(legal_splits(kernel), 1):
        for grain, pieces in CUTS:
            split = Schedule(splits=tuple(Split(chain, grain) for chain in loops))
            yield Way(f"{depth} loops split, grain {grain}, {pieces} pieces", split, pieces)
    tiled = [n.loop.var for n in nests(live_tree(kernel)) if is_tileable(n)]
    for width in WIDTHS if tiled else ():
        yield Way(f"lanes of {width}", Schedule(tiles=tuple(Tile(v, width) for v in tiled)))


def legal_splits(kernel: Kernel) -> list[list[tuple[str, ...]]]:
    """The loops that a split may divide, of each nest at the top: the outermost alone, the two outermost, and so on."""
    chains = [_chain(node) for node in live_tree(kernel) if isinstance(node, Nest)]
    found: list[list[tuple[str, ...]]] = []
    for depth in range(1, max(map(len, chains), default=0) + 1):
        loops = [chain[:depth] for chain in chains]
        try:
            check_schedule(kernel, Schedule(splits=tuple(Split(chain, 1) for chain in loops)))
        except ScheduleIllegal:
            break
        found.append(loops)
    return found


def _chain(nest: Nest) -> tuple[str, ...]:
    """The loops from this one inwards, each the first in the one before."""
    inner = next((node for node in nest.body if isinstance(node, Nest)), None)
    return (nest.loop.var, *(_chain(inner) if inner is not None else ()))


def differing(case: Case, found: Sequence[Array]) -> list[str]:
    """The arrays whose observed bits are not the expected ones."""
    triples = zip(case.kernel.arrays, case.expected, found, strict=True)
    return [p.name for p, x, y in triples if canonical(x, p.type).tobytes() != canonical(y, p.type).tobytes()]


def compiled_cases(cases: Sequence[Case]) -> Iterator[tuple[str, Case, list[str]]]:
    """(way, case, arrays that differ) of each case in each schedule, through cffi."""
    chosen: dict[tuple[str, int], dict[str, Schedule]] = {}
    for case in cases:
        for way in ways(case.kernel):
            chosen.setdefault((way.name, way.pieces), {})[case.kernel.digest] = way.schedule
    for (name, pieces), by_digest in chosen.items():
        there = [c for c in cases if c.kernel.digest in by_digest]
        execute = compiled_executor([c.kernel for c in there], by_digest, FLAGS, pieces)
        for case in there:
            found = [a.copy() for a in case.arrays]
            execute(case.kernel, found, case.scalars)
            yield f"cffi, {name}", case, differing(case, found)


def fits_a_program(case: Case) -> bool:
    """Whether an emitted program can hold the kernel: real and integer inputs with an axis, outputs written whole."""
    kernel = case.kernel
    if case.scalars or any(p.mode == "in" and (p.type == "bool" or p.shape == ()) for p in kernel.arrays):
        return False  # a program refuses an input of shape () that is not finite
    other = [a if p.mode == "in" else np.full_like(a, 1) for p, a in zip(kernel.arrays, case.arrays, strict=True)]
    zeros = [a if p.mode == "in" else np.zeros_like(a) for p, a in zip(kernel.arrays, case.arrays, strict=True)]
    run_kernel(kernel, other, {})
    run_kernel(kernel, zeros, {})
    return not differing(case, other) and not differing(case, zeros)


def emitted_cases(cases: Sequence[Case], folder: Path, build: Build) -> Iterator[tuple[str, Case, list[str]]]:
    """(way, case, arrays that differ) of each case that a program can hold, through emitted programs."""
    there = [c for c in cases if fits_a_program(c)]
    engine = open_database(str(folder / "presk.db"), create=True)
    for number, start in enumerate(range(0, len(there), IN_A_PROGRAM)):
        part = there[start : start + IN_A_PROGRAM]
        stored = write_recording(engine, recording_of(part, f"kernels{number}"))
        out = folder / f"kernels{number}"
        with emission_reader(engine, stored.id) as reader:
            emit_to(reader, stored, generator("c_program"), out, {})
        ran(built(out, build), None, out / "conformance/inputs.safetensors", folder / "outputs.safetensors")
        outputs = SafetensorsFile(str(folder / "outputs.safetensors"))
        for index, case in enumerate(part):
            found = list(case.expected)
            for at, p in enumerate(case.kernel.arrays):
                if p.mode == "out":
                    found[at] = _stored(outputs.read(f"k{index}.{p.name}"), p.type).reshape(-1)
            yield "program", case, differing(case, found)
    engine.dispose()


def recording_of(cases: Sequence[Case], name: str) -> Recording:
    """A recording that launches each kernel once, on inputs and outputs of its own."""
    buffers: list[Buffer] = []
    launches, tensors = [], []
    for index, case in enumerate(cases):
        views = []
        for p, before, after in zip(case.kernel.arrays, case.arrays, case.expected, strict=True):
            role: Literal["input", "output"] = "input" if p.mode == "in" else "output"
            buffer = Buffer(len(buffers), role, f"k{index}.{p.name}", p.type, p.shape, p.limit)
            data = canonical(before if p.mode == "in" else after, p.type).reshape(p.shape)
            digest = hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()
            buffers.append(buffer)
            views.append(View(buffer.id, 0, p.shape))
            tensors.append(ObservedTensor(role, buffer.id, buffer.name, p.type, p.shape, digest, data))
        launches.append(Launch(case.kernel, 0, f"k{index}", "", tuple(views)))
    functions, calls = (FunctionInfo("kernels", ""),), (Call(0, None, 0, "kernels"),)
    order = LaunchOrder(functions, calls, (), tuple(buffers), (), tuple(launches))
    tensors.sort(key=lambda t: (t.role != "input", t.buffer))
    events: tuple[Event, ...] = (CallEntered(0), *(Launched(n, 0) for n in range(len(launches))), CallLeft(0))
    none = WeightsReference("none", None, None, None)
    return Recording(name, "kernels", "kernels", "{}", "", order, events, tuple(tensors), none, 0)


def _stored(values: Array, type_: str) -> Array:
    """Values that were read as reals or integers, in their storage dtype again."""
    if type_ == "bf16":
        return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype(STORAGE[type_], copy=False)


def all_cases(quick: bool, randoms: int, seed: int) -> list[Case]:
    """The cases: every kernel of a primitive and of its gradient at every shape (every seventh if quick), random kernels."""
    named = list(primitive_kernels([*primitive_cases(), *gradient_cases()]).values())
    cases = [case_of(name, kernel, str(seed)) for name, kernel in named[:: 7 if quick else 1]]
    for number in range(randoms):
        kernel = random_kernel(random.Random(f"kernel {seed} {number}"))
        cases.append(case_of(f"random {number}", kernel, str(seed)))
    return cases


def conformance(cases: Sequence[Case], build: Build) -> tuple[Counter[str], list[str]]:
    """The number of cases in each way, and one line for each that differs."""
    counts: Counter[str] = Counter()
    bad: list[str] = []
    with tempfile.TemporaryDirectory(prefix="presk-kernels-") as folder:
        for results in (compiled_cases(cases), emitted_cases(cases, Path(folder), build)):
            for way, case, differ in results:
                counts[way] += 1
                if differ:
                    bad.append(f"{case.name}, {way}: {', '.join(differ)} differ\n{case.kernel.text}")
    return counts, bad


def main(arguments: Sequence[str]) -> int:
    """Prints the count of cases; 1 if one differs."""
    parser = argparse.ArgumentParser(description="Kernel conformance.")
    parser.add_argument("--quick", action="store_true", help="every seventh kernel of a primitive")
    parser.add_argument("--random", type=int, default=300, help="random kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cflags", default="-O2")
    options = parser.parse_args(arguments)
    cases = all_cases(options.quick, options.random, options.seed)
    counts, bad = conformance(cases, Build(options.cc, options.cflags))
    for way, count in counts.items():
        print(f"{count:6} {way}")
    print(*bad, sep="\n", end="\n" if bad else "")
    kernels = len({c.kernel.digest for c in cases})
    print(f"{counts.total()} cases of {kernels} kernels: {len(bad) or 'none'} differ from the NumPy run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
