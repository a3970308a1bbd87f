"""Compares the runtime's C functions and their NumPy twins with the exact values, and prints a table.

`python -m presk_db.conformance.check_math [--functions exp,tanh] [--types f32,f64] [--twin-stride 1] [--random N]`

f32: all 2**32 inputs. The f64 C library decides nearly all of them (its value with its error bound rounds to one
f32); the few others go to MPFR. The NumPy twin is compared with the C function on blocks of 2**20 inputs, every block
or, with --twin-stride n, each n-th. f64: random inputs, half of them over all bit patterns and half over the magnitudes
where the function bends, and the stored hard inputs, against MPFR; the slow paths alone on the hard inputs and on
random ones of their domain.
The exit status is 1 if anything is wrong.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from presk_db.conformance.math_library import MathLibrary, built_library
from presk_db.conformance.math_reference import NAMES, exact
from presk_db.native import wide_functions
from presk_db.native.functions import function

FloatArray = NDArray[Any]
BLOCK = 1 << 24
ALL = range(0, 1 << 32, BLOCK)
TWIN_BLOCK = 1 << 20
TYPES = ("f32", "f64")
SLOW_INPUTS = 10_000  # for the C slow path alone; a tenth for the one in Python
SLOW_DOMAINS = {  # where the fast paths pass an argument on
    "exp": (-745.0, 709.0),
    "expm1": (-49.0, 709.0),
    "log": (1e-320, 1e300),
    "log1p": (-0.999, 1e300),
    "tanh": (-22.0, 22.0),
    "sin": (-1e15, 1e15),
    "cos": (-1e300, 1e300),
    "erf": (-6.0, 6.0),
    "sigmoid": (-745.0, 50.0),
    "silu": (-750.0, 50.0),
    "gelu": (-38.5, 10.0),
}
VECTORS = Path(__file__).resolve().parents[2] / "fixtures" / "vectors"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    what: str
    inputs: int
    wrong: int
    undecided: int
    seconds: float
    example: str = ""

    def text(self) -> str:
        return (
            f"{self.name:8} {self.what:14} {self.inputs:>11} {self.wrong:>6} {self.undecided:>8} {self.seconds:>8.1f}"
            f"  {self.example}"
        )


HEAD = f"{'function':8} {'what':14} {'inputs':>11} {'wrong':>6} {'to MPFR':>8} {'seconds':>8}"


def differences(a: FloatArray, b: FloatArray) -> NDArray[np.intp]:
    """Returns the places where a and b have other bits; NaN equals NaN."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    same = (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
    return np.flatnonzero(~same)


def difference_text(found: FloatArray, expected: FloatArray, x: FloatArray) -> str:
    """Returns "" if found has the shape, type and bits of expected (NaN equals NaN), else what differs, at which x."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{found.shape}, not {expected.dtype}{expected.shape}"
    a, b = np.ascontiguousarray(found).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    bad = differences(a, b)
    flat = x.reshape(-1)
    examples = [f"x={float(flat[i]).hex()}: {float(a[i]).hex()}, not {float(b[i]).hex()}" for i in bad[:3]]
    return f"{bad.size} of {a.size} differ: {'; '.join(examples)}" if bad.size else ""


def exact_array(name: str, x: FloatArray, type: str) -> FloatArray:
    """Returns the correctly rounded values, by MPFR."""
    return np.array([exact(name, float(v), type) for v in x], x.dtype)


def check_f32(library: MathLibrary, name: str, vectors: Path | None, blocks: range = ALL) -> Row:
    """The C function on all inputs of the blocks of 2**24; with `vectors`, NAME.bin of the undecided is written there."""
    start = time.monotonic()
    wrong, examples, undecided = 0, [], []
    for low in blocks:
        count, some, open_inputs = library.check_f32(name, low, BLOCK)
        wrong += count
        examples += [float(x).hex() for x in some[:2].view(np.float32)]
        undecided.append(open_inputs)
    x = np.concatenate(undecided).view(np.float32)
    expected = exact_array(name, x, "f32")
    bad = differences(library.f32(name, x), expected)
    examples += [float(v).hex() for v in x[bad][:2]]
    if vectors is not None:
        pairs = np.stack([x.view(np.uint32), expected.view(np.uint32)], axis=1)
        (vectors / f"{name}.bin").write_bytes(pairs.astype("<u4").tobytes())
    return Row(
        name, "f32 C", BLOCK * len(blocks), wrong + bad.size, x.size, time.monotonic() - start, " ".join(examples[:4])
    )


def check_f32_twin(library: MathLibrary, name: str, stride: int) -> Row:
    """The NumPy twin against the C function, on each stride-th block of 2**20 inputs."""
    start = time.monotonic()
    twin = function(name, "f32")
    wrong, inputs, example = 0, 0, ""
    for low in range(0, 1 << 32, TWIN_BLOCK * stride):
        x = np.arange(low, low + TWIN_BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        bad = differences(twin(x), library.f32(name, x))
        wrong, inputs = wrong + bad.size, inputs + x.size
        example = example or (float(x[bad[0]]).hex() if bad.size else "")
    return Row(name, "f32 NumPy=C", inputs, wrong, 0, time.monotonic() - start, example)


def random_inputs(name: str, count: int) -> NDArray[np.float64]:
    """Returns f64 inputs: half of them any bits, half of magnitudes 2**-70 … 2**10 (for log, near 1 as well)."""
    generator = np.random.default_rng([2, *name.encode()])
    half = count // 2
    any_bits = generator.integers(0, 1 << 64, half, dtype=np.uint64).view(np.float64)
    bent = np.ldexp(generator.uniform(1, 2, count - half), generator.integers(-70, 10, count - half))
    bent[::2] = np.ldexp(generator.uniform(1, 2, bent[::2].size), generator.integers(-6, 6, bent[::2].size))
    bent *= np.where(generator.integers(0, 2, bent.size) == 0, 1.0, -1.0)
    if name == "log":
        bent = np.where(np.abs(bent) < 0.5, 1.0 + bent, np.abs(bent))
        any_bits = np.abs(any_bits)
    return np.concatenate([any_bits, bent])


def slow_inputs(name: str, count: int) -> NDArray[np.float64]:
    """Returns inputs of the slow path: half of them uniform over its domain, half of smaller magnitudes."""
    generator = np.random.default_rng([8, *name.encode()])
    x = generator.uniform(*SLOW_DOMAINS[name], count)
    x[: count // 2] *= 2.0 ** generator.uniform(-60, 0, count // 2)
    kept: NDArray[np.float64] = x[x != 0]
    return kept


def slow_numpy(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Python slow path of each element."""
    slow = wide_functions.FUNCTIONS[name]
    return np.fromiter(map(slow, x.tolist()), np.float64, x.size)


