"""The arena: packings never overlap, stay near the bound, and programs that run in them read what they should."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import Interpreter, straight
from programs import random_order
from sqlalchemy import Engine
from synthetic import Builder, part, recording, transformer

from presk_db.kernels.launches import LaunchOrder
from presk_db.store.arena import Packing, Rectangles, aligned, live_bytes, pack, rectangles
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.ingest import write_recording

ENGINE = open_database("sqlite://", create=True)


def overlaps(pieces: list[Rectangles], packing: Packing) -> list[tuple[int, int]]:
    """The pairs of pieces that share a byte at one operation, found one by one."""
    found = []
    for (i, p), (j, q) in combinations(enumerate(pieces), 2):
        for a in p.tolist():
            for b in q.tolist():
                together = a[0] <= b[1] and b[0] <= a[1]
                low = max(a[2] + packing.offsets[i], b[2] + packing.offsets[j])
                high = min(a[3] + packing.offsets[i], b[3] + packing.offsets[j])
                if together and low < high:
                    found.append((i, j))
    return found


def random_intervals(seed: int) -> list[Rectangles]:
    rng = Random(seed)
    operations, long = rng.randint(5, 200), rng.choice([2, 5, 20])
    pieces = []
    for _ in range(rng.randint(2, 120)):
        first = rng.randrange(operations)
        size = aligned(rng.choice([rng.randint(1, 5000), 2 ** rng.randint(0, 16)]))
        pieces.append(rectangles([(first, first + int(rng.expovariate(1 / long)), 0, size)]))
    return pieces


def test_random_intervals_are_packed_near_the_bound() -> None:
    for seed in range(200):
        pieces = random_intervals(seed)
        bound = live_bytes(np.concatenate(pieces))
        packing = pack(pieces, bound)
        assert overlaps(pieces, packing) == []
        assert bound <= packing.bytes <= 1.05 * bound


rows = st.tuples(st.integers(0, 8), st.integers(0, 5), st.integers(0, 4), st.integers(0, 3))


@given(st.lists(st.lists(rows, max_size=4), max_size=8))
def test_rigid_pieces_do_not_overlap(lists: list[list[tuple[int, int, int, int]]]) -> None:
    pieces = [rectangles([(t, t + n, 64 * low, 64 * (low + size)) for t, n, low, size in piece]) for piece in lists]
    packing = pack(pieces, 0)
    assert overlaps(pieces, packing) == []
    assert all(offset >= 0 and offset % 64 == 0 for offset in packing.offsets)
    tops = [offset + int(p[:, 3].max()) for p, offset in zip(pieces, packing.offsets, strict=True) if len(p)]
    assert packing.bytes >= max(tops, default=0)


def test_a_piece_lies_in_the_dead_part_of_another() -> None:
    """The result (1) of a call lies where the callee's first local was, while its second is alive."""
    callee = rectangles([(0, 4, 0, 640), (3, 9, 640, 704)])
    result = rectangles([(5, 12, 0, 512)])
    packing = pack([callee, result], 704)
    assert packing.bytes == 704 and packing.offsets == (0, 0)


def test_the_check_can_fail() -> None:
    """The same operation is no place to share memory, and an overlap is seen."""
    pieces = [rectangles([(0, 3, 0, 64)]), rectangles([(3, 5, 0, 64)])]
    assert pack(pieces, 64).bytes == 128
    assert overlaps(pieces, Packing((0, 0), 64)) == [(0, 1)]


def run(order: LaunchOrder) -> tuple[int, int, int]:
    """Runs the stored program against the launches in order; its arena's bytes, largest live set, highest byte used."""
    r = write_recording(ENGINE, recording(order, tensors=(), events=())).id
    with reading(ENGINE) as connection:
        program = Interpreter(connection, r, order)
        assert program.reads == straight(order)
        check_map(connection.exec_driver_sql("select * from arena_map where recording_id = ?", (r,)).all(), order)
        row = connection.exec_driver_sql("select bytes, live_bytes from arenas where recording_id = ?", (r,)).one()
    return int(row[0]), int(row[1]), program.peak


def check_map(found: list[object], order: LaunchOrder) -> None:
    """Every temp that is used has one place; no two that live at once share a byte."""
    used = {v.buffer for x in order.launches for v in x.arguments if order.buffers[v.buffer].role == "temp"}
    lives = [(row.buffer, row.first_use, row.last_use, row.offset, row.offset + row.bytes) for row in found]  # type: ignore[attr-defined]
    assert sorted(life[0] for life in lives) == sorted(used)
    pieces = [rectangles([life[1:]]) for life in lives]
    assert overlaps(pieces, Packing((0,) * len(pieces), 0)) == []


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_random_programs_read_what_they_should(seed: int) -> None:
    run(random_order(seed))


@pytest.mark.parametrize("odd", [None, 0, 2, 5])
def test_a_transformer_needs_no_more_than_is_alive(odd: int | None) -> None:
    bytes_, live, peak = run(transformer(layers=6, t=64, c=64, heads=4, odd=odd))
    assert live <= bytes_ <= 1.02 * live
    assert peak == bytes_


