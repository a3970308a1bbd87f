"""Proofs: what is sound is proved, every planted fault is refused with a counterexample, the rest is named."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from pipeline import Presk, training_step
from sqlalchemy import Engine

from presk_db.conformance import polyhedral
from presk_db.conformance.polyhedral import obstacles
from presk_db.conformance.proofs import proof_of
from presk_db.conformance.prove import proved
from presk_db.errors import KernelBoundsBad, ProofRefuted, ProofUnavailable
from presk_db.kernels.affine import Affine
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import End, ExtentParameter, Index, Kernel, Load, Loop, Store
from presk_db.kernels.legality import units
from presk_db.kernels.liveness import live_statements
from presk_db.kernels.parser import parse
from presk_db.kernels.plans import candidate_schedules, default_schedule
from presk_db.kernels.ranges import array_shapes
from presk_db.kernels.schedule import Schedule, Split
from presk_db.recording.events import Recording
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import find_recording
from tests.kernels.random_kernels import random_kernel
from tests.kernels.random_schedules import random_schedule
from tests.kernels.schedule_kernels import NESTS
from tests.store.synthetic import Builder, recording

ROWS = """in a0: f32[8,16]
out a1: f32[8,16]
par i0 < 8
  local l0: f32[16]
  par i1 < 16
    v0 = load a0[i0,i1]
    store l0[i1] v0
  end
  par i2 < 16
    v1 = load l0[i2]
    store a1[i0,i2] v1
  end
