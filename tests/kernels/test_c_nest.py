"""c_nest: how nests read, that compilers have nothing to say, and that they compute what NumPy computes."""

import ctypes
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from presk_db.emit.render import rendered
from presk_db.errors import KernelNameBad
from presk_db.kernels.c_nest import c_nest, nest_prototype
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import Array, ExtentParameter, Kernel
from presk_db.kernels.parser import parse
from presk_db.native.execute import run_kernel
from presk_db.resources import resource_folder
from tests.kernels.random_kernels import random_arguments, random_kernel
from tests.kernels.test_random_kernels import differing

ROWS = """in a0: f32[5,70]
out a1: f32[5]
out a2: i64[5]
par i0 < 5
  v0 = acc.f32 lanes
  v1 = acc.f32 argmax
  seq i1 < 70
    v2 = load a0[i0,i1]
    fold v0 v2
    fold v1 v2
  end
  store a1[i0] v0
  store a2[i0] v1
end
"""

ROWS_IN_C = """void rows(const float a0[restrict 5][70], float a1[restrict 5], int64_t a2[restrict 5])
{
#pragma scop
    for (ptrdiff_t i0 = 0; i0 < 5; i0++) {
        float v0_lanes[32];
        for (ptrdiff_t v0_lane = 0; v0_lane < 32; v0_lane++) {
            v0_lanes[v0_lane] = 0;
        }
        int64_t v1 = 0;
        int32_t v1_key = INT32_MIN;
        for (ptrdiff_t i1_0 = 0; i1_0 < 2; i1_0++) {
            for (ptrdiff_t i1_1 = 0; i1_1 < 32; i1_1++) {
                const float v2 = a0[i0][32 * i1_0 + i1_1];
                v0_lanes[i1_1] += v2;
                {
                    const int32_t v1_new = scop_key_f32(v2);
                    const int v1_is_more = v1_new > v1_key;
                    v1_key = v1_is_more ? v1_new : v1_key;
                    v1 = v1_is_more ? 32 * i1_0 + i1_1 : v1;
                }
            }
        }
        for (ptrdiff_t i1_1 = 0; i1_1 < 6; i1_1++) {
            const float v2 = a0[i0][i1_1 + 64];
            v0_lanes[i1_1] += v2;
            {
                const int32_t v1_new = scop_key_f32(v2);
                const int v1_is_more = v1_new > v1_key;
                v1_key = v1_is_more ? v1_new : v1_key;
                v1 = v1_is_more ? i1_1 + 64 : v1;
            }
        }
"""


def test_an_extent_that_shrinks_from_row_to_row() -> None:
    """Polly derives no bound from `i1 < 4 - i0`."""
    text = """out a0: f32[5,5]
v0 = const.f32 0x0.0p+0
par i0 < 5
  par i1 < -1*i0+4
    store a0[i0,-1*i1+4] v0
  end
end
"""
    lines = c_nest(parse(text), "rest")
    assert "        for (ptrdiff_t i1 = 0; i0 + i1 < 4; i1++) {" in lines
    assert "            a0[i0][4 - i1] = v0;" in lines


def test_lanes_are_affine_and_an_argmax_selects() -> None:
    text = "\n".join(c_nest(parse(ROWS), "rows"))
    assert text.startswith(ROWS_IN_C)
    assert text.count("if (") == 0
    assert text.rstrip().endswith("#pragma endscop\n}")


def test_a_maximum_compares_keys_by_a_function() -> None:
    text = "\n".join(c_nest(parse(ROWS.replace("argmax", "max").replace("i64[5]", "f32[5]")), "rows"))
    assert "v1_key = scop_larger_i32(v1_key, scop_key_f32(v2));" in text
    assert "const float v1 = scop_f32_from_key(v1_key);" in text


