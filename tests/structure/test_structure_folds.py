"""Folds of every kind: the program's loops, and the bits of both programs, in an arena of NaNs."""

from pathlib import Path

import pytest
from building import Runtime, check_both, query, stored
from sqlalchemy import Engine

from presk_db.store.recordings import StoredRecording
from presk_db.store.tensors import read_tensors

FOLDS = Path(__file__).with_name("folds.py")

LOOPS: dict[str, list[tuple[int, int]]] = {
    "ascending": [(1, 10)],
    "padded": [(0, 11)],
    "descending": [(10, 1)],
    "up_and_down": [(1, 10), (10, 1)],
    "collected": [(1, 11)],
    "collected_down": [(10, 1)],
    "ping_pong": [(0, 11)],
    "three_places": [(0, 11)],
    "nested": [(1, 2), (0, 2)],
    "nested_descending": [(2, 1), (0, 2)],
    "called_twice": [(1, 4)],
    "two_folds": [(1, 3), (0, 3)],
    "one_layer": [],
    "two_layers": [(0, 1)],
    "two_layers_down": [(1, 0)],
    "two_layers_alone": [],
    "shared": [(0, 11)],
}
"""The first and last iteration of each loop of the entry's program."""

EQUAL = {"called_twice": "ascending", "nested": "padded"}
"""Entries that compute the same in another arrangement."""


def output_of(engine: Engine, recording: StoredRecording) -> bytes:
    (tensor,) = read_tensors(engine, recording.id, "output")
    assert tensor.data is not None
    return tensor.data.tobytes()


@pytest.mark.parametrize("entry", LOOPS)
def test_fold(entry: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    recording = stored(engine, f"{FOLDS}:{entry}", entry=entry)
    model = check_both(engine, recording, tmp_path, runtime)
    sql = "select first_iteration, last_iteration from loops where recording_id = :r order by form, first_item"
    assert query(engine, sql, recording) == LOOPS[entry]
    assert model.count("for (ptrdiff_t l = 0") == len(LOOPS[entry])
    if entry in EQUAL:
        other = stored(engine, f"{FOLDS}:{EQUAL[entry]}", entry=EQUAL[entry])
        assert output_of(engine, recording) == output_of(engine, other)


@pytest.mark.parametrize(("entry", "places"), [("padded", 2), ("ping_pong", 2), ("three_places", 3), ("nested", 2)])
def test_what_is_handed_on_takes_turns(entry: str, places: int, engine: Engine) -> None:
    recording = stored(engine, f"{FOLDS}:{entry}", entry=entry)
    assert query(engine, "select max(period) from loop_arguments where recording_id = :r", recording) == [(places,)]


@pytest.mark.parametrize("entry", ["nested", "called_twice", "two_folds"])
def test_slices_of_layers_are_not_copied(entry: str, engine: Engine) -> None:
    recording = stored(engine, f"{FOLDS}:{entry}", entry=entry)
    sql = "select count(*) from buffers where recording_id = :r and name like '%copy'"
    assert query(engine, sql, recording) == [(0,)]


def test_a_function_with_a_fold_is_one_form(engine: Engine) -> None:
    recording = stored(engine, f"{FOLDS}:called_twice", entry="called_twice")
    sql = (
        "select count(distinct f.number), count(*) from forms f"
        " join functions u on u.recording_id = f.recording_id and u.number = f.function and u.name = 'tower'"
        " join call_forms c on c.recording_id = f.recording_id and c.form = f.number where f.recording_id = :r"
    )
    assert query(engine, sql, recording) == [(1, 2)]