end
"""
CUT = Schedule(splits=(Split(("i0",), 3),))


def reasons(text: str, schedule: Schedule = CUT, launched: int | None = None) -> tuple[str, ...]:
    return proof_of(parse(text), [schedule], launched).counterexamples


@pytest.mark.parametrize("name", NESTS)
def test_random_schedules_of_sound_kernels_are_proved(name: str) -> None:
    kernel, rng = NESTS[name], random.Random(name)
    schedules = [*candidate_schedules(kernel), *(random_schedule(kernel, rng) for _ in range(12))]
    proof = proof_of(kernel, schedules)
    assert proof.counterexamples == ()
    assert bool(proof.obstacles) == (name == "gather")
    assert [p for p, _ in proof.refuted] == ([] if proof.obstacles else ["in_bounds", "partition", "initialized"])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "load a0[i0,i1]",
            "load a0[i0,i1+1]",
            r"in_bounds: 'v0 = load a0\[i0,i1\+1\]' reaches \[\d, 16\] of \[8, 16\]",
        ),
        ("load a0[i0,i1]", "load a0[i0-1,i1]", r"in_bounds: .* reaches \[-1, \d+\]"),
        ("store l0[i1]", "store l0[2*i1]", r"in_bounds: 'store l0\[2\*i1\] v0' reaches \[\d+\] of \[16\]"),
        ("par i0 < 8", "par i0 < 9", r"in_bounds: 'v0 = load a0\[i0,i1\]' reaches \[8, \d+\]"),
        ("par i0 < 8", "par i0 < 7", r"partition: no unit writes a1\[7, \d+\]"),
        ("par i2 < 16", "par i2 < 15", r"partition: no unit writes a1\[\d, 15\]"),
        ("store a1[i0,i2]", "store a1[0,i2]", r"partition: (no|two) units? writes? a1\[\d, \d+\]"),
        ("par i1 < 16", "par i1 < 15", r"initialized: 'v1 = load l0\[i2\]' reads .* at i0 = \d, i2 = 15"),
        ("store l0[i1]", "store l0[15]", r"initialized: 'v1 = load l0\[i2\]' reads"),
    ],
)
def test_a_planted_fault_is_refuted(old: str, new: str, why: str) -> None:
    assert reasons(ROWS) == ()
    found = reasons(ROWS.replace(old, new))
    assert re.fullmatch(why + ".*", found[0]), found[0]


def test_two_units_that_write_one_element() -> None:
    text = ROWS.replace("store a1[i0,i2]", "store a1[0,i2]").replace("out a1: f32[8,16]", "out a1: f32[1,16]")
    assert reasons(text)[0].startswith("partition: two units write a1[0, ")
    assert reasons(text, Schedule()) == ()  # one unit alone may


def test_a_split_with_a_gap() -> None:
    kernel = parse(ROWS)
    assert units(kernel, CUT) == 3
    assert reasons(ROWS, CUT, 3) == ()
    assert reasons(ROWS, CUT, 2) == ("partition: 'store a1[i0,i2] v1' is in unit [2] of 2",)
    for name in ("linear", "scores", "runtime"):
        if name in NESTS:
            schedule = default_schedule(NESTS[name])
            total = units(NESTS[name], schedule)
            assert proof_of(NESTS[name], [schedule], total).counterexamples == ()
            assert proof_of(NESTS[name], [schedule], total - 1).counterexamples[0].startswith("partition: ")


def test_a_read_in_the_loop_that_fills_the_array() -> None:
    text = "in a0: f32[9]\nout a1: f32[8]\nlocal l0: f32[9]\nBEFOREseq i0 < 8\nv0 = load a0[i0]\nSTATEMENTS\nend\n"
    fill, read, keep = "store l0[i0+D] v0", "v1 = load l0[i0]", "store a1[i0] v1"
    first = "c = const.f32 0x0.0p+0\nstore l0[0] c\n"

    def found(before: str, *statements: str) -> bool:
        body = text.replace("BEFORE", before).replace("STATEMENTS", "\n".join(statements))
        return bool(reasons(body, Schedule()))

    assert not found("", fill.replace("+D", ""), read, keep)
    assert found("", read, fill.replace("+D", ""), keep)  # read in the iteration, written behind it
    assert found("", read, fill.replace("D", "1"), keep)  # element 0 by nobody
    assert not found(first, read, fill.replace("D", "1"), keep)  # the one before wrote it


def test_an_array_of_another_iteration_does_not_count() -> None:
    local = "  local l0: f32[16]\n"
    fault = ROWS.replace("par i1 < 16", "par i1 < i0+1").replace("v1 = load l0[i2]", "v1 = load l0[0]")
    assert reasons(fault) == ()  # element 0 is written in each iteration
    fault = fault.replace("load l0[0]", "load l0[1]")
    assert reasons(fault)[0].endswith("reads what is not written yet at i0 = 0, i2 = 0")
    outside = fault.replace(local, "").replace("par i0 < 8", "local l0: f32[16]\nseq i0 < 8").replace("i0+1", "-1*i0+8")
    assert reasons(outside, Schedule()) == ()  # written by the first iteration, in one array for all
    inside = outside.replace("local l0: f32[16]\n", "").replace("seq i0 < 8\n", f"seq i0 < 8\n{local}")
    assert "not written yet" in reasons(inside, Schedule())[0]


def instances(kernel: Kernel) -> Iterator[tuple[Load | Store, tuple[int, ...]]]:
    """Every access with its element, by running the loops; an extent takes all its values."""
    statements = live_statements(kernel)
    extents = [p for p in kernel.parameters if isinstance(p, ExtentParameter)]

    def run(first: int, last: int, values: dict[str, int]) -> Iterator[tuple[Load | Store, tuple[int, ...]]]:
        at = first
        while at < last:
            s = statements[at]
            if isinstance(s, Loop):
                end, depth = at + 1, 1
                while depth:
                    depth += isinstance(statements[end], Loop) - isinstance(statements[end], End)
                    end += 1
                for i in range(s.extent.value(values)):
                    yield from run(at + 1, end - 1, {**values, s.var: i})
                at = end
                continue
            if isinstance(s, Index):
                values = {**values, s.dest: s.expression.value(values)}
            elif isinstance(s, (Load, Store)):
                yield s, tuple(e.value(values) for e in s.index)
            at += 1

    for values in product(*(range(p.bound + 1) for p in extents)):
        yield from run(0, len(statements), dict(zip((p.name for p in extents), values, strict=True)))


def test_bounds_are_those_of_running_the_loops() -> None:
    """Random kernels with one index moved by one: isl refutes exactly those that leave an array."""
    r, refuted, sound = random.Random(5), 0, 0
    while refuted < 12 or sound < 12:
        kernel = random_kernel(r)
        extents = [p.bound for p in kernel.parameters if isinstance(p, ExtentParameter)]
        if (
            obstacles(kernel)
            or any(polyhedral.parameters_of(kernel).values()) != any(extents)
            or max([0, *extents]) > 7
        ):
            continue
        if len(polyhedral.parameters_of(kernel)) != len(extents):
            continue
        accesses = [n for n, s in enumerate(kernel.statements) if isinstance(s, (Load, Store)) and s.index]
        statements = list(kernel.statements)
        chosen = r.choice(accesses)
        s = statements[chosen]
        assert isinstance(s, (Load, Store))
        axis = r.randrange(len(s.index))
        moved = tuple(e + r.choice((-1, 1)) if n == axis else e for n, e in enumerate(s.index))
        statements[chosen] = replace(s, index=moved)
        faulty = Kernel(kernel.parameters, tuple(statements))
        shapes = array_shapes(faulty)
        leaves = any(
            not all(0 <= i < n for i, n in zip(element, shapes[s.array], strict=True))
            for s, element in instances(faulty)
        )
        found = proof_of(faulty, [Schedule()]).counterexamples
        assert any(why.startswith("in_bounds") for why in found) == leaves, faulty.text
        refuted, sound = refuted + leaves, sound + (not leaves)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("in a0: i64[4] < 8\nin a1: f32[8]\nout a2: f32[4]\npar i0 < 4\nv0 = load a0[i0]\nv1 = load a1[v0]\n"
         "store a2[i0] v1\nend\n", "gather: the index v0 of 'v1 = load a1[v0]' is loaded"),
        ("in a0: i64[4] < 8\nin a1: f32[4]\nout a2: f32[8]\nseq i0 < 4\nv0 = load a0[i0]\nv1 = load a1[i0]\n"
         "store a2[v0] v1\nend\n", "scatter: the index v0 of 'store a2[v0] v1' is loaded"),
        ("in a0: i64[4] < 8\nout a1: f32[4,8]\nc = const.f32 0x0.0p+0\npar i0 < 4\nv0 = load a0[i0]\npar i1 < v0\n"
         "store a1[i0,i1] c\nend\nend\n", "extent: v0 of 'par i1 < v0' is loaded"),
    ],
)  # fmt: skip
def test_what_is_loaded_is_an_obstacle(text: str, why: str) -> None:
    kernel = parse(text)
    check_kernel(kernel)
    assert obstacles(kernel) == (why,)
    assert proof_of(kernel, [Schedule()]).refuted == ()


def test_an_integer_that_is_the_same_throughout_is_a_parameter() -> None:
    text = (
        "in a0: i64[1] < 8\nin a1: f32[4]\nout a2: f32[8,4]\nv0 = load a0[0]\npar i0 < 4\nv1 = load a1[i0]\n"
        "store a2[v0,i0] v1\nend\n"
    )
    kernel = parse(text)
    check_kernel(kernel)
    assert obstacles(kernel) == ()
    assert proof_of(kernel, [Schedule()]).counterexamples == ()
    assert reasons(text.replace("< 8", "< 9"), Schedule())[0].startswith("in_bounds: 'store a2[v0,i0] v1' reaches [8, ")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return training_step(tmp_path_factory.mktemp("proofs"))


def test_a_recording_is_proved_and_its_verdicts_are_rows(engine: Engine) -> None:
    report = proved(engine, find_recording(engine, "latest"))
    lines = report.text().splitlines()
    total = len(report.kernels)
    assert lines[0].startswith(f"{total - 2} of {total} kernels proved (9")
    assert [line.partition(": ")[2].partition(":")[0] for line in lines[1:]] == ["gather", "scatter", "gather"]
    with reading(engine) as connection:
        query = "select property, count(*), sum(holds) from kernel_verdicts where tool = 'presk' group by property order by 1"
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    sound = total - 2
    assert rows == [
        ("in_bounds", sound, sound), ("initialized", sound, sound), ("partition", sound, sound),
        ("static_control", total, sound),
    ]  # fmt: skip


def recording_of(kernel: Kernel) -> Recording:
    """A made-up recording that launches a kernel of one input and one output once."""
    b = Builder("entry")
    x, y = b.buffer("input", "x", 8), b.buffer("output", "y", 8)
    b.launch("copy", [x], [y])
    order = b.order()
    return recording(replace(order, launches=(replace(order.launches[0], kernel=kernel),)))


def test_a_recording_with_an_off_by_one_is_refused(tmp_path: Path) -> None:
    """A kernel that reads one element past its row comes into a database, where nobody checked it."""
    text = "in a0: f32[8]\nout a1: f32[8]\npar i0 < 8\nv0 = load a0[i0]\nstore a1[i0] v0\nend\n"
    bad = parse(text)
    load = bad.statements[1]
    assert isinstance(load, Load)
    bad = Kernel(bad.parameters, (bad.statements[0], replace(load, index=(Affine.var("i0") + 1,)), *bad.statements[2:]))
    with pytest.raises(KernelBoundsBad):
        check_kernel(bad)
    other = open_database(str(tmp_path / "bad.db"), create=True)
    bad_one = write_recording(other, recording_of(bad))
    with pytest.raises(
        ProofRefuted, match=r"E7021 copy [0-9a-f]{16}: in_bounds: 'v0 = load a0\[i0\+1\]' reaches \[8\] of \[8\]"
    ):
        proved(other, bad_one)
    with reading(other) as connection:
        rows = connection.exec_driver_sql("select property from kernel_verdicts where not holds").all()
    assert [row[0] for row in rows] == ["in_bounds"]


def test_without_islpy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyhedral, "isl", None)
    with pytest.raises(ProofUnavailable) as raised:
        proved(engine, find_recording(engine, "latest"))
    assert str(raised.value) == "E7020 proofs need islpy: install presk[polyhedral]"


def test_the_command(presk: Presk, fails: Callable[..., str], engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    database = str(engine.url.database)
    said = presk("check", "latest", "--prove", "--db", database)
    assert said.status == 0
    assert re.match(r"\d+ of \d+ kernels proved \(97\.\d %\), \d+ of \d+ launches \(98\.\d %\): each access", said.out)
    monkeypatch.setattr(polyhedral, "isl", None)
    assert fails("E7020", "check", "latest", "--prove", "--db", database).endswith("install presk[polyhedral]")
