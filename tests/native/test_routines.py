"""Routines of kernels: NumPy gives what keys and samples are defined to be, C gives the same, and bad ones are refused."""

import math

import numpy as np
import pytest

from presk_db.errors import KernelAliasBad, KernelBoundsBad, KernelLoopBad, KernelTypeBad, PreskError
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import Kernel
from presk_db.kernels.parser import parse
from presk_db.kernels.routines import ROUTINES, operation_kind
from presk_db.keys import Key
from presk_db.native.compiled import compiled_executor
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import STORAGE, Array, bf16_from_f32
from presk_db.native.sampling import Sampling, penalized, sampled
from presk_db.store.kernel_rows import kernel_from_rows, parameter_rows, statement_rows

ROWS, TOKENS = 3, 37
SAMPLE = """in a0: {type}[3,37]
in a1: i64[8] < 4294967296
in a2: f64[3]
in a3: i64[1]
out a4: i64[3] < 37
v0 = load a2[0]
v1 = load a2[1]
v2 = load a2[2]
v3 = load a3[0]
local l0: f64[37]
local l1: i64[37]
run sample a4 a1 a0 v0 v1 v2 v3 l0 l1
"""
PENALIZE = """in a0: {type}[3,37]
in a1: i64[3,5]
in a2: f64[1]
in a3: i64[1]
out a4: f64[3,37]
v0 = load a2[0]
v1 = load a3[0]
local l0: i64[37]
run penalize a4 a0 a1 v0 v1 l0
"""
KEYS = """in a0: i64[1]
out a1: i64[8]
v0 = load a0[0]
run key_seed a1 v0
""", """in a0: i64[8]
in a1: i64[1]
out a2: i64[8]
v0 = load a1[0]
run key_child a2 a0 v0
""", """in a0: i64[8]
out a1: i64[5,8]
run key_split a1 a0
""", """in a0: i64[8]
out a1: f64[19]
run uniform a1 a0
"""  # fmt: skip
TYPES = ("f32", "f64", "bf16")
KERNELS = {
    **{f"sample {t}": parse(SAMPLE.format(type=t)) for t in TYPES},
    **{f"penalize {t}": parse(PENALIZE.format(type=t)) for t in TYPES},
    **{name: parse(text) for name, text in zip(("seed", "child", "split", "uniform"), KEYS, strict=True)},
}
KEY = Key.from_seed(5)
WORDS = np.array(KEY.key, np.int64)


def outputs(name: str, *inputs: Array) -> Array:
    """What a kernel gives, by NumPy; C gives the same."""
    kernel = KERNELS[name]
    check_kernel(kernel)
    out = kernel.arrays[-1]
    results = [np.zeros(out.shape, STORAGE[out.type]) for _ in range(2)]
    run_kernel(kernel, [*inputs, results[0]], {})
    compiled_executor(list(KERNELS.values()))(kernel, [*inputs, results[1]], {})
    assert results[0].tobytes() == results[1].tobytes()
    return results[0]


