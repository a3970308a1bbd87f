"""NaN, infinities, -0 and subnormals through every primitive and through bf16's rounding; literals that survive in C."""

import math

import numpy as np
import pytest

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.conformance.portability_programs import (
    INPUT_TENSORS,
    RECIPES,
    SPECIALS,
    emitted_programs,
    special_inputs,
)
from presk_db.conformance.program import Build, built, compare_outputs, ran
from presk_db.kernels.c_text import constant_text
from presk_db.kernels.ir import literal
from presk_db.kernels.parser import parse
from presk_db.language.graph import equations
from presk_db.language.parser import graph_from_text
from presk_db.language.primitives import PRIMITIVES
from presk_db.native.compiled import compiled_executor
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import bf16_from_f32, f32_from_bf16
from presk_db.resources import resource_folder
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from

QUICK = ("-std=c11", "-O1", "-ffp-contract=off")
ROUND = parse("in a0: f32[12]\nout a1: bf16[12]\npar i0 < 12\nv0 = load a0[i0]\nstore a1[i0] v0\nend\n")
BF16 = {
    0x7F800001: 0x7FC0, 0x7FFF8C22: 0x7FC0, 0xFFFF8000: 0x7FC0, 0xFFFFFFFF: 0x7FC0,  # stay NaN
    0x7F800000: 0x7F80, 0xFF800000: 0xFF80, 0x7F7FFFFF: 0x7F80, 0x80000000: 0x8000,
    0x00000001: 0x0000, 0x00008001: 0x0001, 0x3F808000: 0x3F80, 0x3F818000: 0x3F82,
}  # fmt: skip

LITERALS = {
    "f32": [0x3DCCCCCE, 0x3DCCCCCD, 0x80000000, 0, 1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
            0x7FC00000],
    "f64": [0x3FB999999999999A, 1 << 63, 0, 1, 0x000FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52, 0xFFF << 52,
            0x7FF8 << 48],
}  # fmt: skip


def test_bf16_rounding_in_three_implementations() -> None:
    x = np.array(list(BF16), np.uint32).view(np.float32)
    wanted = list(BF16.values())
    assert bf16_from_f32(x).tolist() == wanted
    natively, compiled = np.zeros(12, np.uint16), np.zeros(12, np.uint16)
    run_kernel(ROUND, [x, natively], {})
    compiled_executor([ROUND], flags=QUICK)(ROUND, [x, compiled], {})
    assert natively.tolist() == wanted
    assert compiled.tolist() == wanted


def test_f64_reaches_bf16_through_f32() -> None:
    once = bf16_from_f32(np.array([0.2691408770272292]).astype(np.float32))
    assert f32_from_bf16(once).tolist() == [0.26953125]


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_literals_survive(type_: str) -> None:
    """From bits to a kernel's text, back, through NumPy, and through the C that is printed."""
    unsigned, real = (np.uint32, np.float32) if type_ == "f32" else (np.uint64, np.float64)
    bits = np.array(LITERALS[type_], unsigned)
    lines = [f"out a0: {type_}[{len(bits)}]"]
    for i, x in enumerate(bits.view(real)):
        lines += [f"v{i} = const.{type_} {literal(float(x), type_)}", f"store a0[{i}] v{i}"]
    kernel = parse("\n".join(lines) + "\n")
    natively, compiled = np.zeros(len(bits), real), np.zeros(len(bits), real)
    run_kernel(kernel, [natively], {})
    compiled_executor([kernel], flags=QUICK)(kernel, [compiled], {})
    assert natively.view(unsigned).tolist() == bits.tolist()
    assert compiled.view(unsigned).tolist() == bits.tolist()


def test_a_decimal_stands_beside_a_literal() -> None:
    assert constant_text("f32", literal(float.fromhex("0x1.99999cp-4"), "f32")) == ("0x1.99999cp-4f", "0.10000001")
    assert constant_text("f64", literal(-0.0, "f64")) == ("-0x0p+0", "-0.0")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SafetensorsFile]:
    """The output files of the emitted programs with every primitive, by type; equal to the native run's."""
    folder = tmp_path_factory.mktemp("special")
    files = {}
    for program in emitted_programs(folder, [r for r in RECIPES if r.special]):
        out = folder / f"{program.name}.safetensors"
        weights, inputs = program.folder / "weights.safetensors", program.folder / "conformance/inputs.safetensors"
        ran(built(program.folder, Build("cc", "-O1")), weights, inputs, out)
        compare_outputs(out, program.folder / "conformance/outputs.safetensors", program.name)
        files[program.name.rpartition("_")[2]] = SafetensorsFile(str(out))
    return files


