"""PRESK_LAUNCH runs every unit once, with any number of threads and without OpenMP; kernels give the same bits."""

import os
import subprocess
from pathlib import Path

import pytest

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.legality import scratch_bytes, units
from presk_db.kernels.parser import parse
from presk_db.kernels.schedule import ProductTile, Schedule
from presk_db.resources import resource_folder
from tests.tools import needs

COUNTS = """
#include "presk_kernel.h"
#include <stdio.h>
static int runs[2000], pieces_of[2000];
static void mark(ptrdiff_t first, ptrdiff_t last, ptrdiff_t piece)
{
    for (ptrdiff_t u = first; u < last; u++) {
        runs[u]++;
        pieces_of[u] = (int)piece;
    }
}
int main(void)
{
    static const ptrdiff_t units[] = {0, 1, 2, 3, 5, 64, 1999}, most[] = {1, 2, 7, 64};
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < 4; j++) {
            memset(runs, 0, sizeof runs);
            PRESK_LAUNCH(units[i], most[j], mark(first, last, piece));
            for (ptrdiff_t u = 0; u < 2000; u++) {
                if (runs[u] != (u < units[i]) || (u < units[i] && pieces_of[u] >= presk_pieces(units[i], most[j]))) {
                    printf("unit %td of %td ran %d times\\n", u, units[i], runs[u]);
                    return 1;
                }
            }
        }
    }
    printf("%td\\n", presk_pieces(64, 64));
    return 0;
}
"""

KERNEL = """in a0: f32[50,70]
in a1: f32[70,90]
out a2: f32[50,90]
par i0 < 50
  par i1 < 90
    v0 = acc.f32 sum
    seq i2 < 70
      v1 = load a0[i0,i2]
      v2 = load a1[i2,i1]
      v3 = mul.f32 v1 v2
      fold v0 v3
    end
    v4 = tanh.f32 v0
    store a2[i0,i1] v4
  end
end
"""

PRODUCT = """
#include "presk_kernel.h"
#include <stdio.h>
FUNCTION
int main(void)
{
    static float a[50 * 70], b[70 * 90], c[50 * 90];
    static _Alignas(64) unsigned char scratch[64 * SCRATCH];
    for (int i = 0; i < 50 * 70; i++) a[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
    for (int i = 0; i < 70 * 90; i++) b[i] = (float)(i * 53 % 103) / 103.0f - 0.5f;
    PRESK_LAUNCH(UNITS, 64, product(first, last, scratch + piece * SCRATCH, a, b, c));
    uint32_t hash = 0;
    for (int i = 0; i < 50 * 90; i++) hash = hash * 31 + presk_bits_f32(c[i]);
    printf("%u\\n", hash);
    return 0;
}
"""


def ran(folder: Path, text: str, openmp: bool, threads: int) -> str:
    """What the program prints, built with or without OpenMP."""
    runtime = resource_folder("runtime_c")
    (folder / "main.c").write_text(text)
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    sources = [str(p) for p in sorted([*runtime.glob("presk_rt*.c"), *runtime.glob("presk_math*.c")])]
    program = folder / "main"
    command = ["gcc", *flags, *(["-fopenmp"] if openmp else []), f"-I{runtime}", "-o", str(program)]
    subprocess.run([*command, str(folder / "main.c"), *sources, "-lm"], check=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _gcc() -> None:
    needs("gcc")


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_unit_runs_once(tmp_path: Path, threads: int) -> None:
    """The team is capped by the threads that OpenMP may use."""
    assert ran(tmp_path, COUNTS, True, threads) == str(threads)


def test_without_openmp_a_launch_is_one_call(tmp_path: Path) -> None:
    assert ran(tmp_path, COUNTS, False, 7) == "1"


def test_threads_keep_bits(tmp_path: Path) -> None:
    kernel = parse(KERNEL)
    schedule = Schedule(product=ProductTile(7, 2, 14))
    text = PRODUCT.replace("FUNCTION", c_function(kernel, "product", schedule))
    text = text.replace("SCRATCH", str(scratch_bytes(kernel, schedule))).replace("UNITS", str(units(kernel, schedule)))
    hashes = {ran(tmp_path, text, openmp, threads) for openmp, threads in ((False, 1), (True, 1), (True, 2), (True, 7))}
    assert len(hashes) == 1
