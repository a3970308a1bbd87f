"""c_function: how kernels read in C, and that compilers have nothing to say."""

import re
import subprocess
from pathlib import Path

import pytest

from presk_db.errors import KernelNameBad
from presk_db.kernels.c_printer import c_function
from presk_db.kernels.c_text import affine_text
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.parser import parse, parse_affine
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.schedule import Schedule, Tile
from presk_db.resources import resource_folder
from tests.tools import needs

LINEAR = """in a0: f32[4,384]
in a1: f32[384,70]
in a2: bf16[70]
out a3: bf16[4,70]
par i0 < 4
  par i1 < 70
    v0 = acc.f32 sum
    seq i2 < 384
      v1 = load a0[i0,i2]
      v2 = load a1[i2,i1]
      v3 = mul.f32 v1 v2
      fold v0 v3
    end
    v4 = load a2[i1]
    v5 = add.f32 v0 v4
    v6 = const.f32 0x1.8000000000000p+1
    v7 = mul.f32 v5 v6
    store a3[i0,i1] v7
  end
end
"""

POINT_ZERO = """static void linear(ptrdiff_t first, ptrdiff_t last, const float *restrict a0, const float *restrict a1,
    const presk_bf16 *restrict a2, presk_bf16 *restrict a3)
{
    (void)first;
    (void)last;
    const float v6 = 0x1.8p+1f; /* 3.0 */
    for (ptrdiff_t i0 = 0; i0 < 4; i0++) {
        for (ptrdiff_t i1 = 0; i1 < 70; i1++) {
            float v0 = 0;
            for (ptrdiff_t i2 = 0; i2 < 384; i2++) {
                v0 += a0[384 * i0 + i2] * a1[70 * i2 + i1];
            }
            a3[70 * i0 + i1] = presk_bf16_from_f32((v0 + presk_f32_from_bf16(a2[i1])) * v6);
        }
    }
}
"""

TILED = """    for (ptrdiff_t i0 = 0; i0 < 4; i0++) {
        {
            float v0[64] = {0};
            for (ptrdiff_t i2 = 0; i2 < 384; i2++) {
                const float v1 = a0[384 * i0 + i2];
                for (ptrdiff_t i1_1 = 0; i1_1 < 64; i1_1++) {
                    v0[i1_1] += v1 * a1[70 * i2 + i1_1];
                }
            }
            for (ptrdiff_t i1_1 = 0; i1_1 < 64; i1_1++) {
                a3[70 * i0 + i1_1] = presk_bf16_from_f32((v0[i1_1] + presk_f32_from_bf16(a2[i1_1])) * v6);
            }
        }
        {
            float v0[6] = {0};
            for (ptrdiff_t i2 = 0; i2 < 384; i2++) {
                const float v1 = a0[384 * i0 + i2];
                for (ptrdiff_t i1_1 = 0; i1_1 < 6; i1_1++) {
                    v0[i1_1] += v1 * a1[70 * i2 + i1_1 + 64];
                }
            }
"""


def test_point_zero() -> None:
    assert c_function(parse(LINEAR), "linear", Schedule(), comment=False) == POINT_ZERO


def test_a_tile_of_columns() -> None:
    kernel = parse(LINEAR)
    assert default_schedule(kernel).product is not None
    text = c_function(kernel, "linear", Schedule(tiles=(Tile("i1", 64),)))
    assert TILED in text
    assert text.startswith("/*\n * in a0: f32[4,384]\n * in a1: f32[384,70]\n")
    assert " *       v1 = load a0[i0,i2]\n" in text


SOFTMAX = """in a0: f32[5,100]
out a1: f32[5,100]
out a2: i64[5]
par i0 < 5
  v0 = acc.f32 max
  v9 = acc.f32 argmax
  seq i1 < 100
    v1 = load a0[i0,i1]
    fold v0 v1
    fold v9 v1
  end
  local l0: f32[100]
  v2 = acc.f32 lanes
  seq i2 < 100
    v3 = load a0[i0,i2]
    v4 = sub.f32 v3 v0
    v5 = exp.f32 v4
    store l0[i2] v5
    fold v2 v5
  end
  par i3 < 100
    v6 = load l0[i3]
    v7 = div.f32 v6 v2
    store a1[i0,i3] v7
  end
  store a2[i0] v9
end
"""

LANES = """        float l0[100];
        float v2_lanes[32] = {0};
        for (ptrdiff_t i2_0 = 0; i2_0 < 96; i2_0 += 32) {
            for (ptrdiff_t i2_1 = 0; i2_1 < 32; i2_1++) {
                const float v5 = presk_exp_f32(a0[100 * i0 + i2_0 + i2_1] - v0);
                l0[i2_0 + i2_1] = v5;
                v2_lanes[i2_1] += v5;
            }
        }
        {
            for (ptrdiff_t i2_1 = 0; i2_1 < 4; i2_1++) {
                const float v5 = presk_exp_f32(a0[100 * i0 + i2_1 + 96] - v0);
                l0[i2_1 + 96] = v5;
                v2_lanes[i2_1] += v5;
            }
        }
        const float v2 = presk_lanes_f32(v2_lanes);
        for (ptrdiff_t i3 = 0; i3 < 100; i3++) {
            a1[100 * i0 + i3] = l0[i3] / v2;
        }
"""


