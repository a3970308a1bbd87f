"""presk diff: what changed between two recordings, each change where it is, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline import GPT2, MLP, Presk, config_file, stored

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.draw import drawn_weight
from presk_db.store import differences as module
from presk_db.store.differences import SECTIONS, differences
from presk_db.store.engine import Engine, open_database, reading
from presk_db.store.recordings import StoredRecording
from presk_db.store.tensors import read_tensors

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """One database for all recordings here."""
    return open_database(str(tmp_path_factory.mktemp("diff") / "presk.db"), create=True)


@pytest.fixture
def record(engine: Engine, tmp_path: Path) -> Callable[..., StoredRecording]:
    """Records a small GPT-2 with another config, or another spec."""

    def recorded(config: dict[str, Any] | None = None, **flags: Any) -> StoredRecording:
        return stored(engine, config_file(tmp_path, {**GPT2, **(config or {})}), **{"dims": {"T": 3}, **flags})

    return recorded


def found(engine: Engine, a: StoredRecording, b: StoredRecording) -> Rows:
    sections = differences(engine, a.id, b.id)
    return {s.name: [dict(zip(s.answer.columns, row, strict=True)) for row in s.answer.rows] for s in sections}


def test_each_query_has_a_file_and_a_title() -> None:
    files = sorted((Path(module.__file__).parent / "differences").glob("*.sql"))
    assert sorted(f.stem for f in files) == sorted(SECTIONS)
    assert all(f.read_text().startswith("-- ") for f in files)


def test_equal_recordings(engine: Engine, record: Callable[..., StoredRecording]) -> None:
    a, b = record(), record()
    assert a.id != b.id
    assert found(engine, a, b) == {}
    assert found(engine, a, record(name="other")) == {"recording": [{"fact": "name", "a": "tiny", "b": "other"}]}


def test_another_seed_of_the_inputs(engine: Engine, record: Callable[..., StoredRecording]) -> None:
    a, b = record(), record(inputs="seed:5")
    rows = found(engine, a, b)
    assert list(rows) == ["spec", "tensors", "first_launch", "outputs"]
    assert rows["spec"] == [{"key": "$.inputs.seed", "a": 1, "b": 5}]
    assert [(r["role"], r["name"]) for r in rows["tensors"]] == [("input", "tokens"), ("native_output", "logits")]
    assert (rows["first_launch"][0]["operation_a"], rows["first_launch"][0]["label"]) == (0, "gather_add")
    (x,), (y,) = ([t.data for t in read_tensors(engine, r.id, "output")] for r in (a, b))
    assert x is not None and y is not None
    differ = x.view(np.uint32) != y.view(np.uint32)
    (output,) = rows["outputs"]
    assert (output["elements"], output["differ"], output["first"]) == (33, int(differ.sum()), int(differ.argmax()))
    assert output["largest_difference"] == float(np.abs(x.astype(np.float64) - y).max())


def test_one_weight_of_a_checkpoint(engine: Engine, record: Callable[..., StoredRecording], tmp_path: Path) -> None:
    """The first launch that reads it is the first that writes something else."""
    a = record()
    with reading(engine) as connection:
        query = "select distinct tensor, shape from weight_parts where recording_id = ?"
        parts = connection.exec_driver_sql(query, (a.id,)).all()
    tensors = {name: drawn_weight(3, name, tuple(json.loads(shape)), -1.0, 1.0) for name, shape in parts}
    write_safetensors(tmp_path / "a.safetensors", tensors)
    tensors["transformer.h.1.mlp.c_fc.bias"] = tensors["transformer.h.1.mlp.c_fc.bias"] + np.float32(1)
    write_safetensors(tmp_path / "b.safetensors", tensors)
    first, second = (record(weights=str(tmp_path / f"{n}.safetensors")) for n in "ab")
    rows = found(engine, first, second)
    assert list(rows) == ["recording", "spec", "tensors", "first_launch", "outputs"]
    assert [(r["role"], r["name"]) for r in rows["tensors"]] == [("native_output", "logits"), ("weight", "h.mlp.fc.b")]
    (launch,) = rows["first_launch"]
    assert (launch["path"], launch["label"]) == ("forward/block[1]/mlp/linear", "linear_gelu_tanh")
    assert launch["same_kernel"] is True
    assert launch["differ"] == 4, "it, the residual, the last norm and the head"


def test_another_layer(engine: Engine, record: Callable[..., StoredRecording]) -> None:
    a, b = record(), record({"n_layer": 3})
    rows = found(engine, a, b)
    assert {"key": "$.model.config.n_layer", "a": 2, "b": 3} in rows["spec"]
    added = [r for r in rows["launches"] if r["what"] == "only in b"]
    (launches,) = (r["b"] - r["a"] for r in rows["sizes"] if r["size"] == "launches")
    assert len(added) == len(rows["launches"]) == launches > 0
    assert all(r["path"].startswith("forward/block[2]") for r in added)
    assert {r["label"] for r in rows["kernels"]} >= {"layer_norm", "linear_gelu_tanh"}
    (block,) = [r for r in rows["functions"] if r["function"] == "block"]
    assert (block["calls_a"], block["calls_b"], block["forms_a"], block["forms_b"]) == (2, 3, 1, 1)
    assert [(r["function"], r["calls_a"], r["calls_b"]) for r in rows["forms"] if r["function"] == "mlp"] == [
        ("mlp", 2, 3)
    ]
    assert {"role": "weight", "name": "h.mlp.fc.b", "a": "f32[2,32]", "b": "f32[3,32]", "more_bytes": 128} in rows[
        "buffers"
    ]


def test_other_types(engine: Engine, record: Callable[..., StoredRecording]) -> None:
    a, b = record(), record(type="bf16")
    rows = found(engine, a, b)
    assert {r["what"] for r in rows["launches"]} == {"another kernel"}
    (arena,) = [r for r in rows["sizes"] if r["size"] == "arena bytes"]
    assert arena["a"] == 2 * arena["b"]
    assert "outputs" not in rows, "they have no type in common"
    again = found(engine, b, a)
    assert {k: len(v) for k, v in again.items()} == {k: len(v) for k, v in rows.items()}


def test_another_activation(engine: Engine, record: Callable[..., StoredRecording]) -> None:
    """One kernel for another, and what follows from it."""
    rows = found(engine, record(), record({"activation_function": "relu"}))
    changed = [(r["path"], r["what"]) for r in rows["launches"]]
    assert changed and all(path.startswith("forward/block[") and "/mlp" in path for path, _ in changed)
    assert rows["first_launch"][0]["path"].startswith("forward/block[0]/mlp")


def test_values_have_their_type_in_json(engine: Engine, record: Callable[..., StoredRecording], presk: Presk) -> None:
    """Truth values are not numbers, and a real number has all its digits."""
    a = record({"layer_norm_epsilon": 0.1}, name="typed a")
    b = record({"layer_norm_epsilon": 0.1 + 2**-56, "tie_word_embeddings": True}, name="typed b")
    rows = json.loads(presk("diff", a.name, b.name, "--json", "--db", str(engine.url.database)).out)
    assert {"key": "$.model.config.tie_word_embeddings", "a": False, "b": True} in rows["spec"]
    assert {"key": "$.model.config.layer_norm_epsilon", "a": 0.1, "b": 0.1 + 2**-56} in rows["spec"]
    assert rows["first_launch"][0]["same_kernel"] in (True, False)
    assert type(rows["first_launch"][0]["same_kernel"]) is bool
    table = presk("diff", a.name, b.name, "--db", str(engine.url.database)).out
    assert "$.model.config.tie_word_embeddings  false" in table


def test_the_command(engine: Engine, record: Callable[..., StoredRecording], tmp_path: Path, presk: Presk) -> None:
    """As a table, as JSON, and across two databases, which are not changed."""
    a, b = record(name="a"), record({"n_layer": 3}, name="b")
    db = ("--db", str(engine.url.database))
    said = presk("diff", a.digest[:16], b.digest[:16], *db)
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines()[0] == "recording: What was recorded, and from which weights."
    assert "… and " in presk("diff", "a", "b", "--rows", "2", *db).out
    assert "… and " not in presk("diff", "a", "b", "--rows", "0", *db).out
    rows = json.loads(presk("diff", "a", "b", "--json", *db).out)
    assert rows == found(engine, a, b)
    other = open_database(str(tmp_path / "other.db"), create=True)
    stored(other, str(MLP))
    stored(other, config_file(tmp_path, {**GPT2, "n_layer": 3}), dims={"T": 3}, name="b")
    files = [Path(str(e.url.database)).read_bytes() for e in (engine, other)]
    assert json.loads(presk("diff", "a", "latest", "--db2", tmp_path / "other.db", "--json", *db).out) == rows
    assert [Path(str(e.url.database)).read_bytes() for e in (engine, other)] == files
    assert presk("diff", "a", "a", *db).out == "a and a do not differ\n"
    assert presk("diff", "a", "none", *db).err.startswith("presk: error E5003 none: ")
