"""Configs: what is read, what is refused with which code, and the parameters that come of it."""

from typing import Any

import pytest

from presk_db.errors import ConfigFieldUnknown, ConfigValueBad, DimensionBad, ModelUnknown, PreskError
from presk_db.language.tracing import flatten
from presk_db.models.config import HARMLESS
from presk_db.models.families import model_from_config
from presk_db.models.model import Model

GPT2: dict[str, Any] = {"model_type": "gpt2", "n_layer": 2, "n_embd": 6, "n_head": 3, "n_positions": 8, "vocab_size": 5}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 10,
    "vocab_size": 7,
    "max_position_embeddings": 32,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def family(name: str, **fields: Any) -> dict[str, Any]:
    """A small config of a relative of Llama."""
    return LLAMA | {"model_type": name} | fields


def text(config: dict[str, Any], **dims: int) -> str:
    """The forward pass's graph."""
    model = model_from_config(config)
    return model.graph("forward", model.dimensions(dims)).text()


def tensors(model: Model) -> dict[str, tuple[tuple[int, ...], bool]]:
    """The checkpoint's tensors that the model reads: shape as stored, and whether it is the transpose of ours."""
    found = [s for _, p in flatten(model.parameters({"B": 1, "T": 1})) for s in p.sources]
    assert len({s.name for s in found}) == len(found)
    return {s.name: (s.shape, s.transposed) for s in found}