def test_maximum_and_lanes() -> None:
    text = c_function(parse(SOFTMAX), "softmax", Schedule(), comment=False)
    assert LANES in text
    assert "v0_keys[i1_1] = v0_new > v0_keys[i1_1] ? v0_new : v0_keys[i1_1];" in text
    assert "const float v0 = presk_f32_from_key(presk_largest_f32(v0_keys));" in text


def test_what_no_output_needs_is_not_printed() -> None:
    text = """in a0: f32[4]
in a1: f32[4]
extent n0 <= 4
out a2: f32[4]
local l0: f32[4]
par i0 < 4
v0 = load a0[i0]
v1 = load a1[i0]
v2 = exp.f32 v1
store l0[i0] v2
store a2[i0] v0
end
seq i1 < n0
end
"""
    printed = c_function(parse(text), "f", comment=False)
    assert printed.count("a1") == 2  # the parameter, and (void)a1
    assert "(void)n0;" in printed
    assert "l0" not in printed
    assert "exp" not in printed
    assert printed.count("for") == 1


OPERATIONS = """in a0: i64[4] < 9
in a1: bool[4]
in a2: f64[9]
scalar s0: f64
extent n0 <= 4
out a3: f32[4]
out a4: i64[4]
out a5: bool[4]
out a6: f64[4]
par i0 < n0
  v0 = load a0[i0]
  v1 = load a2[v0]
  v2 = scalar s0
  v3 = fma.f64 v1 v2 v1
  v4 = max.f64 v3 v2
  v5 = cvt.f32 v4
  v6 = const.f32 -inf
  v7 = min.f32 v5 v6
  v8 = neg.f32 v7
  v9 = abs.f32 v8
  store a3[i0] v9
  v10 = cvt.i64 v4
  v11 = index 2*i0+1
  v12 = mul.i64 v10 v11
  v13 = const.i64 -9223372036854775808
  v14 = sub.i64 v12 v13
  v15 = neg.i64 v14
  store a4[-1*i0+3] v15
  v16 = load a1[i0]
  v17 = lt.f64 v1 v2
  v18 = and.bool v16 v17
  v19 = not.bool v17
  v20 = or.bool v18 v19
  store a5[i0] v20
  v21 = cvt.f64 v20
  v22 = sub.f64 v1 v2
  v23 = sub.f64 v21 v22
  v24 = select.f64 v19 v23 v21
  store a6[i0] v24
end
"""


def test_operations() -> None:
    kernel = parse(OPERATIONS)
    check_kernel(kernel)
    text = c_function(kernel, "f", Schedule(), comment=False)
    for line in (
        "const float v6 = presk_f32_from_bits(UINT32_C(0xff800000)); /* -inf */",
        "const int64_t v13 = INT64_MIN;",
        "const int64_t v0 = a0[i0];",
        "const double v1 = a2[v0];",
        "const double v3 = presk_fma_f64(v1, s0, v1);",
        "const double v4 = v3 > s0 ? v3 : s0;",
        "a3[i0] = presk_abs_f32(-v7);",
        "a4[3 - i0] = presk_neg_i64(presk_sub_i64(presk_mul_i64(presk_i64_from_f64(v4), 2 * i0 + 1), v13));",
        "a6[i0] = presk_select_f64(v19, v21 - (v1 - s0), v21);",
    ):
        assert f"        {line}\n" in text or f"    {line}\n" in text, line


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", "0"), ("i0", "i0"), ("-1*i0", "-i0"), ("i0+384*i1-3", "384 * i1 + i0 - 3"), ("-2*i0+7", "7 - 2 * i0")],
)
def test_affine_text(text: str, expected: str) -> None:
    assert affine_text(parse_affine(text))[0] == expected


@pytest.mark.parametrize("name", ["int", "restrict", "presk_exp_f32"])
def test_a_name_of_c_is_refused(name: str) -> None:
    with pytest.raises(KernelNameBad, match=f"E2002 {name} means something in C"):
        c_function(parse(f"out {name}: f32[1]\nv0 = const.f32 0x0.0p+0\nstore {name}[0] v0\n"), "f")


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("kernel", [LINEAR, SOFTMAX, OPERATIONS], ids=["linear", "softmax", "operations"])
def test_compilers_are_silent(tmp_path: Path, compiler: str, kernel: str) -> None:
    needs(compiler)
    code = c_function(parse(kernel), "kernel")
    file = tmp_path / "kernel.c"
    parameters = ", ".join(re.findall(r"\w+(?=[,)])", re.search(r"kernel\(([^)]*\))", code)[1]))  # type: ignore[index]
    head = code[code.index("static void") : code.index("\n{")].replace("static void kernel", "void call")
    file.write_text(f'#include "presk_kernel.h"\n{code}{head};\n{head}\n{{\n    kernel({parameters});\n}}\n')
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{resource_folder('runtime_c')}"]
    subprocess.run([compiler, *flags, "-c", "-o", str(tmp_path / "kernel.o"), str(file)], check=True)


@pytest.mark.parametrize(("bound", "blocks"), [(31, 0), (32, 1)])
def test_a_short_loop_has_no_blocks(bound: int, blocks: int) -> None:
    """Compilers would see accesses out of bounds in a block that never runs."""
    text = f"""in a0: f32[{bound}]
extent n0 <= {bound}
out a1: f32[1]
v0 = acc.f32 lanes
seq i0 < n0
v1 = load a0[i0]
fold v0 v1
end
store a1[0] v0
"""
    assert c_function(parse(text), "f", comment=False).count("for (;") == blocks
