"""The quick part of the kernel conformance, what its cases cover, and that it sees a fault."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from presk_db.conformance.program import Build
from presk_db.kernels.ir import FUNCTIONS, Array, Load, Loop, Op
from presk_db.kernels.parser import parse
from presk_db.language.graph import equations
from presk_db.language.primitives import PRIMITIVES
from presk_db.language.tracing import graph_from_entry
from tests.kernels.kernel_conformance import (
    Case,
    all_cases,
    case_of,
    compiled_cases,
    conformance,
    emitted_cases,
    fits_a_program,
    legal_splits,
    ways,
)
from tests.kernels.primitive_kernels import primitive_cases, primitive_kernels

NEGATE = parse("in a0: f32[9]\nout a1: f32[9]\npar i0 < 9\nv0 = load a0[i0]\nv1 = neg.f32 v0\nstore a1[i0] v1\nend\n")
ABSOLUTE = parse(NEGATE.text.replace("neg", "abs"))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every 40th kernel of a primitive, and some random ones."""
    found = all_cases(quick=True, randoms=12, seed=3)
    return [c for i, c in enumerate(found) if i % 6 == 0 or c.name.startswith("random")]


def test_a_sample_agrees(cases: list[Case]) -> None:
    counts, bad = conformance(cases, Build("cc", "-O1"))
    assert not bad, bad[0]
    assert {
        "cffi, scalar",
        "cffi, default",
        "cffi, lanes of 5",
        "cffi, 2 loops split, grain 5, 7 pieces",
        "program",
    } <= set(counts)
    assert counts["cffi, scalar"] == len(cases)


def test_the_kernels_cover_operations_and_extents() -> None:
    """Every operation on reals in f64 and f32, bf16 in memory, and loops of 0, 1, odd and large extents."""
    kernels = [k for _, k in primitive_kernels(list(primitive_cases())).values()]
    ops = Counter((s.op, s.type) for k in kernels for s in k.statements if isinstance(s, Op))
    for op in (*FUNCTIONS, "add", "sub", "mul", "div", "neg", "abs", "sqrt", "max", "min", "lt", "eq", "select"):
        for type_ in ("f64", "f32"):
            assert ops[op, type_], (op, type_)
    extents = {s.extent.const for k in kernels for s in k.statements if isinstance(s, Loop) and s.extent.is_const}
    assert {0, 7, 33, 65, 1031, 1999, 2049} <= extents
    assert any(p.shape == (1,) for k in kernels for p in k.arrays)
    assert {p.type for k in kernels for p in k.arrays} >= {"f64", "f32", "bf16", "i64"}


def test_the_cases_hold_every_primitive() -> None:
    found: set[str] = set()
    for _, entry, inputs in primitive_cases():
        graph = graph_from_entry(lambda parameters, entry=entry, **given: entry(**given), None, inputs)
        found |= {e.op for e in equations(graph)}
    assert set(PRIMITIVES) <= found


def test_the_legal_splits() -> None:
    """Of nested par loops each prefix; none where what stands beside an inner loop writes."""
    plane = parse(
        "in a0: f32[4,5]\nout a1: f32[4,5]\npar i0 < 4\npar i1 < 5\nv0 = load a0[i0,i1]\nstore a1[i0,i1] v0\nend\nend\n"
    )
    assert legal_splits(plane) == [[("i0",)], [("i0", "i1")]]
    assert legal_splits(NEGATE) == [[("i0",)]]
    rows = parse(
        "in a0: f32[4,5]\nout a1: f32[4]\nout a2: f32[4,5]\npar i0 < 4\nv0 = load a0[i0,2]\nstore a1[i0] v0\n"
        "par i1 < 5\nv1 = load a0[i0,i1]\nstore a2[i0,i1] v1\nend\nend\n"
    )
    assert legal_splits(rows) == [[("i0",)]]
    names = [way.name for way in ways(plane) if "split" in way.name]
    assert len(names) == len(set(names)) == 6


def test_arguments_hold_special_values() -> None:
    many = [case_of("negate", NEGATE, str(seed)).arrays[0] for seed in range(40)]
    values = np.concatenate(many)
    assert np.isnan(values).any() and np.isinf(values).any()
    assert ((np.abs(values) > 0) & (np.abs(values) < 1.1754943e-38)).any()
    assert np.signbit(values[values == 0]).any()


def wrong(case: Case) -> Case:
    """The case with another kernel's results."""
    return dataclasses.replace(case, expected=case_of("", ABSOLUTE, "other").expected)


def differs(results: Iterator[tuple[str, Case, list[str]]]) -> list[list[str]]:
    return [names for _, _, names in results]


def test_a_fault_is_seen(tmp_path: Path) -> None:
    case = wrong(case_of("negate", NEGATE, "1"))
    assert all("a1" in names for names in differs(compiled_cases([case])))
    assert not fits_a_program(case)


def test_a_fault_in_a_program_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = wrong(case_of("negate", NEGATE, "1"))
    monkeypatch.setattr("tests.kernels.kernel_conformance.fits_a_program", lambda case: True)
    ((_, _, names),) = emitted_cases([case], tmp_path, Build("cc", "-O1"))
    assert names == ["a1"]


def test_what_no_program_holds() -> None:
    """An output with gaps keeps what was there before, which a program does not know."""
    gaps = parse("out a0: f32[4]\npar i0 < 2\nv0 = const.f32 0x1p+0\nstore a0[2*i0] v0\nend\n")
    assert not fits_a_program(case_of("gaps", gaps, "1"))
    assert isinstance(gaps.parameters[0], Array) and not any(isinstance(s, Load) for s in gaps.statements)
