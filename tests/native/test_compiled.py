"""compiled_executor: what it refuses, what it reuses, and the fma of the runtime."""

import os
import random
from pathlib import Path

import cffi
import numpy as np
import pytest

from presk_db.errors import CompilerFailed, FloatEnvironmentBad, InputBad
from presk_db.kernels.parser import parse
from presk_db.native import compiler
from presk_db.native.compiled import compiled_executor
from presk_db.native.compiler import shared_library
from presk_db.native.fma import exact_fma, fma
from presk_db.resources import resource_folder
from tests.tools import has_fma, needs

COPY = parse(
    "in a0: f32[2,3]\nout a1: f32[6]\npar i0 < 2\npar i1 < 3\nv0 = load a0[i0,i1]\nstore a1[3*i0+i1] v0\nend\nend\n"
)
QUICK = ("-std=c11", "-O0", "-ffp-contract=off")


def test_a_copy() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(6, np.float32)
    compiled_executor([COPY], flags=QUICK)(COPY, [x, y], {})
    assert y.tolist() == x.reshape(-1).tolist()


def test_arguments_are_checked_before_the_call() -> None:
    execute = compiled_executor([COPY], flags=QUICK)
    x, y = np.zeros((2, 3), np.float32), np.zeros(6, np.float32)
    for bad in ([x.astype(np.float64), y], [x.T, y], [x, y[:5]], [x]):
        with pytest.raises(InputBad):
            execute(COPY, bad, {})


def test_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerFailed, match="E4002 no-such-compiler: the C compiler does not start"):
        compiled_executor([COPY])


def test_a_compiler_that_refuses() -> None:
    with pytest.raises(CompilerFailed, match=r"E4002 .*refused the kernels"):
        compiled_executor([COPY], flags=("-std=c11", "-ffast-math"))


@pytest.mark.skipif(not has_fma(), reason="needs an x86 CPU with FMA")
def test_kernels_that_are_contracted_are_refused() -> None:
    with pytest.raises(FloatEnvironmentBad, match="E4001 compiled kernels: float products are contracted"):
        compiled_executor([COPY], flags=("-std=c11", "-O2", "-march=x86-64-v3", "-ffp-contract=fast"))


def test_a_compiler_that_rearranges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("clang-19")
    monkeypatch.setenv("CC", "clang-19 -freciprocal-math")
    with pytest.raises(FloatEnvironmentBad, match="E4001 compiled kernels: sums are rearranged"):
        compiled_executor([COPY], flags=("-std=c11", "-O2", "-ffp-contract=off"))


def test_a_library_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.tempfile, "tempdir", str(tmp_path))
    compiled_executor([COPY], flags=QUICK)
    (made,) = tmp_path.rglob("*.so")
    before = made.stat()
    compiled_executor([COPY], flags=QUICK)
    compiled_executor([COPY, COPY], flags=QUICK)
    assert [p.stat().st_mtime_ns for p in tmp_path.rglob("*.so")] == [before.st_mtime_ns]
    compiled_executor([COPY], flags=(*QUICK, "-g"))
    assert len(list(tmp_path.rglob("*.so"))) == 2
    assert not [p for p in tmp_path.rglob("*") if p.suffix not in (".so", ".o", "")]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner here")
def test_a_cache_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"presk-kernels-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"presk-kernels-{os.getuid()}").chmod(0o777)
    with pytest.raises(CompilerFailed, match="belongs to others"):
        compiled_executor([COPY])


FMA = """
#include "presk_kernel.h"
void fma_f64(double *a, const double *b, const double *c, ptrdiff_t n);
void fma_f64(double *a, const double *b, const double *c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        a[i] = presk_fma_f64_integers(a[i], b[i], c[i]);
    }
}
void fma_f32(float *a, const float *b, const float *c, ptrdiff_t n);
void fma_f32(float *a, const float *b, const float *c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        a[i] = presk_fma_f32(a[i], b[i], c[i]);
    }
}
"""


def random_doubles(r: random.Random, n: int) -> np.ndarray:  # type: ignore[type-arg]
    """Doubles of every exponent, many of them near each other's, with zeros, infinities and NaNs."""
    bits = [r.getrandbits(64) for _ in range(n)]
    values = np.array(bits, np.uint64).view(np.float64)
    values[r.randrange(7) :: 7] = r.choice((0.0, -0.0, np.inf, np.nan, 5e-324, 1.7976931348623157e308))
    return values


@pytest.mark.parametrize("flags", [("-O0",), ("-O3", "-march=native")], ids=" ".join)
def test_the_runtime_fma(flags: tuple[str, ...]) -> None:
    """The integer fma, which a machine with the instruction does not call, and the one of f32."""
    ffi = cffi.FFI()
    ffi.cdef(
        "void fma_f64(double *, double *, double *, ptrdiff_t); void fma_f32(float *, float *, float *, ptrdiff_t);"
    )
    assert (resource_folder("runtime_c") / "presk_kernel.h").is_file()
    warnings = ("-std=c11", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-Werror")
    library = ffi.dlopen(str(shared_library(FMA, (*warnings, *flags))))
    r = random.Random(1)
    n = 20_000
    a, b = random_doubles(r, n), random_doubles(r, n)
    with np.errstate(all="ignore"):
        near = -(a * b)
        c = np.where(np.array([r.random() < 0.5 for _ in range(n)]), near, random_doubles(r, n))
        c[::3] *= 2.0 ** np.array([r.randint(-110, 110) for _ in range(len(c[::3]))])
        single = [x.astype(np.float32) for x in (a * 2.0**-900, b, c)]
        single = [np.where(np.abs(x) > 1e30, x.dtype.type(1.5), x) for x in single]
    expected = np.array([exact_fma(*x) for x in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)])
    found = a.copy()
    library.fma_f64(*[ffi.cast("double *", x.ctypes.data) for x in (found, b, c)], n)
    both_nan = np.isnan(found) & np.isnan(expected)
    assert (both_nan | (found.view(np.int64) == expected.view(np.int64))).all()
    with np.errstate(all="ignore"):
        wanted = fma(*single)
    library.fma_f32(*[ffi.cast("float *", x.ctypes.data) for x in single], n)
    same = (np.isnan(single[0]) & np.isnan(wanted)) | (single[0].view(np.int32) == wanted.view(np.int32))
    assert same.all()
