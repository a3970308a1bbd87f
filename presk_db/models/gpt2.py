"""GPT-2 (Radford et al. 2019): parameters by Hugging Face's names, and the forward pass.

Letters: B batch, T positions, C width, H heads, D = C/H, F inner width, V vocabulary, L layers.
"""

from collections.abc import Mapping
from typing import Any

from presk_db.errors import ConfigValueBad
from presk_db.language.elementwise import gelu, maximum, silu, tanh
from presk_db.language.nn import attention, gelu_tanh, layer_norm, linear
from presk_db.language.parameters import parameter
from presk_db.language.primitives import gather, reshape, transpose
from presk_db.language.tracing import Record, Tensor, fold, function
from presk_db.models.config import MOST_LAYERS, Config
from presk_db.models.model import Model
from presk_db.models.training import language_entries

ACTIVATIONS = {
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu": gelu,
    "silu": silu,
    "relu": lambda x: maximum(x, 0.0),
    "tanh": tanh,
}


def model_from_config(fields: Mapping[str, Any], place: str = "config.json") -> Model:
    """The model that a GPT-2 config describes. Raises E1005 and E1006 for fields that are not understood or bad."""
    config = Config(fields, place)
    layers, width = config.integer("n_layer", low=0, high=MOST_LAYERS), config.integer("n_embd")
    heads = config.integer("n_head")
    inner = config.integer("n_inner", 4 * width)
    vocabulary, longest = config.integer("vocab_size"), config.integer("n_positions")
    if width % heads:
        raise ConfigValueBad(f"n_embd {width} is not a multiple of n_head {heads}", place)
    eps = config.number("layer_norm_epsilon", 1e-5)
    activation = config.choice("activation_function", "gelu_new", tuple(ACTIVATIONS))
    tied = config.flag("tie_word_embeddings", True)
    config.only("scale_attn_weights", True)
    config.only("scale_attn_by_inverse_layer_idx", False)
    config.only("add_cross_attention", False)
    config.only("pruned_heads", {})
    config.finish()

    def norm(name: str, count: int | None = None) -> Record:
        return Record(
            w=parameter(f"{name}.weight", width, center=1.0, layers=count),
            b=parameter(f"{name}.bias", width, layers=count),
        )

    def dense(name: str, k: int, n: int) -> Record:
        return Record(w=parameter(f"{name}.weight", k, n, layers=layers), b=parameter(f"{name}.bias", n, layers=layers))

    prefix = "transformer.h.{}."
    parameters = Record(
        wte=parameter("transformer.wte.weight", vocabulary, width),
        wpe=parameter("transformer.wpe.weight", longest, width),
        h=Record(
            ln_1=norm(prefix + "ln_1", layers),
            attn=Record(
                qkv=dense(prefix + "attn.c_attn", width, 3 * width), proj=dense(prefix + "attn.c_proj", width, width)
            ),
            ln_2=norm(prefix + "ln_2", layers),
            mlp=Record(fc=dense(prefix + "mlp.c_fc", width, inner), out=dense(prefix + "mlp.c_proj", inner, width)),
        ),
        ln_f=norm("transformer.ln_f"),
        head=None if tied else parameter("lm_head.weight", width, vocabulary, transposed=True),
    )

    @function
    def self_attention(x: Tensor, p: Record) -> Tensor:
        b, t, c = x.shape
        qkv = linear(x, p.qkv.w, p.qkv.b)
        q, k, v = (
            transpose(reshape(qkv[..., i * c : (i + 1) * c], b, t, heads, c // heads), 0, 2, 1, 3) for i in range(3)
        )
        return linear(attention(q, k, v), p.proj.w, p.proj.b)

    @function
    def mlp(x: Tensor, p: Record) -> Tensor:
        return linear(ACTIVATIONS[activation](linear(x, p.fc.w, p.fc.b)), p.out.w, p.out.b)

    @function
    def block(x: Tensor, p: Record) -> Tensor:
        x = x + self_attention(layer_norm(x, p.ln_1.w, p.ln_1.b, eps), p.attn)
        return x + mlp(layer_norm(x, p.ln_2.w, p.ln_2.b, eps), p.mlp)

    def forward(p: Record, tokens: Tensor) -> dict[str, Tensor]:
        t = tokens.shape[1]
        x = gather(p.wte, tokens) + p.wpe[:t]
        x = fold(block, x, p.h) if layers else x
        x = layer_norm(x, p.ln_f.w, p.ln_f.b, eps)
        return {"logits": linear(x, transpose(p.wte) if tied else p.head)}

    if not layers:
        parameters.pop("h")
    limits = {"B": (1, 2**20), "T": (longest, longest), "M": (1, 2**20)}
    entries = language_entries(forward, parameters, vocabulary, longest)
    return Model("gpt2", lambda dims: parameters, entries, limits)
