"""Random legal schedules and splits of every kind of nest give NumPy's bits; illegal ones are refused."""

import random
import re
from itertools import pairwise

import numpy as np
import pytest
from random_schedules import arrays_for, random_schedule
from schedule_kernels import NESTS

from presk_db.errors import ScheduleIllegal
from presk_db.kernels.attention import attention_of
from presk_db.kernels.c_printer import c_function
from presk_db.kernels.ir import Array, ExtentParameter, Kernel
from presk_db.kernels.legality import check_schedule, packing_of, scratch_bytes, units
from presk_db.kernels.parser import parse
from presk_db.kernels.plans import candidate_schedules, default_schedule, pieces_of
from presk_db.kernels.products import product_of
from presk_db.kernels.schedule import AttentionTile, ProductTile, Schedule, Split, Tile, parse_schedule
from presk_db.native.compiled import Executor, compiled_executor
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import canonical

STRICT = ("-std=c11", "-ffp-contract=off")
FLAGS = {
    "native": (*STRICT, "-O1", "-march=native"),
    "plain": (*STRICT, "-O2"),
    "no vectors": (*STRICT, "-O1", "-DPRESK_VECTORS=0"),
}
PRODUCTS = {name: k for name, k in NESTS.items() if product_of(k) is not None}


def assert_equal_bits(kernel: Kernel, execute: Executor, seed: int, why: str) -> None:
    """The executor's outputs are the NumPy run's."""
    rng = np.random.default_rng(seed)
    arrays = arrays_for(kernel, rng)
    scalars = {p.name: int(rng.integers(0, p.bound + 1)) for p in kernel.parameters if isinstance(p, ExtentParameter)}
    wanted, found = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run_kernel(kernel, wanted, scalars)
    execute(kernel, found, scalars)
    for a, x, y in zip(kernel.arrays, wanted, found, strict=True):
        assert canonical(x, a.type).tobytes() == canonical(y, a.type).tobytes(), f"{a.name} differs under {why}"


