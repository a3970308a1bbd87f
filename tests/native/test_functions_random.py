"""The elementary functions on random inputs, every exponent among them, against MPFR: NumPy twin and C."""

import numpy as np
import pytest

from presk_db.conformance.check_math import difference_text, slow_inputs, slow_numpy
from presk_db.conformance.math_library import MathLibrary, built_library
from presk_db.conformance.math_reference import NAMES, exact
from presk_db.native.functions import function


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> MathLibrary:
    """The runtime's C functions; without a C compiler this fails."""
    return MathLibrary(built_library(tmp_path_factory.mktemp("math")))


def every_exponent(type: str) -> np.ndarray:
    """One number of each exponent and sign, with random fractions."""
    generator = np.random.default_rng(5)
    if type == "f32":
        exponents = np.arange(256, dtype=np.uint32).repeat(2) << 23
        signs = (np.arange(512, dtype=np.uint32) & 1) << 31
        return (exponents | signs | generator.integers(0, 1 << 23, 512, dtype=np.uint32)).view(np.float32)
    exponents = np.arange(2048, dtype=np.uint64).repeat(2) << np.uint64(52)
    signs = (np.arange(4096, dtype=np.uint64) & np.uint64(1)) << np.uint64(63)
    return (exponents | signs | generator.integers(0, 1 << 52, 4096, dtype=np.uint64)).view(np.float64)


def moderate(count: int) -> np.ndarray:
    """Numbers of either sign whose magnitudes lie between 2**-30 and 2**10."""
    generator = np.random.default_rng(6)
    size = np.ldexp(generator.uniform(1, 2, count), generator.integers(-30, 10, count))
    return size * np.where(generator.integers(0, 2, count) == 0, 1.0, -1.0)


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_against_mpfr(name: str, type: str, library: MathLibrary) -> None:
    every = every_exponent(type)
    x = np.concatenate([every, moderate(3000).astype(every.dtype)])
    y = np.array([exact(name, float(v), type) for v in x], x.dtype)
    assert difference_text(function(name, type)(x), y, x) == ""
    assert difference_text(library.f32(name, x) if type == "f32" else library.f64(name, x), y, x) == ""


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_numpy_equals_c(name: str, type: str, library: MathLibrary) -> None:
    generator = np.random.default_rng(7)
    any_bits = generator.integers(0, 1 << 64, 20_000, dtype=np.uint64)
    x = any_bits.view(np.float64) if type == "f64" else any_bits.view(np.float32)
    x = np.concatenate([x, moderate(20_000).astype(x.dtype)])
    y = library.f32(name, x) if type == "f32" else library.f64(name, x)
    assert difference_text(function(name, type)(x), y, x) == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_slow_paths_alone(name: str, library: MathLibrary) -> None:
    x = slow_inputs(name, 60)
    y = np.array([exact(name, float(v), "f64") for v in x])
    assert difference_text(library.f64(name, x, slow=True), y, x) == ""
    assert difference_text(slow_numpy(name, x), y, x) == ""


@pytest.mark.parametrize("name", ["exp", "silu", "gelu", "sigmoid"])
def test_subnormal_f64_results(name: str, library: MathLibrary) -> None:
    ends = {"exp": (-745.2, -708.0), "sigmoid": (-745.2, -708.0), "silu": (-752.0, -714.0), "gelu": (-38.6, -37.4)}
    x = np.random.default_rng(9).uniform(*ends[name], 2000)
    y = np.array([exact(name, float(v), "f64") for v in x])
    assert np.count_nonzero((np.abs(y) < 2.0**-1022) & (y != 0)) > 1500
    assert difference_text(function(name, "f64")(x), y, x) == ""
    assert difference_text(library.f64(name, x), y, x) == ""