BAD: list[tuple[dict[str, Any], type[PreskError], str]] = [
    ({}, ModelUnknown, "E1004"),
    ({"model_type": "bert"}, ModelUnknown, "E1004"),
    ({"model_type": ["gpt2"]}, ModelUnknown, "E1004"),
    (GPT2 | {"new_field": 1}, ConfigFieldUnknown, "E1005"),
    (GPT2 | {"scale_attn_weights": False}, ConfigFieldUnknown, "E1005"),
    (GPT2 | {"scale_attn_by_inverse_layer_idx": True}, ConfigFieldUnknown, "E1005"),
    (GPT2 | {"add_cross_attention": True}, ConfigFieldUnknown, "E1005"),
    (GPT2 | {"pruned_heads": {"0": [1]}}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"rope_interleaved": True}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"partial_rotary_factor": 0.5}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"quantization_config": {"bits": 4}}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"layer_types": ["full_attention", "sliding_attention"]}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"layer_types": "full_attention"}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"use_qk_norm": True}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "bos_token_id": 1}}, ConfigFieldUnknown, "E1005"),
    (LLAMA | {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, ConfigFieldUnknown, "E1005"),
    (family("mistral", attention_bias=True), ConfigFieldUnknown, "E1005"),
    (family("mistral", mlp_bias=True), ConfigFieldUnknown, "E1005"),
    (family("qwen2", attention_bias=False), ConfigFieldUnknown, "E1005"),
    (family("qwen3", mlp_bias=True), ConfigFieldUnknown, "E1005"),
    ({k: v for k, v in GPT2.items() if k != "n_layer"}, ConfigValueBad, "E1006"),
    (GPT2 | {"n_layer": -1}, ConfigValueBad, "E1006"),
    (GPT2 | {"n_layer": 2.0}, ConfigValueBad, "E1006"),
    (GPT2 | {"n_layer": True}, ConfigValueBad, "E1006"),
    (GPT2 | {"n_head": 0}, ConfigValueBad, "E1006"),
    (GPT2 | {"n_head": 4}, ConfigValueBad, "E1006"),
    (GPT2 | {"vocab_size": 0}, ConfigValueBad, "E1006"),
    (GPT2 | {"activation_function": "mish"}, ConfigValueBad, "E1006"),
    (GPT2 | {"layer_norm_epsilon": 0}, ConfigValueBad, "E1006"),
    (GPT2 | {"layer_norm_epsilon": float("nan")}, ConfigValueBad, "E1006"),
    (GPT2 | {"tie_word_embeddings": 1}, ConfigValueBad, "E1006"),
    (LLAMA | {"num_key_value_heads": 3}, ConfigValueBad, "E1006"),
    (LLAMA | {"head_dim": 5}, ConfigValueBad, "E1006"),
    (LLAMA | {"hidden_size": "12"}, ConfigValueBad, "E1006"),
    (LLAMA | {"rope_theta": -1.0}, ConfigValueBad, "E1006"),
    (LLAMA | {"rope_scaling": 2.0}, ConfigValueBad, "E1006"),
    (LLAMA | {"rope_scaling": {"type": "linear"}}, ConfigValueBad, "E1006"),
    (LLAMA | {"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, ConfigValueBad, "E1006"),
    (LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": LLAMA3}, ConfigValueBad, "E1006"),
    (family("mistral", sliding_window=0), ConfigValueBad, "E1006"),
]


@pytest.mark.parametrize(("config", "error", "code"), BAD)
def test_refused(config: dict[str, Any], error: type[PreskError], code: str) -> None:
    with pytest.raises(error) as caught:
        model_from_config(config, "here/config.json")
    assert caught.value.code == code and str(caught.value.place).startswith("here/config.json")


def test_harmless_fields_change_nothing() -> None:
    for config in (GPT2, LLAMA, family("qwen2"), family("qwen3", head_dim=4)):
        more = dict.fromkeys(HARMLESS - {"model_type"}, 3)
        assert text(config | more, B=1, T=3) == text(config, B=1, T=3)
    changing = {"rope_interleaved", "sliding_window", "head_dim", "tie_word_embeddings", "rope_theta", "hidden_act"}
    assert not changing & HARMLESS


@pytest.mark.parametrize("tied", [True, False])
def test_tensors_of_gpt2(tied: bool) -> None:
    found = tensors(model_from_config(GPT2 | {"tie_word_embeddings": tied, "n_inner": 7}))
    layer = {
        "ln_1.weight": (6,), "ln_1.bias": (6,), "attn.c_attn.weight": (6, 18), "attn.c_attn.bias": (18,),
        "attn.c_proj.weight": (6, 6), "attn.c_proj.bias": (6,), "ln_2.weight": (6,), "ln_2.bias": (6,),
        "mlp.c_fc.weight": (6, 7), "mlp.c_fc.bias": (7,), "mlp.c_proj.weight": (7, 6), "mlp.c_proj.bias": (6,),
    }  # fmt: skip
    wanted = {f"transformer.h.{l}.{n}": (s, False) for l in range(2) for n, s in layer.items()}
    wanted |= {f"transformer.{n}": (s, False) for n, s in (("wte.weight", (5, 6)), ("wpe.weight", (8, 6)))}
    wanted |= {"transformer.ln_f.weight": ((6,), False), "transformer.ln_f.bias": ((6,), False)}
    if not tied:
        wanted["lm_head.weight"] = ((5, 6), True)
    assert found == wanted


def test_tensors_of_llama() -> None:
    found = tensors(model_from_config(LLAMA | {"head_dim": 6, "attention_bias": True, "mlp_bias": True}))
    layer = {
        "self_attn.q_proj": (24, 16), "self_attn.k_proj": (12, 16), "self_attn.v_proj": (12, 16),
        "self_attn.o_proj": (16, 24), "mlp.gate_proj": (10, 16), "mlp.up_proj": (10, 16), "mlp.down_proj": (16, 10),
    }  # fmt: skip
    wanted: dict[str, Any] = {"model.embed_tokens.weight": ((7, 16), False), "model.norm.weight": ((16,), False)}
    wanted["lm_head.weight"] = ((7, 16), True)
    for l in range(2):
        for name, shape in layer.items():
            wanted[f"model.layers.{l}.{name}.weight"] = (shape, True)
            wanted[f"model.layers.{l}.{name}.bias"] = (shape[:1], False)
        for name in ("input_layernorm", "post_attention_layernorm"):
            wanted[f"model.layers.{l}.{name}.weight"] = ((16,), False)
    assert found == wanted
    assert "lm_head.weight" not in tensors(model_from_config(LLAMA | {"tie_word_embeddings": True}))


def test_tensors_of_the_relatives() -> None:
    plain = set(tensors(model_from_config(LLAMA)))
    assert set(tensors(model_from_config(family("mistral")))) == plain
    biases = {f"model.layers.{l}.self_attn.{n}_proj.bias" for l in range(2) for n in "qkv"}
    assert set(tensors(model_from_config(family("qwen2")))) == plain | biases
    norms = {f"model.layers.{l}.self_attn.{n}_norm.weight" for l in range(2) for n in "qk"}
    qwen3 = tensors(model_from_config(family("qwen3")))
    assert set(qwen3) == plain | norms
    assert qwen3["model.layers.0.self_attn.q_norm.weight"] == ((128,), False)  # the family's default head


def test_rotary_positions_are_read_from_each_place() -> None:
    theta = text(LLAMA | {"rope_theta": 77.0}, T=4)
    assert "value=77.0" in theta and "value=10000.0" in text(LLAMA, T=4)
    for fields in (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
        {"rope_parameters": {"rope_theta": 77.0}, "rope_theta": 5.0},
        {"rope_scaling": {"type": "default"}, "rope_theta": 77.0},
        {"rope_theta": 77.0, "rope_scaling": None, "rope_interleaved": False, "partial_rotary_factor": 1.0},
    ):
        assert text(LLAMA | fields, T=4) == theta
    linear = text(LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.5}}, T=4)
    assert "value=2.5" in linear
    assert text(LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 2.5}}, T=4) == linear
    assert "select" in text(LLAMA | {"rope_scaling": LLAMA3}, T=4)


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        (GPT2, 8),
        (LLAMA, 32),
        (LLAMA | {"sliding_window": 4}, 32),
        (family("mistral", sliding_window=9), 9),
        (family("mistral", sliding_window=None), 32),
        (family("mistral", max_position_embeddings=9999), 4096),
        (family("qwen2", sliding_window=9), 32),
        (family("qwen2", sliding_window=9, use_sliding_window=True, max_window_layers=1), 9),
        (family("qwen3", max_position_embeddings=9999, use_sliding_window=True), 4096),
    ],
)
def test_positions(config: dict[str, Any], longest: int) -> None:
    model = model_from_config(config)
    assert model.dimensions({})["T"] == longest
    for dims in ({"T": longest + 1}, {"T": 0}, {"B": 0}, {"X": 1}):
        with pytest.raises(DimensionBad) as caught:
            model.dimensions(dims)
        assert caught.value.code == "E1007"


@pytest.mark.parametrize("change", [{"n_layer": 0}, {"n_head": 1}, {"vocab_size": 1}, {"n_positions": 1}])
def test_small_gpt2(change: dict[str, Any]) -> None:
    assert f"real[1,1,{5 if 'vocab_size' not in change else 1}]" in text(GPT2 | change, B=1, T=1)


@pytest.mark.parametrize(
    "change", [{"num_hidden_layers": 0}, {"num_attention_heads": 1, "num_key_value_heads": 1}, {"vocab_size": 1}]
)
def test_small_llama(change: dict[str, Any]) -> None:
    assert "return" in text(LLAMA | change, B=1, T=1)


def test_an_unknown_entry_is_named() -> None:
    model = model_from_config(GPT2)
    with pytest.raises(ModelUnknown, match="has no entry backward"):
        model.graph("backward", model.dimensions({}))
