"""Keys and samples in C are those of NumPy, draw by draw; each step of the definition, with its boundaries."""

import math
from typing import Any

import cffi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk_db.errors import InputBad
from presk_db.keys import Key, chacha20
from presk_db.native.compiler import shared_library
from presk_db.native.numbers import Array
from presk_db.native.sampling import Sampling, penalized, sampled

DECLARATIONS = """
typedef struct { uint32_t words[8]; } presk_key;
typedef struct { double temperature, top_p, min_p, penalty; int64_t top_k; } presk_sampling;
typedef struct { int code; char text[496]; } presk_error;
presk_key presk_key_seed(uint64_t);
presk_key presk_key_child(const presk_key *, uint64_t);
presk_key presk_key_part(const presk_key *, uint64_t);
void presk_key_block(const presk_key *, uint64_t, uint64_t, uint32_t *);
uint64_t presk_key_draw(const presk_key *, uint64_t);
double presk_key_uniform(const presk_key *, uint64_t);
bool presk_sampling_check(const presk_sampling *, presk_error *);
void presk_penalize(double *, int64_t, const int64_t *, int64_t, double, int64_t *);
int64_t presk_sample(const presk_sampling *, double, double *, int64_t, int64_t *);
"""
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def c() -> tuple[Any, Any]:
    """cffi and the library."""
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    return ffi, ffi.dlopen(str(shared_library('#include "presk_key.h"\n#include "presk_sample.h"\n')))


def settings_in_c(ffi: Any, s: Sampling) -> Any:
    return ffi.new("presk_sampling *", [s.temperature, s.top_p, s.min_p, s.penalty, s.top_k])


def both(c: tuple[Any, Any], s: Sampling, u: float, logits: Array, seen: list[int] | None = None) -> int:
    """The token, which NumPy and C agree on; the penalized logits are compared bit for bit too."""
    ffi, lib = c
    x = logits.astype(np.float64)
    n = len(x)
    work = np.zeros(max(n, 1), np.int64)
    pointer, scratch = ffi.from_buffer("double[]", x), ffi.from_buffer("int64_t[]", work)
    if seen is not None:
        history = np.array(seen, np.int64)
        lib.presk_penalize(pointer, n, ffi.from_buffer("int64_t[]", history), len(seen), s.penalty, scratch)
        logits = penalized(logits, seen, s.penalty)
        assert x.tobytes() == logits.tobytes() or np.isnan(x).any()
    token = sampled(s, u, logits)
    assert lib.presk_sample(settings_in_c(ffi, s), u, pointer, n, scratch) == token
    return token


def test_keys_are_those_of_numpy(c: tuple[Any, Any]) -> None:
    ffi, lib = c
    seeds = [*range(200), 2**63, 2**64 - 1, *(7919**i % 2**64 for i in range(2, 200))]
    for seed in seeds:
        key, mine = Key.from_seed(seed), ffi.new("presk_key *", lib.presk_key_seed(seed))
        assert tuple(mine.words) == key.key
        n = seed * 977 % 2**64
        assert tuple(lib.presk_key_child(mine, n).words) == key.child(n).key
        assert tuple(lib.presk_key_part(mine, seed % 9).words) == key.split(9)[seed % 9].key
        assert [lib.presk_key_draw(mine, i) for i in range(20)] == key.integers(20).tolist()
        assert [lib.presk_key_uniform(mine, i) for i in range(20)] == key.uniform(20).tolist()
        block = ffi.new("uint32_t[16]")
        lib.presk_key_block(mine, n, 2**64 - 1, block)
        assert list(block) == chacha20(key.key, n, 2**64 - 1, 1)[0].tolist()


LOGITS = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.sampled_from((0.0, -0.0, 1.0, 1.0, 2.0, INF, -INF, 88.0, -1e30, 1e308, 5e-324)),
    st.integers(-3, 3).map(float),
)
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 4.0), st.sampled_from((1e-300, 1e300, 5e-324))),
    top_k=st.integers(0, 12),
    top_p=st.one_of(st.just(1.0), st.just(0.0), st.sampled_from((0.5, 0.25, 1 / 3)), st.floats(0.0, 1.0)),
    min_p=st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 1.0), st.floats(0.0, 1e-3)),
    penalty=st.one_of(st.just(1.0), st.floats(1e-3, 10.0)),
)


@settings(max_examples=600)
@given(st.lists(LOGITS, min_size=1, max_size=30), SAMPLINGS, st.integers(0, 2**53 - 1), st.lists(st.integers(-2, 32)))
def test_c_draws_what_numpy_draws(
    c: tuple[Any, Any], logits: list[float], s: Sampling, u: int, seen: list[int]
) -> None:
    token = both(c, s, u / 2**53, np.array(logits), seen)
    assert -1 <= token < len(logits)