@pytest.mark.parametrize("turn", range(16))
def test_random_schedules_keep_bits(turn: int) -> None:
    """16 turns of a random schedule and a split for each of the nests."""
    rng = random.Random(turn)
    chosen = {name: random_schedule(k, rng) for name, k in NESTS.items()}
    build = "native" if turn % 3 else ("plain", "no vectors")[turn // 3 % 2]
    pieces = (1, 2, 3, 7)[turn % 4]
    execute = compiled_executor(
        list(NESTS.values()), {NESTS[n].digest: s for n, s in chosen.items()}, FLAGS[build], pieces
    )
    for name, kernel in NESTS.items():
        assert_equal_bits(kernel, execute, turn, f"{name}: {chosen[name].text!r} in {pieces} pieces, {build}")


@pytest.mark.parametrize("build", FLAGS)
@pytest.mark.parametrize("packed", [False, True])
def test_default_schedules_and_point_zero_keep_bits(build: str, packed: bool) -> None:
    for schedules in ({k.digest: default_schedule(k, packed) for k in NESTS.values()}, dict.fromkeys(
        (k.digest for k in NESTS.values()), Schedule()
    )):  # fmt: skip
        execute = compiled_executor(list(NESTS.values()), schedules, FLAGS[build], 2)
        for name, kernel in NESTS.items():
            assert_equal_bits(kernel, execute, 3, f"{name}: {schedules[kernel.digest].text!r}, {build}")


@pytest.mark.parametrize("name", NESTS)
def test_every_unit_is_computed_once(name: str) -> None:
    """Calls of one unit each, in reverse, are a run; a split with a gap is none."""
    kernel = NESTS[name]
    schedule = default_schedule(kernel)
    count = units(kernel, schedule)
    execute = compiled_executor([kernel], {kernel.digest: schedule}, FLAGS["native"], pieces=max(count, 1))
    assert_equal_bits(kernel, execute, 5, f"{count} pieces")


@pytest.mark.parametrize("name", NESTS)
def test_text_round_trip_and_candidates(name: str) -> None:
    kernel = NESTS[name]
    found = candidate_schedules(kernel, packed=packing_of(kernel) is not None)
    assert found[0] == default_schedule(kernel, packing_of(kernel) is not None)
    assert len(set(found)) == len(found)
    for schedule in (*found, Schedule()):
        check_schedule(kernel, schedule)
        assert parse_schedule(schedule.text) == schedule
        assert scratch_bytes(kernel, schedule, 3) == 3 * scratch_bytes(kernel, schedule)
        assert scratch_bytes(kernel, schedule) % 64 == 0
        assert 1 <= pieces_of(kernel, schedule) <= max(units(kernel, schedule), 1)
    assert Schedule().text == ""
    with pytest.raises(ScheduleIllegal, match="line 1"):
        parse_schedule("produkt")


ILLEGAL = {
    "a product of a softmax": ("softmax", Schedule(product=ProductTile(12, 1, 12))),
    "a block that is no multiple": ("linear f32", Schedule(product=ProductTile(12, 1, 13))),
    "no rows": ("linear f32", Schedule(product=ProductTile(0, 1, 0))),
    "product and tile": ("linear f32", Schedule(ProductTile(12, 1, 12), (Tile("i1", 8),))),
    "a group with carried sums": ("linear f32", Schedule(ProductTile(12, 1, 12, 4, 2, "inside"))),
    "direct columns that are apart": ("tied", Schedule(ProductTile(12, 1, 12, 0, 1, "direct"))),
    "a part of an array packed": ("values", Schedule(ProductTile(12, 1, 12, 0, 1, "packed"))),
    "odd depth of pairs": ("packed bf16", Schedule(ProductTile(12, 1, 12, 3, 1, "packed"))),
    "late terms in blocks": ("late", Schedule(product=ProductTile(12, 1, 12, 8))),
    "a sum divided": ("linear f32", Schedule(splits=(Split(("i0", "i1", "i2"), 1),))),
    "a sum side by side": ("linear f32", Schedule(tiles=(Tile("i2", 8),))),
    "a split below a sum": ("softmax", Schedule(splits=(Split(("i1", "i4"), 1),))),
    "one split for two nests": ("concat", Schedule(splits=(Split(("i0",), 1),))),
    "an unknown loop": ("flat", Schedule(splits=(Split(("i7",), 1),))),
    "a grain of nothing": ("flat", Schedule(splits=(Split(("i0",), 0),))),
    "a tile twice": ("flat", Schedule(tiles=(Tile("i0", 8), Tile("i0", 4)))),
}


@pytest.mark.parametrize("what", ILLEGAL)
def test_illegal_schedules_are_refused(what: str) -> None:
    name, schedule = ILLEGAL[what]
    with pytest.raises(ScheduleIllegal):
        check_schedule(NESTS[name], schedule)
    with pytest.raises(ScheduleIllegal):
        compiled_executor([NESTS[name]], {NESTS[name].digest: schedule})


def test_what_is_a_product() -> None:
    assert set(PRODUCTS) == {
        "linear f32", "linear f64", "linear bf16", "one row", "whole tiles", "scores", "values", "tied", "gradient",
        "row", "row f64", "row bf16", "packed bf16", "packed bf16, widened", "run-time extents", "scaled",
        "late", "late f64", "late bf16", "late, few rows", "late, rows without terms", "late, run-time extents",
    }  # fmt: skip
    square = NESTS["tied"].text.replace("v2 = load a1[i1,i9]", "v2 = load a0[i0,i9]")
    assert product_of(parse(square)) is None, "both factors move along the rows"
    swapped = NESTS["tied"].text.replace("mul.f32 v1 v2", "mul.f32 v2 v1")
    assert product_of(parse(swapped)) is not None
    added = NESTS["tied"].text.replace("mul.f32 v1 v2", "add.f32 v1 v2")
    assert product_of(parse(added)) is None


def test_what_is_a_late_product() -> None:
    for name, kernel in PRODUCTS.items():
        product = product_of(kernel)
        assert product is not None and product.late == name.startswith("late")
    text = NESTS["late"].text
    for old, new, why in (
        ("le.i64 v4 v5", "le.i64 v5 v4", "each row ends at its own number"),
        ("le.i64 v4 v5", "lt.i64 v4 v5", "another term is the first"),
        ("v4 = index i1", "v4 = index i1+1", "another term is the first"),
        ("v4 = index i1", "v4 = index i0", "the first term moves with another loop"),
        ("select.f32 v6 v3 v7", "select.f32 v6 v7 v3", "what comes later is zero"),
        ("v7 = const.f32 0x0.0p+0", "v7 = const.f32 0x1.0p+0", "ones are added before"),
    ):
        assert old in text
        assert product_of(parse(text.replace(old, new))) is None, why


def test_what_is_an_attention() -> None:
    found = {name for name, k in NESTS.items() if attention_of(k) is not None}
    assert found == {name for name in NESTS if "attention" in name}
    text = NESTS["causal attention"].text
    for old, new, why in (
        ("store l0[i3] v0", "store l0[i3] v6", "no scores are stored"),
        ("v17 = load l2[i9]", "v17 = load l1[i0]", "the weights are not read in order"),
        ("v2 = load a1[i3,i0,i4]", "v2 = load a1[i2,i0,i4]", "the keys move with the rows"),
        ("seq i9 < i2+1", "seq i9 < i1+1", "the extent moves with another loop"),
    ):
        assert old in text
        assert attention_of(parse(text.replace(old, new))) is None, why
    tile = Schedule(attention=AttentionTile(24))
    check_schedule(NESTS["causal attention"], tile)
    for name, schedule in (
        ("softmax", tile),
        ("causal attention", Schedule(attention=AttentionTile(0))),
        ("causal attention", Schedule(attention=AttentionTile(8), tiles=(Tile("i7", 8),))),
        ("causal attention", Schedule(product=ProductTile(12, 1, 12))),
    ):
        with pytest.raises(ScheduleIllegal):
            check_schedule(NESTS[name], schedule)


def test_packings() -> None:
    tied = packing_of(NESTS["tied"])
    assert tied is not None and (tied.k, tied.n, tied.down, tied.across, tied.elements) == (33, 50, 1, 33, 64 * 33)
    pairs = packing_of(NESTS["packed bf16"])
    assert pairs is not None and pairs.elements == 48 * 38
    assert packing_of(NESTS["scores"]) is None and packing_of(NESTS["softmax"]) is None


def test_large_locals_go_to_scratch() -> None:
    wide = parse(NESTS["softmax"].text.replace("71", "9000"))
    assert scratch_bytes(wide, default_schedule(wide)) == 36032
    execute = compiled_executor([wide], None, FLAGS["native"], pieces=2)
    assert_equal_bits(wide, execute, 1, "locals in scratch memory")


def test_arrays_are_of_every_kind() -> None:
    """The nests cover the types, one row and several, ragged and whole tiles."""
    types = {a.type for k in NESTS.values() for a in k.parameters if isinstance(a, Array)}
    assert types == {"f32", "f64", "bf16", "i64"}
    assert all(a != b for a, b in pairwise(sorted(k.digest for k in NESTS.values())))


@pytest.mark.parametrize("name", ["causal attention", "causal attention f64", "attention bf16", "attention f64"])
def test_every_loop_over_lanes_of_a_row_of_an_attention_has_a_literal_count(name: str) -> None:
    """gcc -O2 vectorizes no other loops: the rest of a row is a block as well, a part of which is live."""
    text = c_function(NESTS[name], "kernel", default_schedule(NESTS[name]))
    counts = re.findall(r"for \(ptrdiff_t (\w+)_1 = 0; \1_1 < (.+?);", text)
    assert len(counts) >= 3
    assert all(count.isdigit() for _, count in counts)
