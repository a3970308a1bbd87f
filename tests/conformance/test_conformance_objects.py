"""The check of objects names a tile that spills, and finds none in the tiles as they are."""

import subprocess
from pathlib import Path

import pytest

from presk_db.conformance.objects import spilling_functions
from presk_db.errors import BuildFailed
from presk_db.resources import resource_folder
from tests.tools import needs


@pytest.fixture(autouse=True)
def _objdump() -> None:
    needs("objdump", "binutils")


USE = """
#include "presk_kernel.h"
void use(ptrdiff_t rows, const float *a, const float *b, float *c, const double *x, const double *y, double *z,
         const presk_bf16 *h)
{
    presk_tile_f32(rows, 99, a, b, 16, c);
    presk_tile_f64(rows, 99, x, y, 8, z);
    presk_tile_bf16(rows, 99, a, h, 32, c);
}
"""

PLANTED = """
#include "presk_kernel.h"
typedef float four __attribute__((vector_size(16)));
__attribute__((noinline)) void presk_tile_planted(ptrdiff_t k, const float *a, const float *b, float *c)
{
    four sum[40];
    memcpy(sum, c, sizeof sum);
    for (ptrdiff_t i = 0; i < k; i++) {
        four x;
        memcpy(&x, b + 4 * i, sizeof x);
        _Pragma("GCC unroll 40")
        for (int r = 0; r < 40; r++) {
            sum[r] += a[40 * i + r] * x;
        }
    }
    memcpy(c, sum, sizeof sum);
}
"""


def built(folder: Path, text: str, compiler: str, flags: str) -> Path:
    """The object of a C file."""
    source, target = folder / "kernels.c", folder / "kernels.o"
    source.write_text(text)
    command = [compiler, "-std=c11", "-ffp-contract=off", *flags.split(), f"-I{resource_folder('runtime_c')}"]
    subprocess.run([*command, "-c", str(source), "-o", str(target)], check=True)
    return target


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("flags", ["-O2", "-O2 -march=native", "-O3 -march=native"])
def test_tiles_stay_in_registers(tmp_path: Path, compiler: str, flags: str) -> None:
    needs(compiler)
    assert spilling_functions(built(tmp_path, USE, compiler, flags)) == ()


@pytest.mark.parametrize("flags", ["-O2", "-O2 -march=native", "-O1 -fno-omit-frame-pointer"])
def test_a_planted_spill_is_named(tmp_path: Path, flags: str) -> None:
    assert spilling_functions(built(tmp_path, PLANTED, "gcc", flags)) == ("presk_tile_planted",)


def test_nothing_to_check_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="nothing was checked"):
        spilling_functions(built(tmp_path, "int one(void) { return 1; }\n", "gcc", "-O2"))
    (tmp_path / "text.o").write_text("no object")
    with pytest.raises(BuildFailed, match="cannot read"):
        spilling_functions(tmp_path / "text.o")
