"""Times the runtime's C functions beside the C library's, and the NumPy twins: nanoseconds an element, as a table.

`python -m presk_db.conformance.bench_math [--compilers gcc,clang-19]`. Each number is the least of many passes over
8192 inputs (normal deviates times 3; their magnitudes for log). glibc's scalar functions are called one by one; libmvec
is glibc's vectorized library (AVX2; it is not correctly rounded), where this machine has it. "limit" is what presk
promises at gcc -O3 -march=x86-64-v3; the exit status is 1 if a time with the first compiler is above it.
"""

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cffi
import numpy as np
from numpy.typing import NDArray

from presk_db.conformance.math_library import STRICT, MathLibrary, built_library
from presk_db.conformance.math_reference import NAMES
from presk_db.native.functions import function
from presk_db.resources import resource_folder

COUNT = 8192
REPEATS = 400
LIMITS = {"exp": 2.5, "tanh": 2.5, "sigmoid": 2.5, "silu": 2.5, "erf": 8.0, "gelu": 8.0}
LEVELS = {"gcc": "-O3", "cc": "-O3"}  # clang vectorizes at -O2


class VectorLibrary:
    """glibc's libmvec, or nothing where it is missing: then `seconds` is None."""

    def __init__(self, folder: Path) -> None:
        self._ffi = cffi.FFI()
        self._ffi.cdef("double presk_libmvec_seconds(const char *name, const float *x, float *y, long n, int repeats);")
        path = folder / "libmvec_bench.so"
        source = resource_folder("runtime_c") / "check" / "bench_libmvec.c"
        command = ["gcc", *STRICT, "-O3", "-mavx2", "-fPIC", "-shared", "-o", str(path), str(source), "-lmvec", "-lm"]
        usable = platform.machine() == "x86_64" and subprocess.run(command, capture_output=True).returncode == 0
        self._library = self._ffi.dlopen(str(path)) if usable else None

    def nanoseconds(self, name: str, x: NDArray[np.float32]) -> float | None:
        """The time an element of NAME, or None."""
        if self._library is None:
            return None
        y = np.empty_like(x)
        pointers = [self._ffi.cast("float *", self._ffi.from_buffer(array)) for array in (x, y)]
        seconds = float(self._library.presk_libmvec_seconds(name.encode(), *pointers, x.size, REPEATS))
        return None if seconds < 0 else seconds / x.size * 1e9


def inputs(name: str) -> NDArray[np.float64]:
    """Returns COUNT inputs like those of a network."""
    x = np.random.default_rng(0).standard_normal(COUNT) * 3
    return np.abs(x) if name.startswith("log") else x


def twin_nanoseconds(name: str, type: str, x: NDArray[np.floating]) -> float:
    """The least processor time an element of the NumPy twin, over 16 times the inputs."""
    call, long = function(name, type), np.tile(x, 16)
    least = float("inf")
    for _ in range(5):
        start = time.process_time()
        call(long)
        least = min(least, time.process_time() - start)
    return least / long.size * 1e9


def main(arguments: list[str]) -> int:
    """Prints the tables; returns 1 where the first compiler's code is slower than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--compilers", default="gcc")
    options = parser.parse_args(arguments)
    compilers = options.compilers.split(",")
    late = []
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        vectors = VectorLibrary(folder)
        for compiler in compilers:
            machine = "-march=x86-64-v3" if platform.machine() == "x86_64" else "-mcpu=native"
            flags = (LEVELS.get(compiler, "-O2"), machine)
            library = MathLibrary(built_library(folder, compiler, flags))
            print(f"{compiler} {' '.join(flags)}, ns an element")
            print(f"{'':8} {'f32':>6} {'limit':>6} {'glibc':>6} {'libmvec':>8} {'NumPy':>6}   "
                  f"{'f64':>6} {'glibc':>6} {'NumPy':>6}")  # fmt: skip
            for name in NAMES:
                x = inputs(name)
                single = x.astype(np.float32)
                f32, g32 = (library.seconds(name, which, single, REPEATS) / COUNT * 1e9 for which in (0, 1))
                f64, g64 = (library.seconds(name, which, x, REPEATS // 8) / COUNT * 1e9 for which in (0, 1))
                mvec, limit = vectors.nanoseconds(name, single), LIMITS.get(name)
                n32, n64 = twin_nanoseconds(name, "f32", single), twin_nanoseconds(name, "f64", x)
                single_times = f"{f32:6.2f} {limit or '-':>6} {g32:6.2f} {f'{mvec:.2f}' if mvec else '-':>8} {n32:6.1f}"
                print(f"{name:8} {single_times}   {f64:6.1f} {g64:6.1f} {n64:6.0f}", flush=True)
                if compiler == compilers[0] and limit is not None and f32 > limit:
                    late.append(name)
    if late:
        print(f"slower than promised: {', '.join(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
