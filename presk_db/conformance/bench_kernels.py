"""Prints the speed of a model's kernels: `python -m presk_db.conformance.bench_kernels [--help]`.

For products GFLOP/s and the share of the multiply-then-add peak that is measured beside them; for all kernels GB/s and
the share of the roofline: the longest of copying as many bytes, the functions' own time, and the arithmetic at peak,
over the kernel's time. Times are one thread's own, medians of runs that alternate with the peak and the copy.

Below half of the roofline, and why: normalizations of short rows, because a row is read three times and its 32 lane sums
are carried through memory (a long row approaches the copy); products without -march, because SSE2's multiply overwrites
an operand, so that a third of the instructions copy registers, and functions, because gcc does not vectorize their
masks of 64 bits there; few rows times a small bf16 matrix, because weights that lie in a cache arrive faster than two
k of a pair are widened (from memory they arrive at its speed).
"""

import argparse
import json
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from presk_db.conformance.bench_source import FUNCTIONS, bench_source
from presk_db.errors import BuildFailed, ProgramFailed
from presk_db.kernels.ir import Acc, Fold, Kernel, Load, Loop, Op, Store
from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.products import product_of, sizes_of
from presk_db.kernels.ranges import extent_bounds
from presk_db.kernels.schedule import Schedule
from presk_db.kernels.tree import Nest, tree
from presk_db.kernels.types import SIZES
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import realization_of_type
from presk_db.models.families import model_from_config
from presk_db.resources import resource_folder

STRICT = ("-std=c11", "-ffp-contract=off", "-fno-math-errno")
SETS = ("-O2 -march=native", "-O3 -march=native", "-O2")


@dataclass(frozen=True)
class Row:
    """One kernel's measurement: seconds, those of copying its bytes, and the peak in operations a second."""

    label: str
    shape: str
    kernel: Kernel
    seconds: float
    copy: float
    peak: float
    functions: Mapping[str, float]

    @property
    def flops(self) -> float:
        """Two for each term of a product, none for other kernels."""
        product = product_of(self.kernel)
        if product is None:
            return 0.0
        s = sizes_of(product, self.kernel)
        return 2.0 * s.batch * s.rows * s.columns * s.k

    @property
    def roofline(self) -> float:
        """The least seconds that the kernel could take: all its bytes, functions, and sums of products.

        Functions and products add up, since both are arithmetic; copying can happen beside them.
        """
        counts = operation_counts(self.kernel)
        functions = sum(n * self.functions.get(name, 0.0) for name, n in counts.items())
        return max(self.copy, functions + self.flops / self.peak)


def operation_counts(kernel: Kernel) -> Counter[str]:
    """How often each function, division and square root runs, by `name.type`."""
    bounds, counts = extent_bounds(kernel), Counter[str]()

    def visit(nodes: Sequence[object], times: int) -> None:
        for node in nodes:
            if isinstance(node, Nest):
                visit(node.body, times * bounds[node.loop.var])
            elif isinstance(node, Op) and node.op in FUNCTIONS:
                counts[f"{node.op}.{node.type}"] += times

    visit(tree(kernel), 1)
    return counts


def bytes_of(kernel: Kernel) -> int:
    """The bytes of all arrays, those gathered from by an integer counted as what is read."""
    written = sum(prod(a.shape) * SIZES[a.type] for a in kernel.arrays if a.mode == "out")
    bounds, total = extent_bounds(kernel), written
    loops: list[str] = []
    reads: Counter[str] = Counter()
    for s in kernel.statements:
        if isinstance(s, Loop):
            loops.append(s.var)
        elif isinstance(s, Load):
            reads[s.array] += prod(bounds[v] for v in loops)
        elif not isinstance(s, (Acc, Fold, Op, Store)) and type(s).__name__ == "End":
            loops.pop()
    for a in kernel.arrays:
        if a.mode == "in":
            total += min(prod(a.shape), reads[a.name]) * SIZES[a.type]
    return total


