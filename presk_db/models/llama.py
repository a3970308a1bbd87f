"""Llama and its relatives (Touvron et al. 2023; Qwen2, Qwen3, Mistral, SmolLM): parameters and the forward pass.

Letters: B batch, T positions, C width, H heads, G key-value heads, D width of a head, F inner width, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

from presk_db.errors import ConfigFieldUnknown, ConfigValueBad
from presk_db.language.elementwise import cos, gelu, silu, sin
from presk_db.language.graph import Parameter
from presk_db.language.nn import attention, gelu_tanh, linear, rms_norm, rotary
from presk_db.language.parameters import parameter
from presk_db.language.primitives import gather, reshape, transpose
from presk_db.language.tracing import Record, Tensor, fold, function
from presk_db.models.config import MOST_LAYERS, Config
from presk_db.models.model import Model
from presk_db.models.rope import rope_from_config
from presk_db.models.training import language_entries

ACTIVATIONS = {"silu": silu, "gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh}

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

GROUPS = {"mistral": 8, "qwen2": 32, "qwen3": 32}
"""The key-value heads of a config that does not name them; as many as heads where it says null, and in Llama."""

LONGEST = {"llama": 2048, "mistral": 131072, "qwen2": 32768, "qwen3": 32768}
"""The positions of a config that does not name them."""


def _integer(config: Config, name: str, missing: int | None, null: int) -> int:
    """An integer field that has one default where it is missing and another where it is null."""
    return config.integer(name, null if name in config.fields or missing is None else missing)


def _window(config: Config, family: str, longest: int) -> int:
    """The longest context in which every position sees all before it: at most the sliding window, where one is used."""
    asked = config.flag("use_sliding_window", False)
    used = asked if family.startswith("qwen") else family == "mistral"
    default = 4096 if "sliding_window" not in config.fields else None
    window = config.get("sliding_window", default)
    if not used or window is None:
        return longest
    return min(longest, config.integer("sliding_window", default))


def model_from_config(fields: Mapping[str, Any], place: str = "config.json") -> Model:
    """The model that a config of one of FAMILIES describes. Raises E1005 and E1006 for fields that do not fit."""
    config = Config(fields, place)
    family = config.choice("model_type", "llama", FAMILIES)
    layers, width = config.integer("num_hidden_layers", low=0, high=MOST_LAYERS), config.integer("hidden_size")
    heads = config.integer("num_attention_heads")
    groups = _integer(config, "num_key_value_heads", GROUPS.get(family), heads)
    size = _integer(config, "head_dim", 128 if family == "qwen3" else None, max(width // heads, 1))
    inner, vocabulary = config.integer("intermediate_size"), config.integer("vocab_size")
    longest = _window(config, family, config.integer("max_position_embeddings", LONGEST[family]))
    eps = config.number("rms_norm_eps", 1e-6)
    rope = rope_from_config(config)
    config.only("rope_interleaved", False)
    activation = config.choice("hidden_act", "silu", tuple(ACTIVATIONS))
    tied = config.flag("tie_word_embeddings", False)
    if family in ("llama", "qwen3"):
        qkv_bias = out_bias = config.flag("attention_bias", False)
    else:
        config.only("attention_bias", family == "qwen2")
        qkv_bias, out_bias = family == "qwen2", False
    if family != "llama":
        config.only("mlp_bias", False)
    mlp_bias = config.flag("mlp_bias", False)
    config.only("use_qk_norm", family == "qwen3")
    normed = family == "qwen3"
    kinds = config.get("layer_types", [])
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise ConfigFieldUnknown("layer_types other than full_attention are not understood", place)
    config.finish()
    if heads % groups:
        raise ConfigValueBad(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}", place)
    if size % 2:
        raise ConfigValueBad(f"head_dim {size} is odd; rotary positions need pairs", place)

    def dense(name: str, k: int, n: int, bias: bool) -> Record:
        return Record(
            w=parameter(f"model.layers.{{}}.{name}.weight", k, n, transposed=True, layers=layers),
            b=parameter(f"model.layers.{{}}.{name}.bias", n, layers=layers) if bias else None,
        )

    def norm(name: str, n: int) -> Parameter:
        return parameter(f"model.layers.{{}}.{name}.weight", n, center=1.0, layers=layers)

    parameters = Record(
        embed=parameter("model.embed_tokens.weight", vocabulary, width),
        layers=Record(
            input_norm=norm("input_layernorm", width),
            attn=Record(
                q=dense("self_attn.q_proj", width, heads * size, qkv_bias),
                k=dense("self_attn.k_proj", width, groups * size, qkv_bias),
                v=dense("self_attn.v_proj", width, groups * size, qkv_bias),
                q_norm=norm("self_attn.q_norm", size) if normed else None,
                k_norm=norm("self_attn.k_norm", size) if normed else None,
                o=dense("self_attn.o_proj", heads * size, width, out_bias),
            ),
            post_norm=norm("post_attention_layernorm", width),
            mlp=Record(
                gate=dense("mlp.gate_proj", width, inner, mlp_bias),
                up=dense("mlp.up_proj", width, inner, mlp_bias),
                down=dense("mlp.down_proj", inner, width, mlp_bias),
            ),
        ),
        norm=parameter("model.norm.weight", width, center=1.0),
        head=None if tied else parameter("lm_head.weight", width, vocabulary, transposed=True),
    )

    def split(x: Tensor, count: int, weight: Tensor | None) -> Tensor:
        b, t, _ = x.shape
        x = reshape(x, b, t, count, size)
        if weight is not None:
            x = rms_norm(x, weight, eps)
        return transpose(x, 0, 2, 1, 3)

    @function
    def self_attention(x: Tensor, p: Record, cosine: Tensor, sine: Tensor) -> Tensor:
        q = split(linear(x, p.q.w, p.q.b), heads, p.q_norm)
        k = split(linear(x, p.k.w, p.k.b), groups, p.k_norm)
        v = split(linear(x, p.v.w, p.v.b), groups, None)
        mixed = attention(rotary(q, cosine, sine), rotary(k, cosine, sine), v)
        return linear(mixed, p.o.w, p.o.b)

    @function
    def mlp(x: Tensor, p: Record) -> Tensor:
        gate = ACTIVATIONS[activation](linear(x, p.gate.w, p.gate.b))
        return linear(gate * linear(x, p.up.w, p.up.b), p.down.w, p.down.b)

    @function
    def block(x: Tensor, p: Record, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self_attention(rms_norm(x, p.input_norm, eps), p.attn, cosine, sine)
        return x + mlp(rms_norm(x, p.post_norm, eps), p.mlp)

    def forward(p: Record, tokens: Tensor) -> dict[str, Tensor]:
        x = gather(p.embed, tokens)
        if layers:
            angles = rope.angles(tokens.shape[1], size)
            x = fold(block, x, p.layers, cos(angles), sin(angles))
        return {"logits": linear(rms_norm(x, p.norm, eps), transpose(p.embed) if tied else p.head)}

    if not layers:
        parameters.pop("layers")
    limits = {"B": (1, 2**20), "T": (longest, longest), "M": (1, 2**20)}
    entries = language_entries(forward, parameters, vocabulary, longest)
    return Model(family, lambda dims: parameters, entries, limits)
