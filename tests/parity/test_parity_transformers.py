"""The native run against transformers' models: the same function of the same weights, in f32 and in f64."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from parity_models import native_logits, random_tokens, randomized
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

pytestmark = pytest.mark.parity

GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_layer": 2,
    "n_embd": 24,
    "n_head": 3,
    "n_positions": 16,
    "vocab_size": 19,
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 36,
    "vocab_size": 19,
    "max_position_embeddings": 64,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False},
    "gpt2-inner": GPT2 | {"n_inner": 40, "activation_function": "gelu", "layer_norm_epsilon": 1e-3},
    "gpt2-relu": GPT2 | {"activation_function": "relu", "n_head": 1},
    "gpt2-silu": GPT2 | {"activation_function": "silu"},
    "llama": LLAMA,
    "llama-tied": LLAMA | {"tie_word_embeddings": True, "rms_norm_eps": 1e-3},
    "llama-biases": LLAMA | {"attention_bias": True, "mlp_bias": True},
    "llama-head-dim": LLAMA | {"head_dim": 10},
    "llama-no-groups": LLAMA | {"num_key_value_heads": None},
    "llama-one-group": LLAMA | {"num_key_value_heads": 1, "hidden_act": "gelu"},
    "llama-theta": LLAMA | {"rope_theta": 500.0},
    "llama-parameters": LLAMA | {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    "llama-linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "llama3-scaling": LLAMA | {"rope_scaling": LLAMA3, "rope_theta": 50.0},
    "mistral": LLAMA | {"model_type": "mistral", "sliding_window": None},
    "mistral-window": LLAMA | {"model_type": "mistral", "sliding_window": 9},
    "qwen2": LLAMA | {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen2-window": LLAMA
    | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    "qwen3": LLAMA | {"model_type": "qwen3", "head_dim": 8},
    "qwen3-default": LLAMA | {"model_type": "qwen3", "attention_bias": True},
}

MODELING = {"Llama": modeling_llama, "Mistral": modeling_mistral, "Qwen2": modeling_qwen2, "Qwen3": modeling_qwen3}


def model_of(config: dict[str, Any]) -> torch.nn.Module:
    """The transformers model of a config."""
    known = transformers.AutoConfig.for_model(**config)
    return transformers.AutoModelForCausalLM.from_config(known, attn_implementation="sdpa").eval()


@pytest.mark.parametrize("name", CASES)
def test_f32(name: str) -> None:
    config = CASES[name]
    module = model_of(config)
    tensors = randomized(module, 1)
    tokens = random_tokens(2, 9, config["vocab_size"], 2)
    with torch.no_grad():
        wanted = module(torch.from_numpy(tokens)).logits.numpy()
    found = native_logits(config, tensors, tokens, "f32")
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())


def _norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


@pytest.mark.parametrize("name", CASES)
def test_f64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers goes through f32 (norms, rotary tables), the formula is put in its place in f64."""
    config = CASES[name]
    for family, modeling in MODELING.items():
        monkeypatch.setattr(getattr(modeling, f"{family}RMSNorm"), "forward", _norm)
    module = model_of(config).double()
    tensors = randomized(module, 1)
    if config["model_type"] != "gpt2":
        rope = module.model.rotary_emb
        frequency = _frequencies(config)
        assert np.allclose(rope.inv_freq.numpy(), frequency, rtol=1e-6)

        def tables(x: torch.Tensor, position_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
            angles = position_ids[..., None].double() * torch.from_numpy(frequency)
            both = torch.cat((angles, angles), -1)
            return both.cos(), both.sin()

        monkeypatch.setattr(rope, "forward", tables)
    tokens = random_tokens(2, 9, config["vocab_size"], 2)
    with torch.no_grad():
        wanted = module(torch.from_numpy(tokens)).logits.numpy()
    assert wanted.dtype == np.float64
    found = native_logits(config, tensors, tokens, "f64")
    assert np.abs(found - wanted).max() < 1e-10 * max(1.0, np.abs(wanted).max())


def _frequencies(config: dict[str, Any]) -> Any:
    size = config.get("head_dim") or (
        128 if config["model_type"] == "qwen3" else config["hidden_size"] // config["num_attention_heads"]
    )
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    theta = scaling.get("rope_theta", config.get("rope_theta", 10000.0))
    frequency = theta ** (-np.arange(0, size, 2) / size)
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return frequency / scaling["factor"]
    if kind != "llama3":
        return frequency
    waves = 2 * np.pi / frequency
    low, high, context = (
        scaling[k] for k in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    smooth = np.clip((context / waves - low) / (high - low), 0.0, 1.0)
    return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
