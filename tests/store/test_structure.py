"""Arguments, forms and loops against an oracle in plain Python."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle
from programs import random_order
from sqlalchemy import Engine
from synthetic import Builder, part, recording, transformer

from presk_db.kernels.launches import LaunchOrder
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording

ENGINE = open_database("sqlite://", create=True)


def rows(engine: Engine, query: str, recording_id: int) -> list[tuple[Any, ...]]:
    with reading(engine) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query, {"r": recording_id})]


def check_against_oracle(order: LaunchOrder) -> int:
    oracle = Oracle(order)
    r = write_recording(ENGINE, recording(order, tensors=(), events=())).id
    arguments: dict[int, list[Any]] = {call: [] for call in oracle.arguments}
    query = (
        "select call, buffer, offset, offset + elements, mode from call_arguments"
        " where recording_id = :r order by call, position"
    )
    for call, buffer, start, stop, mode in rows(ENGINE, query, r):
        arguments[call].append(((buffer, start, stop), mode))
    assert arguments == oracle.arguments
    owned: dict[int, list[int]] = {call: [] for call in oracle.locals}
    for call, buffer in rows(
        ENGINE, "select call, buffer from call_locals where recording_id = :r order by call, number", r
    ):
        owned[call].append(buffer)
    assert owned == oracle.locals
    forms = dict(rows(ENGINE, "select call, form from call_forms where recording_id = :r", r))
    assert forms.keys() == oracle.canonical.keys()
    numbers: dict[object, int] = {}
    for call, canonical in oracle.canonical.items():
        assert numbers.setdefault(canonical, forms[call]) == forms[call]
    assert len(set(numbers.values())) == len(numbers)
    return len(forms) - len(numbers)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_forms_of_random_programs(seed: int) -> None:
    check_against_oracle(random_order(seed))


def test_random_programs_share_forms() -> None:
    assert sum(check_against_oracle(random_order(seed)) for seed in range(20)) > 40


@pytest.mark.parametrize("odd", [None, 0, 2, 3])
def test_forms_of_a_transformer(odd: int | None) -> None:
    assert check_against_oracle(transformer(odd=odd)) > 10


def loops_of(order: LaunchOrder) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    r = write_recording(ENGINE, recording(order, tensors=(), events=())).id
    found = rows(
        ENGINE, "select first_iteration, last_iteration from loops where recording_id = :r order by form, first_item", r
    )
    query = (
        "select position, kind, slot_kind, slot, offset, stride, source from loop_arguments"
        " where recording_id = :r order by form, first_item, position"
    )
    return found, rows(ENGINE, query, r)


def test_the_layers_of_a_transformer_are_a_loop() -> None:
    found, arguments = loops_of(transformer(layers=5))
    assert found == [(0, 4)]
    assert arguments == [
        (0, "carried", "local", 0, 0, 0, 6),
        (1, "strided", "argument", 2, 0, 16, None),
        (2, "strided", "argument", 3, 0, 768, None),
        (3, "strided", "argument", 4, 0, 256, None),
        (4, "strided", "argument", 5, 0, 1024, None),
        (5, "strided", "argument", 6, 0, 1024, None),
        (6, "carried", "local", 1, 0, 0, None),
    ]


@pytest.mark.parametrize(("odd", "runs"), [(0, [(1, 4)]), (1, [(2, 4)]), (2, [(0, 1), (3, 4)]), (4, [(0, 3)])])
def test_an_odd_layer_stands_apart(odd: int, runs: list[tuple[int, int]]) -> None:
    assert loops_of(transformer(layers=5, odd=odd))[0] == runs


def fold_over(windows: Sequence[int], descending: bool = False) -> LaunchOrder:
    """A fold whose iteration i, in the order of running, uses the layer windows[i] of a stack."""
    b = Builder("main")
    x, w = b.buffer("input", "x", 4), b.weight("w", 16, 4)
    y = b.buffer("output", "y", 16, 4)
    for place, layer in enumerate(b.fold("f", len(windows), descending)):
        b.launch("f", [x, part(w, windows[place])], [part(y, layer)])
    return b.order()


@pytest.mark.parametrize(
    ("windows", "runs"),
    [
        ([0, 1, 2, 3], [(0, 3)]),
        ([3, 2, 1, 0], [(0, 3)]),
        ([5, 5, 5, 5], [(0, 3)]),
        ([0, 2, 4, 6], [(0, 3)]),
        ([0, 1, 2, 4, 6, 8], [(0, 2), (3, 5)]),
        ([0, 1, 3, 4, 6, 7], [(0, 1), (2, 3), (4, 5)]),
        ([0, 5, 7, 8, 9], [(0, 1), (2, 4)]),
        ([0, 1, 1, 1, 2, 3], [(0, 1), (2, 3), (4, 5)]),
        ([7], []),
    ],
)
def test_runs_of_constant_stride(windows: list[int], runs: list[tuple[int, int]]) -> None:
    assert loops_of(fold_over(windows))[0] == runs
    down, arguments = loops_of(fold_over(windows, descending=True))
    last = len(windows) - 1
    assert down == [(last - a, last - b) for a, b in runs]
    for position, kind, _, _, _, stride, _ in arguments:
        assert (kind == "fixed") == (stride == 0)
        assert position != 2 or stride == -4


def test_kept_values_stride_and_handed_on_ones_are_carried() -> None:
    """x is kept in a stack for the second fold, which runs from the last layer down."""
    b = Builder("main")
    x, w = b.buffer("input", "x", 4), b.weight("w", 5, 4)
    kept = b.temp("kept", 5, 4)
    h = b.temp("h0", 4)
    b.launch("start", [x], [h])
    for layer in b.fold("up", 5):
        new = b.temp("h", 4)
        b.launch("keep", [h], [part(kept, layer)])
        b.launch("step", [h, part(w, layer)], [new])
        h = new
    for layer in b.fold("down", 5, descending=True):
        new = b.temp("g", 4)
        b.launch("back", [h, part(kept, layer), part(w, layer)], [new])
        h = new
    b.launch("end", [h], [b.buffer("output", "y", 4)])
    found, arguments = loops_of(b.order())
    assert found == [(0, 4), (4, 0)]
    assert [(kind, stride) for _, kind, _, _, _, stride, _ in arguments] == [
        *(("carried", 0), ("strided", 4), ("strided", 4), ("carried", 0)),
        *(("carried", 0), ("strided", -4), ("strided", -4), ("carried", 0)),
    ]


def test_a_launch_between_iterations_parts_them() -> None:
    b = Builder("main")
    x, w, y = b.buffer("input", "x", 4), b.weight("w", 4, 4), b.buffer("output", "y", 5, 4)
    for layer in b.fold("f", 4):
        b.launch("f", [x, part(w, layer)], [part(y, layer)])
        if layer == 1:
            b.launches.append(b.launches[-1])  # one of the caller's own
            b.launches[-1] = type(b.launches[-1])(
                **{**vars(b.launches[0]), "call": 0, "arguments": (x, part(w, 0), part(y, 4))}
            )
    assert loops_of(b.order())[0] == [(0, 1), (2, 3)]
