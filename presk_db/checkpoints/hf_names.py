"""HfTensor: for each tensor of a GGUF file, its Hugging Face name and how its layout differs.

Three GGUF architectures follow the llama family's names (`llama`, `qwen2`, `qwen3`), one is GPT-2.
"""

from dataclasses import dataclass
from enum import Enum

from presk_db.checkpoints.source import Array

_LLAMA_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LLAMA_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_v.bias": "self_attn.v_proj.bias",
    "attn_output.weight": "self_attn.o_proj.weight",
    "attn_output.bias": "self_attn.o_proj.bias",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_GPT2_TOP = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    "output.weight": "lm_head.weight",
}
_GPT2_LAYER = {
    "attn_norm.weight": "ln_1.weight",
    "attn_norm.bias": "ln_1.bias",
    "attn_qkv.weight": "attn.c_attn.weight",
    "attn_qkv.bias": "attn.c_attn.bias",
    "attn_output.weight": "attn.c_proj.weight",
    "attn_output.bias": "attn.c_proj.bias",
    "ffn_norm.weight": "ln_2.weight",
    "ffn_norm.bias": "ln_2.bias",
    "ffn_up.weight": "mlp.c_fc.weight",
    "ffn_up.bias": "mlp.c_fc.bias",
    "ffn_down.weight": "mlp.c_proj.weight",
    "ffn_down.bias": "mlp.c_proj.bias",
}
# GPT-2's Conv1D weights are (in, out) in Hugging Face and (out, in) in GGUF.
_GPT2_CONV1D = ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight")

ARCHITECTURES = ("gpt2", "llama", "qwen2", "qwen3")


class Layout(Enum):
    """How the Hugging Face tensor is got from the GGUF one."""

    SAME = "same"
    TRANSPOSED = "transposed"
    ROTARY_HALVES = "rotary halves"


@dataclass(frozen=True)
class HfTensor:
    """One tensor: its name there, its name in the GGUF file, and its layout; `heads` is for ROTARY_HALVES."""

    name: str
    gguf_name: str
    layout: Layout = Layout.SAME
    heads: int = 1


def hf_tensor(architecture: str, gguf_name: str, heads: int, kv_heads: int) -> HfTensor | None:
    """What the GGUF tensor is in Hugging Face, or None if the architecture has no such tensor.

    Requires architecture in ARCHITECTURES. llama.cpp's converter reorders the rows of q and k for `llama` alone; the
    Qwen models keep Hugging Face's order.
    """
    gpt2 = architecture == "gpt2"
    top, layer_names = (_GPT2_TOP, _GPT2_LAYER) if gpt2 else (_LLAMA_TOP, _LLAMA_LAYER)
    if gguf_name in top:
        return HfTensor(top[gguf_name], gguf_name)
    block, layer, rest = (*gguf_name.split(".", 2), "", "")[:3]
    canonical_number = layer.isascii() and layer.isdigit() and (layer == "0" or layer[0] != "0") and len(layer) < 10
    if block != "blk" or not canonical_number or rest not in layer_names:
        return None
    name = f"{'transformer.h' if gpt2 else 'model.layers'}.{layer}.{layer_names[rest]}"
    if gpt2 and rest in _GPT2_CONV1D:
        return HfTensor(name, gguf_name, Layout.TRANSPOSED)
    if architecture == "llama" and rest.startswith(("attn_q.", "attn_k.")):
        return HfTensor(name, gguf_name, Layout.ROTARY_HALVES, heads if rest.startswith("attn_q.") else kv_heads)
    return HfTensor(name, gguf_name)


def hf_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The Hugging Face shape of a GGUF tensor of `shape`."""
    return tuple(reversed(shape)) if layout is Layout.TRANSPOSED else shape


def hf_values(values: Array, layout: Layout, heads: int) -> Array:
    """The same elements in Hugging Face's layout; contiguous.

    ROTARY_HALVES: GGUF's llama rows stand in pairs (rotary on neighbours 2i, 2i+1 of a head), Hugging Face's in halves
    (rotary on i and i + head_dim / 2). The converter goes from (heads, 2, half, ...) to (heads, half, 2, ...); this
    goes back. Requires rows divisible by 2 * heads.
    """
    match layout:
        case Layout.SAME:
            return values
        case Layout.TRANSPOSED:
            return values.T.copy()
        case Layout.ROTARY_HALVES:
            rows = values.shape[0]
            pairs = values.reshape(heads, rows // heads // 2, 2, *values.shape[1:])
            return pairs.swapaxes(1, 2).reshape(values.shape)
