"""The runtime's C functions as a shared library: built with the C compiler, called through cffi."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

from presk_db.errors import CompilerFailed
from presk_db.resources import resource_folder

SOURCES = ("presk_math.c", "presk_math_slow.c", "presk_math_reduce.c", "check/check_math.c")
STRICT = ("-std=c11", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-Werror")

_DECLARATIONS = """
int presk_map_f32(const char *name, const float *x, float *y, long n);
int presk_map_f64(const char *name, const double *x, double *y, long n);
int presk_map_slow_f64(const char *name, const double *x, double *y, long n);
int presk_check_f32(const char *name, uint32_t low, uint64_t count, uint32_t *wrong, uint32_t *undecided, long room,
                    long counts[2]);
double presk_seconds(const char *name, int which, const void *x, void *y, long n, int repeats);
"""


def built_library(folder: Path, compiler: str = "cc", flags: Sequence[str] = ("-O2",)) -> Path:
    """Compiles the runtime's functions and their check into `folder`, and returns the library's path.

    Raises:
        CompilerFailed: The compiler is missing or refuses.
    """
    runtime = resource_folder("runtime_c")
    path = folder / f"presk_math_{abs(hash((compiler, tuple(flags)))):x}.so"
    command = [compiler, *STRICT, *flags, "-fPIC", "-shared", f"-I{runtime}", "-o", str(path)]
    command += [str(runtime / source) for source in SOURCES] + ["-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CompilerFailed(f"no C compiler {compiler}; install one or name another") from error
    if done.returncode != 0:
        raise CompilerFailed(f"{compiler} refused the runtime's functions: {done.stderr}")
    return path


class MathLibrary:
    """The library's calls on NumPy arrays."""

    def __init__(self, path: Path) -> None:
        self._ffi = cffi.FFI()
        self._ffi.cdef(_DECLARATIONS)
        self._library = self._ffi.dlopen(str(path))

    def _pointer(self, kind: str, array: NDArray[Any]) -> Any:
        if not array.flags["C_CONTIGUOUS"]:
            raise ValueError("the array must be contiguous")
        return self._ffi.cast(kind, self._ffi.from_buffer(array))

    def f32(self, name: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """NAME of each element, f32 (n) -> f32 (n)."""
        x = np.ascontiguousarray(x, np.float32)
        y = np.empty_like(x)
        self._checked(name, self._library.presk_map_f32, "float *", x, y)
        return y

    def f64(self, name: str, x: NDArray[np.float64], slow: bool = False) -> NDArray[np.float64]:
        """NAME of each element, f64 (n) -> f64 (n); with `slow` by the wide arithmetic alone."""
        x = np.ascontiguousarray(x, np.float64)
        y = np.empty_like(x)
        call = self._library.presk_map_slow_f64 if slow else self._library.presk_map_f64
        self._checked(name, call, "double *", x, y)
        return y

    def _checked(self, name: str, call: Any, kind: str, x: NDArray[Any], y: NDArray[Any]) -> None:
        if call(name.encode(), self._pointer(kind, x), self._pointer(kind, y), x.size) != 0:
            raise KeyError(name)

    def check_f32(self, name: str, low: int, count: int) -> tuple[int, NDArray[np.uint32], NDArray[np.uint32]]:
        """Compares NAME on the inputs of bits low … low + count − 1 with the f64 C library.

        Returns:
            How many are wrong, some of them, and all that the C library cannot decide, as bits.
        """
        room = 1 << 20
        wrong, undecided, counts = np.zeros(room, np.uint32), np.zeros(room, np.uint32), np.zeros(2, np.int64)
        status = self._library.presk_check_f32(
            name.encode(), low, count, self._pointer("uint32_t *", wrong), self._pointer("uint32_t *", undecided),
            room, self._pointer("long *", counts),
        )  # fmt: skip
        if status != 0:
            raise KeyError(name)
        if counts[1] > room:
            raise OverflowError(f"{name}: {counts[1]} undecided inputs in one call")
        return int(counts[0]), wrong[: min(int(counts[0]), room)], undecided[: int(counts[1])]

    def seconds(self, name: str, which: int, x: NDArray[Any], repeats: int) -> float:
        """The least time of one pass over x in `repeats`: which = 0 presk's function, 1 the C library's."""
        y = np.empty_like(x)
        kind = 2 * (x.dtype == np.float64) + which
        return float(self._library.presk_seconds(
            name.encode(), int(kind), self._pointer("void *", x), self._pointer("void *", y), x.size, repeats
        ))  # fmt: skip
