"""Random kernels: legal, equal to their text, and the same bits from the oracle, from NumPy and from compiled C."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import Kernel
from presk_db.kernels.legality import is_tileable
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.parser import parse
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.schedule import Schedule, Tile
from presk_db.kernels.tree import nests
from presk_db.native import access
from presk_db.native.compiled import compiled_executor
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import canonical
from tests.kernels.oracle import interpret
from tests.kernels.random_kernels import random_arguments, random_kernel

SLOW_OK = settings(max_examples=120, suppress_health_check=list(HealthCheck))
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


def differing(kernel: Kernel, a: list[Any], b: list[Any]) -> list[str]:
    """The array parameters whose observed bits differ."""
    pairs = zip(kernel.arrays, a, b, strict=True)
    return [p.name for p, x, y in pairs if canonical(x, p.type).tobytes() != canonical(y, p.type).tobytes()]


@given(st.integers(0, 2**32))
@SLOW_OK
def test_numpy_is_the_oracle(seed: int) -> None:
    r = random.Random(seed)
    kernel = random_kernel(r)
    check_kernel(kernel)
    assert parse(kernel.text) == kernel
    arrays, scalars = random_arguments(r, kernel)
    expected, whole, chunked, packed = ([a.copy() for a in arrays] for _ in range(4))
    interpret(kernel, expected, scalars)
    run_kernel(kernel, whole, scalars)
    assert not differing(kernel, expected, whole), kernel.text
    run_kernel(kernel, chunked, scalars, chunk=r.choice((1, 7, 40, 300)))
    assert not differing(kernel, expected, chunked), kernel.text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "PACKED", 1)
        run_kernel(kernel, packed, scalars, chunk=r.choice((1, 7, 40, 300)))
    assert not differing(kernel, expected, packed), kernel.text


def random_schedule(r: random.Random, kernel: Kernel) -> Schedule:
    loops = [n.loop.var for n in nests(live_tree(kernel)) if is_tileable(n)]
    chosen = [v for v in loops if r.random() < 0.7]
    return r.choice(
        (Schedule(), default_schedule(kernel), Schedule(tiles=tuple(Tile(v, r.randint(1, 40)) for v in chosen)))
    )


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-march=native")], ids=" ".join)
def test_compiled_is_numpy(flags: tuple[str, ...]) -> None:
    rs = [random.Random(f"{flags} {n}") for n in range(60)]
    kernels = [random_kernel(r) for r in rs]
    schedules = {k.digest: random_schedule(r, k) for r, k in zip(rs, kernels, strict=True)}
    execute = compiled_executor(kernels, schedules, ("-std=c11", *flags, "-ffp-contract=off", *WARNINGS))
    for r, kernel in zip(rs, kernels, strict=True):
        arrays, scalars = random_arguments(r, kernel)
        expected, found = ([a.copy() for a in arrays] for _ in range(2))
        run_kernel(kernel, expected, scalars)
        execute(kernel, found, scalars)
        assert not differing(kernel, expected, found), kernel.text


def test_differing_sees_one_bit() -> None:
    kernel = parse("out a0: f32[2]\n")
    a = np.array([1, np.nan], np.float32)
    b = a.copy()
    b[1:].view(np.uint32)[0] ^= 1 << 31
    assert not differing(kernel, [a], [b])
    b[:1].view(np.uint32)[0] ^= 1
    assert differing(kernel, [a], [b]) == ["a0"]
