"""Planted faults: each must show in the output, the sanitizer, or the traced peak."""

import re
import shutil
from pathlib import Path

import pytest
from building import (
    GPT2,
    SANITIZE,
    Runtime,
    emitted_to,
    equals,
    linked,
    peak_of,
    query,
    run_equal,
    run_program,
    stored,
    write_config,
)
from sqlalchemy import Engine

from presk_db.store.engine import writing
from presk_db.store.recordings import StoredRecording


@pytest.fixture(scope="module")
def recording(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> StoredRecording:
    """A small GPT-2 with three layers."""
    return stored(engine, write_config(tmp_path_factory.mktemp("gpt2"), GPT2), dims={"B": 2, "T": 4})


@pytest.fixture(scope="module")
def program(
    engine: Engine, recording: StoredRecording, tmp_path_factory: pytest.TempPathFactory, runtime: Runtime
) -> Path:
    """Its program, built and found equal."""
    folder = emitted_to(engine, recording, tmp_path_factory.mktemp("faults") / "program")
    run_equal(folder, runtime)
    return folder


def changed(text: str, pattern: str, new: str, which: int = 0) -> str:
    """The text with one match of the pattern replaced, which must change it."""
    found = list(re.finditer(pattern, text, re.MULTILINE))
    assert len(found) > which, pattern
    match = found[which]
    after = text[: match.start()] + match.expand(new) + text[match.end() :]
    assert after != text
    return after


FAULTS = {
    "a slice off by a layer": (r"h_mlp_fc_w \+ l \* (\d+)", r"h_mlp_fc_w + (2 - l) * \1"),
    "a slice that does not move": (r"h_ln_2_w \+ l \* \d+", r"h_ln_2_w"),
    "a loop one short": (r"l < 3; l\+\+", r"l < 2; l++"),
    "a loop from one": (r"ptrdiff_t l = 0; l < 3", r"ptrdiff_t l = 1; l < 3"),
    "a dropped launch": (r"^    k_attention_matmul_softmax\(.*\n", r""),
    "a dropped last launch": (r"^    linear_5\(.*\n", r""),
    "swapped launches": (r"^(    linear\(.*\n)(    attention\(.*\n)", r"\2\1"),
    "swapped arguments": (r"softmax\((\w+), (\w+)\)(?=;)", r"softmax(\2, \1)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_program_shows(fault: str, program: Path, tmp_path: Path, runtime: Runtime) -> None:
    folder = tmp_path / "program"
    shutil.copytree(program, folder)
    model = folder / "model.c"
    model.write_text(changed(model.read_text(), *FAULTS[fault]))
    linked(folder, runtime, ("-O1", "-w"))
    result = run_program(folder)
    assert result.returncode == 0 and not equals(folder)


def test_a_loop_one_too_long_shows(program: Path, tmp_path: Path, runtime: Runtime) -> None:
    """The fourth layer's weights do not exist: its first ones are other tensors."""
    folder = tmp_path / "program"
    shutil.copytree(program, folder)
    model = folder / "model.c"
    model.write_text(changed(model.read_text(), r"l < 3; l\+\+", r"l < 4; l++"))
    linked(folder, runtime)
    run_program(folder)
    assert not equals(folder)


def shared_bytes(engine: Engine, recording: StoredRecording) -> list[tuple[str, str]]:
    """Pairs of temporaries that live at one operation and share a byte, by the database's own map."""
    sql = (
        "select a.name, b.name from arena_map a join arena_map b on b.recording_id = a.recording_id"
        " and a.buffer < b.buffer and a.first_use <= b.last_use and b.first_use <= a.last_use"
        " and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes where a.recording_id = :r"
    )
    return query(engine, sql, recording)  # type: ignore[return-value]  # pairs of names


def test_no_two_live_temporaries_share_a_byte(engine: Engine, recording: StoredRecording) -> None:
    assert shared_bytes(engine, recording) == []


@pytest.mark.parametrize(
    ("function", "number", "of", "shift"),
    [("block", 2, 1, 0), ("self_attention", 1, 0, 16), ("block", 1, 0, 0)],  # 16: where a later head still reads
    ids=["residual under norm", "values under queries", "norm under residual"],
)
def test_a_buffer_released_early_shows(
    function: str, number: int, of: int, shift: int, engine: Engine, tmp_path: Path, runtime: Runtime
) -> None:
    """In the plan, one local of a form takes the place of another, or bytes of it, that lives at the same time."""
    faulty = stored(engine, write_config(tmp_path / "gpt2", GPT2), dims={"B": 2, "T": 4})
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "update frame_slots set offset = (select s.offset + :shift from frame_slots s where s.recording_id = :r"
            " and s.form = frame_slots.form and s.kind = 'local' and s.number = :of)"
            " where recording_id = :r and kind = 'local' and number = :number and form in ("
            " select f.number from forms f join functions u on u.recording_id = f.recording_id"
            " and u.number = f.function where f.recording_id = :r and u.name = :name)",
            {"r": faulty.id, "of": of, "number": number, "name": function, "shift": shift},
        )
    assert shared_bytes(engine, faulty) != []
    folder = emitted_to(engine, faulty, tmp_path / "program")
    linked(folder, runtime)
    result = run_program(folder)
    assert result.returncode == 0 and not equals(folder)


def test_a_plan_too_small_shows(program: Path, tmp_path: Path, runtime: Runtime) -> None:
    """An arena one place short is written beyond its end: the sanitizer sees it, and the peak is not the plan's."""
    folder = tmp_path / "program"
    shutil.copytree(program, folder)
    header = folder / "model.h"
    planned = int(re.findall(r"ARENA_BYTES INT64_C\((\d+)\)", header.read_text())[0])
    header.write_text(changed(header.read_text(), r"(ARENA_BYTES INT64_C)\(\d+\)", rf"\1({planned - 64})"))
    linked(folder, runtime, ("-O1", *SANITIZE))
    result = run_program(folder)
    assert result.returncode != 0 and "heap-buffer-overflow" in result.stderr


def test_a_buffer_above_the_plan_shows(program: Path, tmp_path: Path, runtime: Runtime) -> None:
    folder = tmp_path / "program"
    shutil.copytree(program, folder)
    header = folder / "model.h"
    planned = int(re.findall(r"ARENA_BYTES INT64_C\((\d+)\)", header.read_text())[0])
    header.write_text(changed(header.read_text(), r"(ARENA_BYTES INT64_C)\(\d+\)", rf"\1({planned + 4096})"))
    linked(folder, runtime)
    peak, said = peak_of(run_program(folder).stderr)
    assert said - peak >= 4096