@pytest.mark.parametrize("width", [65, 5000])
def test_many_draws_with_ties(c: tuple[Any, Any], width: int) -> None:
    """Rows of logits with few distinct values, and normal ones; a draw of a child of one key for each."""
    random = np.random.default_rng(width)
    key = Key.from_seed(width)
    grid = [
        Sampling(t, k, p, m) for t in (0.7, 1.0, 1.5) for k in (0, 1, 40) for p in (1.0, 0.9, 0.0) for m in (0.0, 0.05)
    ]
    tokens = set()
    for row, s in enumerate(grid):
        values = random.standard_normal(width).astype(np.float32) * 4
        logits = np.round(values) if row % 2 else values
        tokens.add(both(c, s, float(key.child(row).uniform(1)[0]), logits))
    assert len(tokens) > 10


def reference(x: list[float], u: float) -> int:
    """Rule 11 of bits.md in plain Python, where the platform's exp is good enough."""
    w = [math.exp(v - max(x)) for v in x]
    z = 0.0
    for v in w:
        z += v
    c = 0.0
    for i, v in enumerate(w):
        c += v
        if c > u * z:
            return i
    raise AssertionError


def test_without_filters_it_is_the_sample_of_the_rules(c: tuple[Any, Any]) -> None:
    x = [0.0, math.log(2), math.log(4), -INF, math.log(1)]
    drawn = [both(c, Sampling(), i / 64, np.array(x)) for i in range(64)]
    assert drawn == [reference(x, i / 64) for i in range(64)]
    assert [drawn.count(i) for i in range(5)] == [8, 16, 32, 0, 8]


@pytest.mark.parametrize(
    ("s", "kept"),
    [
        (Sampling(top_p=0.5), {0}),  # exactly on the boundary
        (Sampling(top_p=np.nextafter(0.5, 1)), {0, 1}),
        (Sampling(top_p=0.75), {0, 1}),
        (Sampling(top_p=0.8), {0, 1, 2}),  # of two equals the lower stays
        (Sampling(top_p=0.0), {0}),
        (Sampling(top_p=1.0), {0, 1, 2, 3}),
        (Sampling(min_p=0.25), {0, 1, 2, 3}),  # exactly on the boundary
        (Sampling(min_p=np.nextafter(0.25, 1)), {0, 1}),
        (Sampling(min_p=1.0), {0}),
        (Sampling(top_k=1), {0}),
        (Sampling(top_k=3), {0, 1, 2}),
        (Sampling(top_k=4), {0, 1, 2, 3}),
        (Sampling(top_k=99), {0, 1, 2, 3}),
        (Sampling(top_k=2, top_p=0.6), {0}),  # 2/3 of what top-k keeps
        (Sampling(temperature=0.0), {0}),
        (Sampling(temperature=1e-320), {0}),
    ],
)
def test_boundaries(c: tuple[Any, Any], s: Sampling, kept: set[int]) -> None:
    """Weights 1, 1/2, 1/4, 1/4: half, a quarter, two eighths of all."""
    exact = np.array([0.0, -1.0, -2.0, -2.0]) * math.log(2)
    assert [math.exp(v) for v in exact] == [1.0, 0.5, 0.25, 0.25]
    assert {both(c, s, i / 256, exact) for i in range(256)} == kept


@pytest.mark.parametrize(
    ("logits", "token"),
    [
        ([1.0, NAN], -1), ([NAN], -1), ([-INF, -INF], -1), ([], -1),
        ([INF, 1.0, INF], 0), ([1.0, INF], 1), ([-INF, -3.0], 1), ([-0.0, 0.0, 0.0], 1), ([2.0, 2.0], 0),
    ],
)  # fmt: skip
def test_special_logits(c: tuple[Any, Any], logits: list[float], token: int) -> None:
    assert both(c, Sampling(temperature=0.0), 0.0, np.array(logits)) == token
    if logits not in ([2.0, 2.0], [-0.0, 0.0, 0.0]):
        assert both(c, Sampling(), 0.9, np.array(logits)) == token


def test_a_penalty_counts_a_token_once(c: tuple[Any, Any]) -> None:
    x = np.array([2.0, -2.0, 0.0, 5.0])
    assert penalized(x, [0, 0, 1, -1, 9, 2], 2.0).tolist() == [1.0, -4.0, 0.0, 5.0]
    assert both(c, Sampling(temperature=0.0, penalty=10.0), 0.0, x, [3, 3, 3]) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": v} for v in (-1.0, NAN, INF, -INF)] + [{"top_p": v} for v in (-0.1, 1.1, NAN)]
    + [{"min_p": v} for v in (-0.1, 1.1, NAN)] + [{"penalty": v} for v in (0.0, -1.0, NAN, INF)] + [{"top_k": -1}],
)  # fmt: skip
def test_values_out_of_range_are_refused(c: tuple[Any, Any], wrong: dict[str, Any]) -> None:
    ffi, lib = c
    with pytest.raises(InputBad) as raised:
        Sampling(**wrong)
    values = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "penalty": 1.0, "top_k": 0}
    error = ffi.new("presk_error *")
    assert lib.presk_sampling_check(ffi.new("presk_sampling *", values), error)
    assert not lib.presk_sampling_check(ffi.new("presk_sampling *", values | wrong), error)
    assert (error.code, ffi.string(error.text).decode()) == (1205, raised.value.message)
