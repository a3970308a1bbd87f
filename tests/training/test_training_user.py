"""A user's own training entry in a Python file: the numbers, the program's bytes, an update that is not returned."""

from pathlib import Path

import numpy as np
import pytest

from presk_db.conformance.check import checked
from presk_db.conformance.program import Build
from presk_db.errors import EntryBad
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

FILE = Path(__file__).parents[2] / "fixtures/user/regression.py"


def test_a_step(tmp_path: Path) -> None:
    recording = recorded(spec_from(f"{FILE}:train_step", {"type": "f64"}))
    values = {(t.role, t.name): t.data for t in recording.tensors}
    weights = recorded(spec_from(f"{FILE}:train_step", {"type": "f64", "inputs": "seed:2"}))
    assert [t.digest for t in recording.tensors if t.role == "weight"] == [
        t.digest for t in weights.tensors if t.role == "weight"
    ]
    x, y = values["input", "x"], values["input", "y"]
    difference = values["output", "difference"]
    assert x is not None and y is not None and difference is not None
    loss, new = values["output", "loss"], values["output", "new.w"]
    assert loss is not None and new is not None
    assert abs(float(loss) - float((difference * difference).mean())) < 1e-15
    step = 0.1 * 2.0 / 8 * (difference[:, None] * x).sum(0)
    old = new + step
    bias = values["output", "new.b"]
    assert bias is not None
    old_bias = float(bias) + 0.1 * 2.0 / 8 * float(difference.sum())
    assert np.abs(x @ old + old_bias - y - difference).max() < 1e-14
    database = open_database(str(tmp_path / "presk.db"), create=True)
    (result,) = checked(database, write_recording(database, recording), [Build("cc", "-O1")], straight_line=(True,))
    assert result.bytes > 0


def test_an_update_that_is_not_returned() -> None:
    with pytest.raises(EntryBad, match="not returned") as e:
        recorded(spec_from(f"{FILE}:forgetful", {}))
    assert e.value.place.startswith("regression.py:")
