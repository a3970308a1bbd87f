"""The elementary functions against stored vectors and their special values: NumPy twin, C, C's slow path."""

import math
from pathlib import Path

import numpy as np
import pytest

from presk_db.conformance.check_math import VECTORS, difference_text
from presk_db.conformance.math_library import MathLibrary, built_library
from presk_db.conformance.math_reference import NAMES, exact
from presk_db.native.functions import function

INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (710.0, INF), (-800.0, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (710.0, INF), (-800.0, -1.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (-1e-40, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-INF, NAN), (-1.5, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0), (-30.0, -1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (7.0, 1.0), (-7.0, -1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (100.0, 1.0), (-800.0, 0.0)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (1e38, 1e38), (-800.0, -0.0)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (1e38, 1e38), (-50.0, -0.0)],
}
TYPES = {"f32": np.float32, "f64": np.float64}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> MathLibrary:
    """The runtime's C functions; without a C compiler this fails."""
    return MathLibrary(built_library(tmp_path_factory.mktemp("math")))


def pairs_f32(name: str) -> tuple[np.ndarray, np.ndarray]:
    bits = np.frombuffer((VECTORS / f"{name}.bin").read_bytes(), "<u4").astype(np.uint32).reshape(-1, 2)
    return bits[:, 0].copy().view(np.float32), bits[:, 1].copy().view(np.float32)


def pairs_f64(name: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.frombuffer((VECTORS / f"{name}_f64.bin").read_bytes(), "<f8").astype(np.float64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@pytest.mark.parametrize("name", NAMES)
def test_f32_on_the_hard_inputs(name: str, library: MathLibrary) -> None:
    x, y = pairs_f32(name)
    assert x.size > 80
    assert difference_text(function(name, "f32")(x), y, x) == ""
    assert difference_text(library.f32(name, x), y, x) == ""


@pytest.mark.parametrize("name", NAMES)
def test_f64_on_the_hard_inputs(name: str, library: MathLibrary) -> None:
    x, y = pairs_f64(name)
    assert x.size > 170
    assert difference_text(function(name, "f64")(x), y, x) == ""
    assert difference_text(library.f64(name, x), y, x) == ""
    assert difference_text(library.f64(name, x, slow=True), y, x) == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_results_are_mpfr_s(name: str) -> None:
    for pairs, type in ((pairs_f32(name), "f32"), (pairs_f64(name), "f64")):
        x, y = pairs[0][::7], pairs[1][::7]
        assert difference_text(np.array([exact(name, float(v), type) for v in x], x.dtype), y, x) == ""


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, type: str, library: MathLibrary) -> None:
    x = np.array([pair[0] for pair in SPECIAL[name]] + [NAN, -NAN], TYPES[type])
    y = np.array([pair[1] for pair in SPECIAL[name]] + [NAN, NAN], TYPES[type])
    assert difference_text(function(name, type)(x), y, x) == ""
    assert difference_text(library.f32(name, x) if type == "f32" else library.f64(name, x), y, x) == ""


@pytest.mark.parametrize("name", ["silu", "gelu"])
@pytest.mark.parametrize("type", TYPES)
def test_half_of_a_subnormal_goes_up(name: str, type: str, library: MathLibrary) -> None:
    x = np.array([k * 2.0 ** (-149 if type == "f32" else -1074) for k in range(-9, 10) if k], TYPES[type])
    y = np.array([exact(name, float(v), type) for v in x], TYPES[type])
    assert y[-1] == 5 * x[-9]  # 9 / 2 units, rounded up
    assert difference_text(function(name, type)(x), y, x) == ""
    assert difference_text(library.f32(name, x) if type == "f32" else library.f64(name, x), y, x) == ""


def test_shapes_types_and_names() -> None:
    tanh = function("tanh", "f32")
    assert tanh(np.zeros((), np.float32)).shape == ()
    assert tanh(np.zeros((0, 3), np.float32)).shape == (0, 3)
    grid = np.linspace(-2, 2, 60_000, dtype=np.float32).reshape(3, 200, 100)
    assert difference_text(tanh(grid.transpose(2, 0, 1)), tanh(grid).transpose(2, 0, 1), grid) == ""
    assert grid[0, 0, 0] == -2  # the argument is left alone
    with pytest.raises(TypeError):
        tanh(np.zeros(3))
    with pytest.raises(KeyError):
        function("sinh", "f32")
    with pytest.raises(KeyError):
        function("exp", "bf16")


def test_sqrt_is_exact() -> None:
    x = np.array([2.0, 0.25, -0.0, 5e-324, INF, -1.0])
    expected = np.array([float.fromhex("0x1.6a09e667f3bcdp+0"), 0.5, -0.0, 2.0**-537, INF, NAN])
    assert difference_text(function("sqrt", "f64")(x), expected, x) == ""


def test_a_wrong_vector_is_noticed() -> None:
    x, y = pairs_f32("exp")
    y[3] = np.nextafter(y[3], np.float32(0))
    assert difference_text(function("exp", "f32")(x), y, x).startswith("1 of ")


def test_vectors_lie_where_they_are_looked_for() -> None:
    assert Path(VECTORS).is_dir()
    assert {path.name for path in VECTORS.glob("*.bin")} >= {f"{n}{kind}.bin" for n in NAMES for kind in ("", "_f64")}