def chained(keep: bool, residual: bool, length: int = 5) -> LaunchOrder:
    """A fold that hands h on; `residual`: the last launch of an iteration reads what its first one was given; `keep`:
    everything handed on is read again at the end."""
    b = Builder("main")
    x = b.buffer("input", "x", 64)
    h = b.temp("h0", 64)
    b.launch("start", [x], [h])
    all_h = [h]
    for _ in b.fold("step", length):
        new, middle = b.temp("h", 64), b.temp("m", 256)
        b.launch("in", [h], [middle])
        b.launch("out", [middle, h] if residual else [middle], [new])
        h = new
        all_h.append(h)
    for value in all_h if keep else [h]:
        b.launch("end", [value], [b.buffer("output", "y", 64)])
    return b.order()


@pytest.mark.parametrize(
    ("keep", "residual", "period", "size"), [(False, False, 1, 1280), (False, True, 2, 1536), (True, True, 6, 2560)]
)
def test_what_is_handed_on_takes_turns(keep: bool, residual: bool, period: int, size: int) -> None:
    bytes_, live, _ = run(chained(keep, residual))
    with reading(ENGINE) as connection:
        query = (
            "select position, source, period, phase, distance from loop_arguments where kind = 'carried'"
            " and recording_id = (select max(id) from recordings) order by position"
        )
        found = [tuple(row) for row in connection.exec_driver_sql(query)]
    assert found == [(0, 1, period, 0, 256), (1, None, period, 1 % period, 256)]
    assert bytes_ == live == size


def test_chains_that_meet_keep_their_places() -> None:
    """The last value of one loop is the first of the next, with another number of places in turn."""
    b = Builder("main")
    h = b.temp("h", 64)
    b.launch("start", [b.buffer("input", "x", 64)], [h])
    for name, residual in (("plain", False), ("residual", True), ("again", False)):
        for _ in b.fold(name, 3):
            new, middle = b.temp("h", 64), b.temp("m", 64)
            b.launch("in", [h], [middle])
            b.launch("out", [middle, h] if residual else [middle], [new])
            h = new
    b.launch("end", [h], [b.buffer("output", "y", 64)])
    bytes_, live, _ = run(b.order())
    assert bytes_ == live


def test_a_history_of_two_is_carried() -> None:
    """Each iteration reads the last two values: the older one comes from the newer one's place."""
    b = Builder("main")
    x = b.buffer("input", "x", 64)
    old, new = b.temp("a", 64), b.temp("b", 64)
    b.launch("start", [x], [old, new])
    for _ in b.fold("step", 5):
        following = b.temp("c", 64)
        b.launch("step", [old, new], [following])
        old, new = new, following
    b.launch("end", [old, new], [b.buffer("output", "y", 64)])
    bytes_, live, _ = run(b.order())
    assert bytes_ == live == 3 * 256
    with reading(ENGINE) as connection:
        query = "select count(*) from loops where recording_id = (select max(id) from recordings)"
        assert connection.exec_driver_sql(query).scalar() == 1


def test_iterations_that_no_places_serve_run_apart() -> None:
    """Two values change places in every iteration: no fixed number of places in turn does that."""
    b = Builder("main")
    x, y = b.buffer("input", "x", 64), b.buffer("output", "y", 4, 64)
    p, q = b.temp("p", 64), b.temp("q", 64)
    b.launch("start", [x], [p, q])
    for layer in b.fold("swap", 4):
        b.launch("use", [p, q], [part(y, layer)])
        p, q = q, p
    run(b.order())


FAULTS = {
    "a wrong offset": "update frame_slots set offset = offset + 64 where kind = 'local' and number = 0 and form = 4",
    "a buffer released early": "update frame_slots set offset = 0 where kind = 'local'",
    "a callee's frame too high": "update frame_slots set offset = offset + 128 where kind = 'callee'",
    "a loop one long": "update loops set last_item = last_item + 1",
    "a stride one off": "update loop_arguments set stride = stride - 1 where kind = 'strided'",
    "a place too few": "update loop_arguments set period = 1 where kind = 'carried'",
    "a slot exchanged": "update form_item_arguments set slot = 1 - slot where slot_kind = 'argument' and slot < 2",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str) -> None:
    for order in (transformer(layers=3), chained(False, True)):
        engine = open_database("sqlite://", create=True)
        write_recording(engine, recording(order))
        with writing(engine) as connection:
            assert Interpreter(connection, 1, order).reads == straight(order)
            connection.exec_driver_sql(FAULTS[fault])
            try:
                same = Interpreter(connection, 1, order).reads == straight(order)
            except (AssertionError, IndexError, ValueError):
                same = False
        if not same:
            return
    pytest.fail(f"{fault} changes nothing that is read")


def test_an_empty_program_needs_nothing(engine: Engine) -> None:
    write_recording(engine, recording(Builder("empty").order()))
    with writing(engine) as connection:
        assert tuple(connection.exec_driver_sql("select * from arenas").one()) == (1, 0, 0, None)
        assert connection.exec_driver_sql("select count(*) from arena_peak").scalar() == 0


def test_who_is_alive_at_the_peak(stored: Engine) -> None:
    with reading(stored) as connection:
        rows = (
            connection.exec_driver_sql("select name, bytes, operation from arena_peak order by name").mappings().all()
        )
        live = connection.exec_driver_sql("select live_bytes from arenas").scalar()
    assert sum(row["bytes"] for row in rows) == live
    assert {"active", "middle"} <= {row["name"] for row in rows}
