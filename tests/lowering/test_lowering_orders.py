"""Launch orders of the families, realizations, rounding of bf16, and texts that do not depend on a hash seed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering_cases import check_order, contents, graph_of, native, real, weight

from presk_db.errors import RealizationUnreadable, SiteUnknown, TypeUnknown
from presk_db.kernels.launches import LaunchOrder
from presk_db.language import elementwise
from presk_db.language.nn import linear, softmax
from presk_db.language.tracing import fold
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization, realization_from_toml, realization_of_type
from presk_db.models.families import model_from_config

ROOT = Path(__file__).resolve().parent.parent.parent
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 10,
    "vocab_size": 7,
}


def order_of(config: dict[str, Any], type_: str = "f32", **dims: int) -> LaunchOrder:
    """The forward pass of a config."""
    model = model_from_config(config)
    return launch_order(model.graph("forward", model.dimensions(dims)), Realization(type_))


def course_gpt() -> dict[str, Any]:
    """The config of the course GPT."""
    config: dict[str, Any] = json.loads((ROOT / "fixtures/course_gpt/config.json").read_text())
    return config


def test_launches_of_the_course_gpt() -> None:
    order = order_of(course_gpt(), B=1, T=256)
    check_order(order)
    assert len(order.launches) <= 57
    assert len(order.kernels()) <= 14


def test_launches_of_llama() -> None:
    one, many = (len(order_of(LLAMA | {"num_hidden_layers": n}, B=2, T=5).launches) for n in (1, 3))
    assert (many - one) // 2 <= 14
    check_order(order_of(LLAMA, B=2, T=5))


def test_layers_share_their_kernels() -> None:
    few, many = (len(order_of(LLAMA | {"num_hidden_layers": n}, B=2, T=5).kernels()) for n in (1, 3))
    assert few == many


@pytest.mark.parametrize("change", [{}, {"num_hidden_layers": 0}, {"tie_word_embeddings": True}, {"vocab_size": 1}])
@pytest.mark.parametrize("dims", [{"B": 1, "T": 1}, {"B": 3, "T": 2}])
def test_small_orders(change: dict[str, Any], dims: dict[str, int]) -> None:
    check_order(order_of(LLAMA | change, **dims))
    gpt = {"model_type": "gpt2", "n_layer": 1, "n_embd": 4, "n_head": 1, "n_positions": 5, "vocab_size": 3}
    check_order(order_of(gpt, **dims))


def test_weight_parts_fill_the_weights() -> None:
    order = order_of(LLAMA, B=1, T=3)
    for buffer in order.buffers:
        if buffer.role == "weight":
            parts = [q for q in order.weights if q.buffer == buffer.id]
            ends = [q.offset + int(np.prod(q.shape)) for q in parts]
            assert [q.offset for q in parts] == [0, *ends[:-1]] and ends[-1] == buffer.elements


# --- realizations -----------------------------------------------------------------------------------------------


def test_mixed_types_convert_once_where_they_meet() -> None:
    graph = graph_of(lambda w, x: softmax(linear(x, w)) + 1.0, weight(4, 3), x=real(2, 4))
    rules = (("parameters/*", "bf16"), ("inputs/x", "f64"), ("*/softmax", "f64"), ("*/linear/matmul", "bf16"))
    order = launch_order(graph, Realization("f32", rules))
    check_order(order)
    types = {b.name: b.type for b in order.buffers}
    assert types["x"] == "f64" and types[next(b.name for b in order.buffers if b.role == "weight")] == "bf16"
    assert types["output"] == "f32"
    product = order.launches[0].kernel.text
    assert "in a0: f64[2,4]" in product and "in a1: bf16[4,3]" in product and "out a2: bf16[2,3]" in product
    assert product.count("cvt.f32") == 1 and "mul.f32" in product


def test_the_last_rule_that_matches_wins() -> None:
    realization = Realization("f32", (("a/*", "f64"), ("a/b", "bf16"), ("*", "f64")))
    assert realization.type_of("a/b") == "f64"
    assert Realization("f32", (("*", "f64"), ("a/b", "bf16"))).type_of("a/b/c") == "bf16"


def test_a_stack_of_other_type_than_its_parts() -> None:
    graph = graph_of(
        lambda w, x: fold(lambda c, l: (c + l, elementwise.tanh(c * l)), x, w, collect=True)[1], weight(2, 3), x=real(3)
    )
    order = launch_order(graph, Realization("f32", (("*/tanh", "f64"),)))
    check_order(order)


def test_realization_errors(tmp_path: Path) -> None:
    graph = graph_of(lambda _, x: x + 1.0, None, x=real(2))
    with pytest.raises(SiteUnknown) as site:
        launch_order(graph, Realization("f32", (("*/nowhere", "f64"),)))
    assert site.value.code == "E3002" and site.value.place == "sites.*/nowhere"
    with pytest.raises(TypeUnknown) as type_:
        realization_of_type("f16")
    assert type_.value.code == "E3003"
    path = tmp_path / "r.toml"
    for text in ("type = ", "kind = 'f32'", "sites = 3"):
        path.write_text(text)
        with pytest.raises(RealizationUnreadable) as unreadable:
            realization_from_toml(path)
        assert unreadable.value.code == "E3001"
    for text in ("type = 'f33'", "type = 3", "type = []", "sites = {'*' = 'int8'}", "sites = {'*' = ['f32']}"):
        path.write_text(text)
        with pytest.raises(TypeUnknown):
            realization_from_toml(path)
    with pytest.raises(RealizationUnreadable):
        realization_from_toml(tmp_path / "missing.toml")
    path.write_text("type = 'f64'\n[sites]\n'*/exp' = 'bf16'\n'inputs/*' = 'f32'\n")
    assert realization_from_toml(path) == Realization("f64", (("*/exp", "bf16"), ("inputs/*", "f32")))


# --- bf16 -------------------------------------------------------------------------------------------------------


def test_bf16_rounds_once_at_the_store() -> None:
    graph = graph_of(lambda _, x: (x + 0.001) * 1.001 - 0.002, None, x=real(64))
    order = launch_order(graph, Realization("bf16"))
    (launch,) = order.launches
    assert launch.kernel.text == (
        "in a0: bf16[64]\n"
        "out a1: bf16[64]\n"
        "v1 = const.f32 0x1.0624de0000000p-10\n"
        "v3 = const.f32 0x1.00418a0000000p+0\n"
        "v5 = const.f32 0x1.0624de0000000p-9\n"
        "par i0 < 64\n"
        "  v0 = load a0[i0]\n"
        "  v2 = add.f32 v0 v1\n"
        "  v4 = mul.f32 v2 v3\n"
        "  v6 = sub.f32 v4 v5\n"
        "  store a1[i0] v6\n"
        "end\n"
    )
    _, inputs = contents(graph, "f32")
    bits = (inputs["x"].view(np.uint32) >> 16).astype(np.uint16)
    found = native(order, {}, {"x": bits})["output"]
    x = (bits.astype(np.uint32) << 16).view(np.float32)
    y = (x + np.float32(0.001)) * np.float32(1.001) - np.float32(0.002)
    u = y.view(np.uint32)
    assert np.array_equal(found, ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16))


# --- determinism ------------------------------------------------------------------------------------------------

_DIGEST = """
import json, hashlib, sys
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.models.families import model_from_config
model = model_from_config(json.loads(sys.argv[1]))
graph = model.graph("forward", model.dimensions({"B": 2, "T": 5}))
order = launch_order(graph, Realization("f32"))
text = graph.text() + "".join(k.text for k in order.kernels()) + repr(order)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_texts_do_not_depend_on_the_hash_seed() -> None:
    digests = set()
    for seed in ("0", "1", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", _DIGEST, json.dumps(LLAMA)]
        digests.add(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)
    assert len(digests) == 1 and len(digests.pop().strip()) == len(hashlib.sha256().hexdigest())