TYPES = ("f64", "f32", "bf16")


def test_the_program_holds_every_primitive() -> None:
    (recipe,) = [r for r in RECIPES if r.special and r.type == "f32"]
    graph = recorded(spec_from(f"{resource_folder('fixtures') / str(recipe.model)}:forward", {"type": "f32"})).graph
    assert set(PRIMITIVES) <= {e.op for e in equations(graph_from_text(graph))}


def test_the_inputs_hold_every_special_value() -> None:
    x = special_inputs(1)["x"]
    assert x.shape == INPUT_TENSORS["x"]
    assert np.isnan(x).any() and {math.inf, -math.inf} <= set(x.tolist())
    assert np.signbit(x[x == 0]).tolist() == [False, True]
    for info in (np.finfo(np.float32), np.finfo(np.float64)):
        assert ((np.abs(x) > 0) & (np.abs(x) < float(info.tiny))).any()


@pytest.mark.parametrize("type_", TYPES)
def test_special_values_through_functions(outputs: dict[str, SafetensorsFile], type_: str) -> None:
    """The limits, by value and sign, of each function at infinity, at zeros and at NaN."""
    zero, inf, nan = (0, 1), (SPECIALS.index(math.inf), SPECIALS.index(-math.inf)), int(np.isnan(SPECIALS).argmax())
    limits = {
        "exp": (math.inf, 0.0), "expm1": (math.inf, -1.0), "tanh": (1.0, -1.0), "erf": (1.0, -1.0),
        "sigmoid": (1.0, 0.0), "log": (math.inf, math.nan), "log1p": (math.inf, math.nan),
        "sqrt": (math.inf, math.nan), "sin": (math.nan, math.nan), "cos": (math.nan, math.nan),
        "silu": (math.inf, -0.0), "gelu": (math.inf, -0.0),
    }  # fmt: skip
    for name, wanted in limits.items():
        y = outputs[type_].read(name)
        assert repr(tuple(float(y[i]) for i in inf)) == repr(wanted), name
        assert math.isnan(y[nan]), name
        if name not in ("exp", "cos", "sigmoid", "log"):
            assert [float(y[i]) for i in zero] == [0.0, 0.0] and np.signbit(y[list(zero)]).tolist() == [False, True]


@pytest.mark.parametrize("type_", TYPES)
def test_nan_through_maxima(outputs: dict[str, SafetensorsFile], type_: str) -> None:
    """`maximum` is a > b ? a : b, so the second operand where either is NaN; a row's maximum is NaN above all."""
    table = outputs[type_].read("maximum")
    nan = int(np.isnan(SPECIALS).argmax())
    assert float(table[nan, 5]) == 1.0 and math.isnan(table[5, nan])
    assert np.isnan(outputs[type_].read("max")).all()
    assert float(outputs[type_].read("max of nothing")[0, 0]) == -math.inf
    nothing = outputs[type_].read("sum of nothing")
    assert not nothing.any() and not np.signbit(nothing).any()


@pytest.mark.parametrize("type_", TYPES)
def test_a_fully_masked_row(outputs: dict[str, SafetensorsFile], type_: str) -> None:
    """Softmax over a row of -inf alone is a row of NaN, as -inf - -inf says; rows with one element left are not."""
    rows = outputs[type_].read("softmax of a masked row")
    assert np.isnan(rows[0]).all()
    assert rows[1].tolist() == [1.0] + [0.0] * 7
    assert float(rows[2, :2].sum()) == pytest.approx(1.0, abs=0.01) and not rows[2, 2:].any()


def test_literals_in_a_program(outputs: dict[str, SafetensorsFile]) -> None:
    with np.errstate(all="ignore"):
        x = special_inputs(1)["x"].astype(np.float32)
        product = x * np.array([0x3DCCCCCE], np.uint32).view(np.float32)
    found = outputs["f32"].read("times 0x3dccccce")
    nan = np.isnan(product)
    assert np.array_equal(nan, np.isnan(found))
    assert np.array_equal(found[~nan].view(np.uint32), product[~nan].view(np.uint32))
    zeros = outputs["f32"].read("times -0.0")[[5, 6]]
    assert np.signbit(zeros).tolist() == [True, False]