def hard_vectors(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the stored hard f64 inputs and their values."""
    pairs = np.frombuffer((VECTORS / f"{name}_f64.bin").read_bytes(), "<f8").astype(np.float64).reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def check_f64(library: MathLibrary, name: str, count: int) -> list[Row]:
    """The C function and its NumPy twin on random and hard inputs, and the slow paths alone."""
    rows = []
    x = random_inputs(name, count)
    start = time.monotonic()
    expected = exact_array(name, x, "f64")
    seconds = time.monotonic() - start
    hard_x, hard_y = hard_vectors(name)
    some = slow_inputs(name, min(count, SLOW_INPUTS))
    slow_x, slow_y = np.concatenate([hard_x, some]), np.concatenate([hard_y, exact_array(name, some, "f64")])
    few = hard_x.size + some.size // 10
    calls: dict[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], FloatArray, FloatArray]] = {
        "f64 C": (partial(library.f64, name), x, expected),
        "f64 NumPy": (function(name, "f64"), x, expected),
        "f64 C hard": (partial(library.f64, name), hard_x, hard_y),
        "f64 NumPy hard": (function(name, "f64"), hard_x, hard_y),
        "f64 C slow": (partial(library.f64, name, slow=True), slow_x, slow_y),
        "f64 NumPy slow": (partial(slow_numpy, name), slow_x[:few], slow_y[:few]),
    }
    for what, (call, inputs, values) in calls.items():
        start = time.monotonic()
        bad = differences(call(inputs), values)
        example = float(inputs[bad[0]]).hex() if bad.size else ""
        reference = inputs.size if what == "f64 C" else 0
        spent = time.monotonic() - start + (seconds if reference else 0.0)
        rows.append(Row(name, what, inputs.size, bad.size, reference, spent, example))
    return rows


def _names(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A type for argparse: names separated by commas, each one of the choices."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(choices)}")
        return found

    return names


def main(arguments: list[str]) -> int:
    """Runs the checks asked for; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--functions", type=_names(NAMES), default=",".join(NAMES))
    parser.add_argument("--types", type=_names(TYPES), default=",".join(TYPES))
    parser.add_argument("--twin-stride", type=int, default=1, help="0: leave the f32 twins out")
    parser.add_argument("--random", type=int, default=1_000_000)
    parser.add_argument("--vectors", type=Path, help="folder to write the undecided f32 inputs to")
    parser.add_argument("--compiler", default="cc")
    options = parser.parse_args(arguments)
    wrong = 0
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        library = MathLibrary(built_library(Path(folder), options.compiler, ("-O3", "-march=native")))
        for name in options.functions:
            rows = []
            if "f32" in options.types:
                rows.append(check_f32(library, name, options.vectors))
                print(rows[-1].text(), flush=True)
                if options.twin_stride:
                    rows.append(check_f32_twin(library, name, options.twin_stride))
                    print(rows[-1].text(), flush=True)
            if "f64" in options.types:
                new = check_f64(library, name, options.random)
                print("\n".join(row.text() for row in new), flush=True)
                rows += new
            wrong += sum(row.wrong for row in rows)
    print("no result is wrong" if wrong == 0 else f"{wrong} results are wrong")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
