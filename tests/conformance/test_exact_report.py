"""Small networks against their exact values: small errors, planted faults that show, rows, the enclosure file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, text

from presk_db import language as L
from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.conformance.balls import working_precision
from presk_db.conformance.exact import MOST_BITS, enclosed, exact_report, first_precision, graph_arguments
from presk_db.conformance.exact_condition import condition, origin
from presk_db.conformance.exact_error import native_values, output_error
from presk_db.conformance.exact_evaluate import exact_values
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import ExactUndecided, WeightsNotFound
from presk_db.language.graph import Graph, Input, equations
from presk_db.language.parser import graph_from_text
from presk_db.language.tracing import graph_from_entry
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.check import check_database
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.exact import OutputError, read_enclosures, read_errors
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import StoredRecording, read_graph
from presk_db.store.tensors import read_tensors

CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 8, "vocab_size": 13,
        "tie_word_embeddings": False,
    },
    "llama": {
        "model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 2, "intermediate_size": 24, "vocab_size": 13, "max_position_embeddings": 8,
    },
}  # fmt: skip
TYPES = ("f64", "f32", "bf16")
Made = tuple[Engine, StoredRecording]


def made(folder: Path, family: str, type_: str) -> Made:
    config = folder / "config.json"
    config.write_text(json.dumps(CONFIGS[family]))
    spec = spec_from(str(config), {"type": type_, "dims": {"B": 2, "T": 5}})
    engine = open_database(str(folder / "presk.db"), create=True)
    return engine, write_recording(engine, recorded(spec))


def against(
    engine: Engine, recording: StoredRecording, graph: Graph, change: Callable[[dict[str, Any]], None]
) -> float:
    """The largest error in ulp of the recorded run against the exact entry with changed arguments."""
    arguments = graph_arguments(engine, recording, graph, None, lambda stage, done, total: None)
    named = dict(zip([n for n, _ in (*graph.parameters, *graph.inputs)], arguments, strict=True))
    change(named)
    native = read_tensors(engine, recording.id, "output")[0]
    assert native.data is not None
    values, precision = enclosed(graph, list(named.values()), {native.name: native.type})
    with working_precision(precision):
        return output_error(native_values(native.data, native.type), values.results[native.name], native.type).max_ulp


@pytest.mark.parametrize("family", CONFIGS)
def test_errors_are_small_in_every_type(tmp_path: Path, family: str) -> None:
    for type_ in TYPES:
        folder = tmp_path / type_
        folder.mkdir()
        engine, recording = made(folder, family, type_)
        report = exact_report(engine, recording)
        error = report.outputs[0].error
        assert 0 < error.mean_ulp < error.max_ulp < 2000
        assert error.radius_ulp <= 2.0**-10
        assert sum(n for _, n in error.histogram) == 2 * 5 * 13
        assert error.worst is not None and error.worst.condition is not None and error.worst.condition >= 1
        assert f"logits {type_}[2,5,13]: max " in report.text()


@pytest.mark.parametrize("family", CONFIGS)
def test_a_planted_fault_is_a_jump(tmp_path: Path, family: str) -> None:
    engine, recording = made(tmp_path, family, "f64")
    graph = graph_from_text(read_graph(engine, recording.id))
    sound = against(engine, recording, graph, lambda named: None)
    assert 0 < sound < 2000

    def weight(named: dict[str, Any]) -> None:
        name = next(n for n in named if n.endswith(("fc.w", "up.w")))
        named[name] = named[name].copy()
        named[name][1, 2, 3] = np.nextafter(named[name][1, 2, 3], np.float32(np.inf))

    def scale(named: dict[str, Any]) -> None:
        name = next(n for n in named if n.endswith(("ln_2.w", "post_norm")))
        named[name] = np.roll(named[name], 1, axis=-1)

    for change in (weight, scale):
        assert against(engine, recording, graph, change) > 1000 * sound
    eps = next(e["value"] for e in equations(graph) if e.op == "const" and 0 < e["value"] < 1e-4)
    other = graph_from_text(graph.text().replace(f"value={eps}", "value=1.1e-05"))
    assert against(engine, recording, other, lambda named: None) > 1000 * sound


@pytest.mark.parametrize("family", CONFIGS)
def test_enclosures_contain_a_run_of_twice_the_precision(tmp_path: Path, family: str) -> None:
    engine, recording = made(tmp_path, family, "f32")
    report = exact_report(engine, recording)
    graph = graph_from_text(read_graph(engine, recording.id))
    arguments = graph_arguments(engine, recording, graph, None, lambda stage, done, total: None)
    with working_precision(2 * report.precision):
        again = exact_values(graph, arguments, 2 * report.precision).results["logits"]
        output = report.outputs[0]
        for low, x, high, near in zip(
            output.lower.flat, again.flat, output.upper.flat, output.rounded.flat, strict=True
        ):
            assert low <= x <= high  # certain for the whole ball
            assert low <= near <= high and high - low <= 3e-16 * max(abs(low), abs(high))


def test_rows_say_the_same_and_are_replaced(tmp_path: Path) -> None:
    engine, recording = made(tmp_path, "gpt2", "f32")
    assert read_errors(engine, recording.id) == ()
    first = exact_report(engine, recording)
    second = exact_report(engine, recording)
    assert read_errors(engine, recording.id) == (("logits", first.outputs[0].error),)
    assert first.outputs[0].error == second.outputs[0].error
    exact = read_tensors(engine, recording.id, "exact_output")
    assert [t.type for t in exact] == ["f64"] and np.array_equal(exact[0].data, first.outputs[0].rounded)
    with reading(engine) as connection:
        (bounds,) = read_enclosures(connection, recording.id)
        types = connection.execute(
            text(
                "select distinct typeof(max_ulp), typeof(native_bits), typeof(precision) from exact_errors, exact_runs"
            )
        ).all()
    assert np.array_equal(bounds.lower, first.outputs[0].lower) and np.array_equal(bounds.upper, first.outputs[0].upper)
    assert types == [("text", "integer", "integer")]
    assert check_database(str(tmp_path / "presk.db")) == []


def test_an_emission_holds_the_enclosures_once_they_are_known(tmp_path: Path) -> None:
    engine, recording = made(tmp_path, "gpt2", "f32")

    def emitted(name: str) -> Path:
        with emission_reader(engine, recording.id) as reader:
            emit_to(reader, recording, generator("c_program"), tmp_path / name, {})
        return tmp_path / name / "conformance/exact.safetensors"

    assert not emitted("before").exists()
    output = exact_report(engine, recording).outputs[0]
    file = SafetensorsFile(str(emitted("after")))
    assert sorted(file.names()) == ["logits.lower", "logits.upper"]
    assert file.info("logits.lower").dtype == "F64"
    assert np.array_equal(file.read("logits.lower"), output.lower)
    assert np.array_equal(file.read("logits.upper"), output.upper)


def test_the_database_suffices_and_other_weights_are_refused(tmp_path: Path) -> None:
    engine, recording = made(tmp_path, "gpt2", "f32")
    (tmp_path / "config.json").unlink()
    exact_report(engine, recording)
    with writing(engine) as connection:
        connection.execute(text("update recordings set weights_kind = 'file', weights_seed = null"))
    changed = StoredRecording(**{**vars(recording), "weights_kind": "file", "weights_seed": None})
    with pytest.raises(WeightsNotFound, match="give --weights"):
        exact_report(engine, changed)


def graph_of(fn: Callable[..., Any], **inputs: Input) -> Graph:
    return graph_from_entry(lambda p, **given: fn(**given), {}, inputs)


def test_a_tie_is_refused_in_one_line_with_its_place() -> None:
    def tie(x: Any) -> Any:
        return L.argmax(L.concat([x / 3.0, x / 3.0 + x * 0.0], 0))

    graph = graph_of(tie, x=Input("real", (1,)))
    with pytest.raises(ExactUndecided, match=r"E7005 .*argmax \(test_exact_report\.py:\d+\): two values are too close"):
        enclosed(graph, [np.array([0.1])], {"output": "i64"}, most_bits=256)


def test_the_precision_is_raised_until_enough_is_known() -> None:
    def cancelled(x: Any) -> Any:
        return (x + L.exp(x * 0.0 + 300.0)) - L.exp(x * 0.0 + 300.0)

    graph = graph_of(cancelled, x=Input("real", (1,)))
    values, precision = enclosed(graph, [np.array([0.75])], {"output": "f64"})
    assert precision > first_precision(graph) and values.results["output"][0].contains(0.75)
    assert values.results["output"][0].rel_accuracy_bits() > 60
    assert enclosed(graph, [np.array([0.75])], {"output": "f64"}, most_bits=128)[1] == 128 < MOST_BITS


def test_conditions_worked_out_by_hand() -> None:
    def entry(x: Any, y: Any) -> Any:
        product = L.linear(L.reshape(x, 2, 2), y)  # a call: its last product is followed
        return {"sum": L.sum(x), "product": L.transpose(product) / 2.0, "plain": L.exp(x)}

    graph = graph_of(entry, x=Input("real", (4,)), y=Input("real", (2, 2)))
    x, y = np.array([3.0, -2.0, 1.0, -1.5]), np.array([[1.0, 2.0], [0.5, 4.0]])
    frame = exact_values(graph, [x, y], 128).frame
    assert condition(frame, 0, ()) == pytest.approx(7.5 / 0.5)
    assert condition(frame, 1, (0, 0)) == pytest.approx((3 * 1 + 2 * 0.5) / abs(3 * 1 - 2 * 0.5))
    assert condition(frame, 1, (1, 0)) == pytest.approx((3 * 2 + 2 * 4) / abs(3 * 2 - 2 * 4))
    assert condition(frame, 2, (1,)) == 1.0


def test_layouts_lead_back_to_the_operands_element() -> None:
    def entry(x: Any) -> Any:
        a = L.transpose(x, 2, 0, 1)[1:3]
        return L.broadcast_to(L.reshape(a, 4, 1, 3), (2, 4, 5, 3))

    graph = graph_of(entry, x=Input("real", (2, 3, 4)))
    x = np.arange(24.0).reshape(2, 3, 4)
    out = exact_values(graph, [x], 64).results["output"]
    for at in np.ndindex(out.shape):
        index = at
        for e in reversed(graph.entry.equations):
            index = origin(e, index)
        assert x[index] == out[at]


def test_an_error_row_survives_its_text() -> None:
    error = OutputError(0.1, 1 / 3, 2.0**-300, None, (), 0, 0)
    assert float.fromhex(error.mean_ulp.hex()) == error.mean_ulp
