"""The entries for training: names, types, micro-batches, ignored targets, the number of launches, bad input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.errors import DimensionBad, InputBad, InputOutOfRange, PreskError
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.models.families import model_from_config
from presk_db.recording.events import Recording
from presk_db.specs.record import recorded
from tests.training.training_cases import CONFIGS, spec_of

COURSE = Path(__file__).parents[2] / "fixtures/course_gpt/config.json"
Array = np.ndarray[Any, np.dtype[Any]]


def outputs(recording: Recording) -> dict[str, Array]:
    """The outputs by name."""
    return {t.name: t.data for t in recording.tensors if t.role == "output" and t.data is not None}


def inputs(recording: Recording) -> dict[str, Array]:
    """The inputs by name."""
    return {t.name: t.data for t in recording.tensors if t.role == "input" and t.data is not None}


def given(tmp_path: Path, arrays: dict[str, Array]) -> str:
    """A file of inputs."""
    path = tmp_path / "given.safetensors"
    write_safetensors(path, arrays)
    return str(path)


def test_the_course_gpt_needs_few_launches() -> None:
    model = model_from_config(json.loads(COURSE.read_text()))
    order = launch_order(model.graph("loss_grad", model.dimensions({})), Realization("f32"))
    assert len(order.launches) <= 250


def test_outputs_and_inputs_have_the_parameters_names(tmp_path: Path) -> None:
    recording = recorded(spec_of(tmp_path, "gpt2", "train_step"))
    names = [b.name for b in recording.order.buffers if b.role == "weight"]
    found = set(outputs(recording))
    assert found == {"loss", "norm", "step"} | {f"{k}.{n}" for k in ("p", "m", "v") for n in names}
    assert set(inputs(recording)) == {"tokens", "targets", "lr", "step"} | {
        f"{k}.{n}" for k in ("m", "v") for n in names
    }
    assert set(outputs(recorded(spec_of(tmp_path, "gpt2", "loss_grad")))) == {"loss"} | {f"grad.{n}" for n in names}
    sgd = recorded(spec_of(tmp_path, "gpt2", "train_step_sgd"))
    assert set(outputs(sgd)) == {"loss", "norm"} | {f"p.{n}" for n in names}
    assert set(inputs(sgd)) == {"tokens", "targets", "lr"}


@pytest.mark.parametrize("type_", ["f64", "f32", "bf16", "mixed"])
def test_scalars_are_f64_in_every_realization(tmp_path: Path, type_: str) -> None:
    recording = recorded(spec_of(tmp_path, "llama", "train_step", type=type_))
    types = {b.name: b.type for b in recording.order.buffers}
    assert types["lr"] == types["step"] == "f64"
    assert float(inputs(recording)["lr"]) == 1e-3 and float(inputs(recording)["step"]) == 1.0
    outside = "f32" if type_ == "mixed" else type_
    wanted = {b.type for b in recording.order.buffers if b.role in ("weight", "output") and b.name != "step"}
    assert wanted == {outside}
    assert all(float(v.min()) >= 0 for n, v in inputs(recording).items() if n.startswith("v.") and type_ != "bf16")
    assert ("bf16" in types.values()) == (type_ in ("bf16", "mixed"))


def test_micro_batches_give_the_whole_batch(tmp_path: Path) -> None:
    once = recorded(spec_of(tmp_path, "gpt2", "loss_grad", type="f64", dims={"B": 4}))
    arrays = {n: a.reshape(2, 2, 6) for n, a in inputs(once).items()}
    spec = spec_of(tmp_path, "gpt2", "loss_grad", type="f64", dims={"M": 2, "B": 2}, inputs=given(tmp_path, arrays))
    twice = outputs(recorded(spec))
    for name, array in outputs(once).items():
        assert np.abs(twice[name] - array).max() < 1e-13


@pytest.mark.parametrize("entry", ["loss_grad", "train_step"])
def test_recomputing_gives_the_same_bits(tmp_path: Path, entry: str) -> None:
    kept, again = (recorded(spec_of(tmp_path, "llama", entry, type="f64", remat=r)) for r in (False, True))
    for name, array in outputs(kept).items():
        assert array.tobytes() == outputs(again)[name].tobytes(), name
    temporary = [sum(b.bytes for b in r.order.buffers if b.role == "temp") for r in (kept, again)]
    assert len(again.order.launches) > len(kept.order.launches)
    assert temporary[0] > 0


def test_ignored_targets(tmp_path: Path) -> None:
    first = inputs(recorded(spec_of(tmp_path, "gpt2", "loss")))
    vocabulary = CONFIGS["gpt2"]["vocab_size"]

    def loss(targets: Array) -> float:
        file = given(tmp_path, {"tokens": first["tokens"], "targets": targets})
        return float(outputs(recorded(spec_of(tmp_path, "gpt2", "loss", type="f64", inputs=file)))["loss"])

    each = []
    for t in range(6):
        one = np.full((1, 6), vocabulary, np.int64)
        one[0, t] = t
        each.append(loss(one))
    assert abs(loss(np.arange(6)[None]) - sum(each) / 6) < 1e-14
    assert np.isnan(loss(np.full((1, 6), vocabulary, np.int64)))


def failure(tmp_path: Path, entry: str, change: dict[str, Any]) -> PreskError:
    """The error of an entry whose recorded inputs are changed; None leaves one out."""
    arrays = {**inputs(recorded(spec_of(tmp_path, "gpt2", entry))), **change}
    file = given(tmp_path, {n: np.asarray(a) for n, a in arrays.items() if a is not None})
    with pytest.raises(PreskError) as e:
        recorded(spec_of(tmp_path, "gpt2", entry, inputs=file))
    return e.value


def test_bad_input(tmp_path: Path) -> None:
    wrong = failure(tmp_path, "loss", {"targets": np.full((1, 6), 12)})
    assert isinstance(wrong, InputOutOfRange) and "12" in wrong.message
    assert isinstance(failure(tmp_path, "loss", {"targets": np.full((1, 6), -1)}), InputOutOfRange)
    for name in ("lr", "step"):
        assert isinstance(failure(tmp_path, "train_step", {name: None}), InputBad)
        for value in (np.nan, np.inf, -np.inf):
            wrong = failure(tmp_path, "train_step", {name: np.float64(value)})
            assert isinstance(wrong, InputBad) and "finite" in wrong.message and wrong.place == name
    with pytest.raises(DimensionBad):
        recorded(spec_of(tmp_path, "gpt2", "forward", dims={"M": 2}))