def measure(
    kernels: Sequence[tuple[str, Kernel]],
    schedules: Mapping[str, Schedule],
    compiler: str,
    flags: str,
    seconds: float = 0.4,
) -> list[Row]:
    """Builds and runs the benchmark of these labelled kernels.

    Raises:
        BuildFailed (E7001), ProgramFailed (E7002): the compiler refused it, or it did not run.
    """
    plain = [k for _, k in kernels]
    source = bench_source(plain, schedules, [bytes_of(k) for k in plain], seconds)
    runtime = resource_folder("runtime_c")
    with tempfile.TemporaryDirectory() as folder:
        file, program = Path(folder) / "bench.c", Path(folder) / "bench"
        file.write_text(source)
        needed = [str(p) for p in sorted(runtime.glob("presk_rt*.c")) + sorted(runtime.glob("presk_math*.c"))]
        command = [*shlex.split(compiler), *STRICT, *shlex.split(flags), f"-I{runtime}", "-o", str(program), str(file)]
        built = subprocess.run([*command, *needed, "-lm"], capture_output=True, text=True, check=False)
        if built.returncode:
            raise BuildFailed(built.stderr.strip()[:400], compiler)
        ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ProgramFailed(f"the benchmark ended with status {ran.returncode}", compiler)
    functions: dict[str, float] = {}
    rows: list[Row] = []
    for line in ran.stdout.splitlines():
        kind, *fields = line.split()
        if kind == "function":
            functions[fields[0]] = float(fields[1])
        else:
            label, kernel = kernels[int(fields[0])]
            t, copy, peak = (float(f) for f in fields[1:])
            rows.append(Row(label, _shape(kernel), kernel, t, copy, peak, functions))
    return rows


def _shape(kernel: Kernel) -> str:
    product = product_of(kernel)
    if product is None:
        return "x".join(map(str, max((a.shape for a in kernel.arrays if a.mode == "out"), key=prod)))
    s = sizes_of(product, kernel)
    return (f"{s.batch}:" if s.batch > 1 else "") + f"{s.rows}x{s.k}x{s.columns}"


def labelled_kernels(order: LaunchOrder) -> list[tuple[str, Kernel]]:
    """Each distinct kernel with the label of its first launch."""
    labels: dict[str, str] = {}
    for launch in order.launches:
        labels.setdefault(launch.kernel.digest, launch.label)
    return [(labels[k.digest], k) for k in order.kernels()]


def weight_kernels(order: LaunchOrder) -> frozenset[str]:
    """The digests of kernels whose right factor is a weight in every launch, so that it can be packed at load."""
    packed: dict[str, bool] = {}
    for launch in order.launches:
        product = product_of(launch.kernel)
        source = None if product is None else product.right.source
        names = [a.name for a in launch.kernel.arrays]
        good = source is not None and (
            order.buffers[launch.arguments[names.index(source.array)].buffer].role == "weight"
        )
        packed[launch.kernel.digest] = packed.get(launch.kernel.digest, True) and good
    return frozenset(d for d, good in packed.items() if good)


def table(rows: Sequence[Row], compiler: str, flags: str) -> str:
    """The measurements as text, a line a kernel."""
    head = f"{'kernel':28} {'shape':>18} {'ms':>9} {'GFLOP/s':>8} {'of peak':>7} {'GB/s':>6} {'of roof':>7}"
    lines = [f"{compiler} {flags}: peak {max((r.peak for r in rows), default=0) / 1e9:.1f} GFLOP/s", head]
    for r in rows:
        rate = f"{r.flops / r.seconds / 1e9:8.1f} {r.flops / r.seconds / r.peak:7.2f}" if r.flops else " " * 16
        share = r.roofline / r.seconds
        lines.append(
            f"{r.label[:28]:28} {r.shape:>18} {r.seconds * 1e3:9.4f} {rate} {bytes_of(r.kernel) / r.seconds / 1e9:6.1f}"
            f" {share:7.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures a model's forward pass by compilers and flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="a Hugging Face config.json")
    parser.add_argument("--entry", default="forward")
    parser.add_argument("--type", default="f32", choices=("f32", "f64", "bf16"))
    parser.add_argument("--dims", default="B=1", help="such as B=1,T=256")
    parser.add_argument("--compilers", default="gcc,clang-19")
    parser.add_argument("--flags", action="append", help=f"one set; may be repeated (default: {', '.join(SETS)})")
    parser.add_argument("--only", default="", help="kernels whose label holds this")
    parser.add_argument("--seconds", type=float, default=0.4, help="for each kernel")
    given = parser.parse_args()
    model = model_from_config(json.loads(given.config.read_text()))
    dims = {n: int(v) for n, v in (part.split("=") for part in given.dims.split(","))}
    order = launch_order(model.graph(given.entry, model.dimensions(dims, given.entry)), realization_of_type(given.type))
    packed = weight_kernels(order)
    kernels = [(label, k) for label, k in labelled_kernels(order) if given.only in label]
    schedules = {k.digest: default_schedule(k, k.digest in packed) for _, k in kernels}
    for compiler in given.compilers.split(","):
        for flags in given.flags or SETS:
            print(table(measure(kernels, schedules, compiler, flags, given.seconds), compiler, flags), flush=True)


if __name__ == "__main__":
    main()
