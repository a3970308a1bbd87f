"""Totals by kernel, line and layer, and work that is not needed: against plain loops; no query is quadratic."""

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
from sqlalchemy import Engine
from synthetic import Builder, benchmark, part, recording, transformer

from presk_db.kernels.ir import Array
from presk_db.kernels.launches import Launch, LaunchOrder
from presk_db.kernels.types import SIZES
from presk_db.store.benchmarks import write_benchmark
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.query import answer, query_names, query_sql


def rows(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    return list(answer(engine, sql, 1).rows)


def moved(launch: Launch, mode: str) -> int:
    arrays = [p for p in launch.kernel.parameters if isinstance(p, Array) and p.mode == mode]
    return sum(prod(a.shape) * SIZES[a.type] for a in arrays)


def nearest_layers(order: LaunchOrder, call: int) -> Iterator[tuple[int, int]]:
    """The iterations of folds that a call is or lies in."""
    at: int | None = call
    while at is not None:
        c = order.calls[at]
        if c.fold is not None and c.iteration is not None:
            yield c.fold, c.iteration
        at = c.parent


def test_totals_are_the_sums_over_launches() -> None:
    order = transformer(layers=3, odd=1)
    engine = open_database("sqlite://", create=True)
    write_recording(engine, recording(order))
    kernels: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    lines: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    layers: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for number, launch in enumerate(order.launches):
        one = (1, moved(launch, "in"), moved(launch, "out"), 1000 + number)
        function = order.functions[order.calls[launch.call].function].name
        places = [kernels[launch.kernel.digest], lines[function, launch.source]]
        for total in [*places, *(layers[key] for key in nearest_layers(order, launch.call))]:
            total[:] = [a + b for a, b in zip(total, one, strict=True)]
    sums = "launches, bytes_read, bytes_written, nanoseconds"
    found = {r[0]: list(r[1:]) for r in rows(engine, f"select kernel_digest, {sums} from kernel_uses")}
    assert found == kernels
    by_line = {(r[0], r[1]): list(r[2:]) for r in rows(engine, f"select function, source, {sums} from line_times")}
    assert by_line == lines
    by_layer = {(r[0], r[1]): list(r[2:]) for r in rows(engine, f"select fold, iteration, {sums} from layer_times")}
    assert by_layer == layers
    assert len(by_layer) == 3
    (total,) = rows(engine, f"select {', '.join(f'sum({s.strip()})' for s in sums.split(','))} from function_times")
    assert list(total) == [sum(v[n] for v in kernels.values()) for n in range(4)]


def test_work_that_is_not_needed() -> None:
    b = Builder("net")
    x, y = b.buffer("input", "x", 4), b.buffer("output", "y", 4)
    once, again, other, nobody, chain, pair = (
        b.temp(n, 4) for n in ("once", "again", "other", "nobody", "chain", "pair")
    )
    stack = b.temp("stack", 2, 4)
    b.launch("first", [x], [once])  # 0
    b.launch("same", [x], [again])  # 1: what 0 computed
    b.launch("another kernel", [x], [other], 5)  # 2
    b.launch("unread", [other], [nobody])  # 3: dead
    b.launch("only for the dead", [once], [chain], 6)  # 4: read by 5 alone, which is dead
    b.launch("reads the chain", [chain], [pair], 7)  # 5: dead
    b.launch("half", [once], [part(stack, 0)], 8)  # 6
    b.launch("half", [once], [part(stack, 1)], 8)  # 7: computes what 6 computed
    b.launch("reads a half", [part(stack, 0)], [once], 9)  # 8: overwrites what 6 and 7 read
    b.launch("half", [once], [part(stack, 1)], 8)  # 9: not what 6 computed
    b.launch("end", [once, again, other, part(stack, 0), part(stack, 1)], [y])  # 10
    engine = open_database("sqlite://", create=True)
    write_recording(engine, recording(b.order()))
    assert rows(engine, "select operation from idle_launches order by 1") == [(3,), (4,), (5,)]
    assert rows(engine, "select operation from dead_launches order by 1") == [(3,), (5,)]
    assert rows(engine, "select operation, first, label from duplicate_launches order by 1") == [(1, 0, "same")]
    # 7 repeats 6, but what both read is written later, so that it is not claimed
    assert [r[0] for r in rows(engine, query_sql("dead_launches"))] == [3, 4, 5]


def test_a_benchmark_by_kernel_is_the_sum_over_its_launches() -> None:
    order = transformer(layers=2)
    engine = open_database("sqlite://", create=True)
    write_benchmark(engine, write_recording(engine, recording(order)).id, benchmark(order))
    by_launch = "select kernel_id, count(*), sum(nanoseconds) from roofline group by kernel_id order by kernel_id"
    assert rows(engine, "select kernel_id, launches, nanoseconds from benchmark_kernels order by 1") == rows(
        engine, by_launch
    )
    (listed,) = rows(engine, "select kernel_nanoseconds, arithmetic, kernel_share, ratio from benchmark_list")
    arithmetic = sum(r[0] or 0 for r in rows(engine, "select arithmetic from launch_list"))
    assert listed == (sum(benchmark(order).launches.values()), arithmetic, 0.5, 1.0)


def test_kernels_that_differ_in_extents_alone() -> None:
    b = Builder("net")
    x, y = b.buffer("input", "x", 4), b.buffer("output", "y", 6)
    small, large, other = b.temp("small", 5), b.temp("large", 6), b.temp("other", 6)
    b.launch("a", [x], [small])
    b.launch("b", [small], [large])
    b.launch("c", [large], [other], 3)
    b.launch("d", [other], [y])
    engine = open_database("sqlite://", create=True)
    write_recording(engine, recording(b.order()))
    write_recording(engine, recording(b.order(), "again"))
    found = rows(engine, "select first_operation, alike from duplicate_kernels where recording_id = 1 order by 1")
    assert found == [(0, 3), (1, 3), (3, 3)]
    assert rows(engine, "select count(distinct same_as) from duplicate_kernels where recording_id = 1") == [(1,)]
    assert {r[:2] for r in rows(engine, "select recordings, launches, kernel_digest from shared_kernels")} == {(2, 2)}
    assert rows(engine, "select count(*) from shared_kernels") == [(4,)]


class Steps:
    """Counts the hundreds of instructions of SQLite's machine."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.count = engine, 0

    def tick(self) -> int:
        self.count += 1
        return 0

    def of(self, sql: str) -> int:
        """How many a query takes."""
        with reading(self.engine) as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            self.count = 0
            driver.set_progress_handler(self.tick, 100)
            connection.exec_driver_sql(sql, {"recording": 1} if ":recording" in sql else {}).all()
            driver.set_progress_handler(None, 100)
        return self.count


SIZES_OF_LAYERS = (40, 160)


@pytest.fixture(scope="module")
def steps() -> tuple[Steps, Steps]:
    """On a recording, and on one of four times as many launches."""
    found = []
    for layers in SIZES_OF_LAYERS:
        engine = open_database("sqlite://", create=True)
        order = transformer(layers=layers, t=2, c=2, heads=1)
        write_benchmark(engine, write_recording(engine, recording(order)).id, benchmark(order))
        found.append(Steps(engine))
    return found[0], found[1]


@pytest.mark.parametrize("name", query_names())
def test_no_named_query_is_quadratic(steps: tuple[Steps, Steps], name: str) -> None:
    """Four times the launches take at most about four times the instructions; a quadratic query takes sixteen times."""
    small, large = (s.of(query_sql(name)) for s in steps)
    assert large <= 5 * small + 20


def test_the_count_sees_a_quadratic_query(steps: tuple[Steps, Steps]) -> None:
    quadratic = "select count(*) from operations a, operations b where a.label < b.label || a.number"
    small, large = (s.of(quadratic) for s in steps)
    assert large > 10 * small


def test_writing_is_not_quadratic() -> None:
    counts = []
    for layers in SIZES_OF_LAYERS:
        engine = open_database("sqlite://", create=True)
        steps = Steps(engine)
        driver = engine.raw_connection().driver_connection
        assert driver is not None
        driver.set_progress_handler(steps.tick, 100)
        write_recording(engine, recording(transformer(layers=layers, t=2, c=2, heads=1)))
        driver.set_progress_handler(None, 100)
        counts.append(steps.count)
    assert counts[1] <= 5 * counts[0] + 20, counts