def logits(type_: str, seed: int, special: bool = False) -> tuple[Array, Array]:
    """Rows in memory, and their numbers."""
    x = np.random.default_rng(seed).normal(0, 4, (ROWS, TOKENS))
    x = np.round(x, 1)  # ties
    if special:
        x[0, 7], x[1], x[2, 3] = math.nan, -math.inf, math.inf
    f32 = x.astype(np.float32)
    if type_ == "bf16":
        stored = bf16_from_f32(f32)
        return stored, (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (f32, f32.astype(np.float64)) if type_ == "f32" else (x, x)


@pytest.mark.parametrize("type_", TYPES)
def test_a_row_is_a_sample_with_its_own_number(type_: str) -> None:
    found = set()
    for seed, how in enumerate(
        [Sampling(0.0), Sampling(), Sampling(2.5, 5), Sampling(0.7, 0, 0.8), Sampling(3, 9, 1, 0.1)]
    ):
        stored, x = logits(type_, seed)
        tokens = outputs(
            f"sample {type_}", stored, WORDS, np.array([how.temperature, how.top_p, how.min_p]), np.array([how.top_k])
        )
        u = KEY.uniform(ROWS)
        assert tokens.tolist() == [sampled(how, float(u[i]), x[i]) for i in range(ROWS)]
        found |= set(tokens.tolist())
    assert len(found) > 4


@pytest.mark.parametrize("type_", TYPES)
def test_where_no_token_can_be_drawn(type_: str) -> None:
    """NaN is above all, as for argmax; nothing but -infinity gives the first token, infinity itself."""
    stored, _ = logits(type_, 1, special=True)
    for temperature in (1.0, 0.0):
        values = np.array([temperature, 1.0, 0.0])
        assert outputs(f"sample {type_}", stored, WORDS, values, np.array([0])).tolist() == [7, 0, 3]


@pytest.mark.parametrize("values", [(-1.0, 1, 0, 0), (math.nan, 1, 0, 0), (math.inf, 1, 0, 0), (1, 1.5, 0, 0),
                                    (1, math.nan, 0, 0), (1, 1, -0.1, 0), (1, 1, 2, 0), (1, 1, 0, -3)])  # fmt: skip
def test_values_of_the_run_out_of_their_range(values: tuple[float, float, float, int]) -> None:
    stored, x = logits("f32", 3)
    tokens = outputs("sample f32", stored, WORDS, np.array(values[:3], np.float64), np.array([values[3]]))
    assert tokens.tolist() == x.argmax(1).tolist()


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("count", [-1, 0, 2, 5, 9])
def test_a_penalty(type_: str, count: int) -> None:
    stored, x = logits(type_, 4)
    seen = np.array([[1, 1, 36, 37, -1], [2, 3, 4, 5, 6], [-(2**63), 2**62, 0, 0, 1]])
    found = outputs(f"penalize {type_}", stored, seen, np.array([1.3]), np.array([count]))
    wanted = [penalized(x[i], [int(t) for t in seen[i, : max(count, 0)]], 1.3) for i in range(ROWS)]
    assert found.tobytes() == np.array(wanted).tobytes()


def test_keys() -> None:
    for seed in (0, 1, 7919, 2**63 - 1):
        assert outputs("seed", np.array([seed])).tolist() == list(Key.from_seed(seed).key)
        assert outputs("child", WORDS, np.array([seed])).tolist() == list(KEY.child(seed).key)
    assert outputs("child", WORDS, np.array([-1])).tolist() == list(KEY.child(2**64 - 1).key)
    assert outputs("split", WORDS).tolist() == [list(k.key) for k in KEY.split(5)]
    assert outputs("uniform", WORDS).tolist() == KEY.uniform(19).tolist()
    assert outputs("uniform", WORDS - 2**32).tolist() == KEY.uniform(19).tolist()  # words are taken modulo 2^32


@pytest.mark.parametrize("name", KERNELS)
def test_text_and_rows_give_the_kernel_back(name: str) -> None:
    kernel = KERNELS[name]
    assert parse(kernel.text) == kernel
    assert kernel_from_rows(parameter_rows(kernel), statement_rows(kernel)) == kernel
    assert operation_kind(kernel) == ("sample" if name.startswith("sample") else "scalar")


def test_the_kernels_run_every_routine() -> None:
    texts = "".join(k.text for k in KERNELS.values())
    assert all(f"run {name} " in texts for name in ROUTINES)


U = KEYS[3]
BAD: dict[str, tuple[str, type[PreskError]]] = {
    "no routine": (U.replace("run uniform", "run normal"), KernelTypeBad),
    "an argument too few": (U.replace("uniform a1 a0", "uniform a1"), KernelTypeBad),
    "a type": (U.replace("f64[19]", "f32[19]"), KernelTypeBad),
    "a value for an array": (KEYS[0].replace("a1 v0", "v0 a1"), KernelTypeBad),
    "written twice": (KEYS[2].replace("a1 a0", "a1 a1"), KernelAliasBad),
    "read where it writes": (KEYS[1].replace("key_child a2 a0", "key_child a0 a2"), KernelAliasBad),
    "the words of a key": (U.replace("i64[8]", "i64[7]"), KernelBoundsBad),
    "another rank": (U.replace("f64[19]", "f64[19,1]"), KernelBoundsBad),
    "extents that differ": (SAMPLE.format(type="f32").replace("l0: f64[37]", "l0: f64[36]"), KernelBoundsBad),
    "inside a loop": (U.replace("run", "par i0 < 2\nrun") + "end\n", KernelLoopBad),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_routines(name: str) -> None:
    text, error = BAD[name]
    kernel: Kernel = parse(text)
    with pytest.raises(error, match=r"line \d+"):
        check_kernel(kernel)