def test_lanes_of_a_run_time_extent_are_guarded_by_an_affine_condition() -> None:
    kernel = parse(ROWS.replace("par i0", "extent n0 <= 70\npar i0", 1).replace("seq i1 < 70", "seq i1 < n0"))
    check_kernel(kernel)
    text = "\n".join(c_nest(kernel, "rows"))
    assert "for (ptrdiff_t i1_0 = 0; 32 * i1_0 < n0; i1_0++) {" in text
    assert "if (32 * i1_0 + i1_1 < n0) {" in text


def test_a_large_local_is_not_on_the_stack() -> None:
    kernel = (
        "out a0: f32[1]\nlocal l0: f32[N]\nv0 = const.f32 0x0.0p+0\nstore l0[3] v0\nv1 = load l0[3]\nstore a0[0] v1\n"
    )
    for size, static in ((4096, False), (4097, True)):
        text = "\n".join(c_nest(parse(kernel.replace("N", str(size))), "k"))
        assert ("    static float l0[4097];\n    const" in text or "static float l0" in text) == static
        assert text.count(f"float l0[{size}];") == 1


def test_names_of_c_are_refused() -> None:
    with pytest.raises(KernelNameBad, match="E2002"):
        c_nest(parse("out double: f32[1]\nv0 = const.f32 0x0.0p+0\nstore double[0] v0\n"), "k")


def library(kernels: Sequence[Kernel], folder: Path, compiler: str) -> ctypes.CDLL:
    """The nests as a library, beside the functions that they call."""
    scop = resource_folder("generators") / "scop"
    (folder / "scop.h").write_text(rendered(scop, "scop.h.mako", {}))
    (folder / "scop.c").write_text(rendered(scop, "scop.c.mako", {}))
    nests = [line for n, k in enumerate(kernels) for line in c_nest(k, f"k{n}")]
    prototypes = [line for n, k in enumerate(kernels) for line in nest_prototype(k, f"k{n}")]
    head = ['#include "scop.h"', '#pragma GCC diagnostic ignored "-Wunknown-pragmas"', *prototypes]
    (folder / "nests.c").write_text("\n".join([*head, *nests]) + "\n")
    runtime = resource_folder("runtime_c")
    common = [compiler, "-std=c11", "-O1", "-ffp-contract=off", "-fPIC", f"-I{runtime}", f"-I{folder}"]
    for source in (folder / "nests.c", folder / "scop.c", *sorted(runtime.glob("presk_math*.c"))):
        warnings = ["-Wall", "-Werror"] if source.parent == folder else []
        target = folder / f"{source.stem}.o"
        subprocess.run([*common, *warnings, "-c", str(source), "-o", str(target)], check=True)
    objects = [str(p) for p in sorted(folder.glob("*.o"))]
    subprocess.run([compiler, "-shared", "-o", str(folder / "nests.so"), *objects, "-lm"], check=True)
    return ctypes.CDLL(str(folder / "nests.so"))


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_random_nests_are_numpy(tmp_path: Path, compiler: str) -> None:
    r = random.Random(20 + len(compiler))
    kernels = [random_kernel(r) for _ in range(60)]
    for kernel in kernels:
        check_kernel(kernel)
    nests = library(kernels, tmp_path, compiler)
    for number, kernel in enumerate(kernels):
        arrays, scalars = random_arguments(r, kernel)
        expected, found = [a.copy() for a in arrays], [a.copy() for a in arrays]
        run_kernel(kernel, expected, scalars)
        memory = iter(found)
        given: list[object] = []
        for p in kernel.parameters:
            if isinstance(p, Array):
                given.append(ctypes.c_void_p(next(memory).ctypes.data))
            else:
                integer = isinstance(p, ExtentParameter)
                given.append(ctypes.c_ssize_t(int(scalars[p.name])) if integer else ctypes.c_double(scalars[p.name]))
        nests[f"k{number}"](*given)
        assert not differing(kernel, expected, found), kernel.text
    text = (tmp_path / "nests.c").read_text()
    assert not re.search(r"\bpresk_|\*restrict|\bomp\b", text)
