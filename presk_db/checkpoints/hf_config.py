"""config_from_gguf: the Hugging Face config.json, as a dict, that a GGUF file's metadata state.

Metadata under the architecture's prefix are either understood here, known to change nothing, or refused by name.
"""

from typing import Any

import numpy as np

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.hf_names import ARCHITECTURES
from presk_db.checkpoints.mapped import PathLike
from presk_db.errors import ConfigFieldUnknown, ConfigValueBad, ModelUnknown, TensorMissing

# Keys (after `llama.` and the like) that are read below.
_READ = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
    "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "rope.freq_base", "rope.dimension_count",
}  # fmt: skip
# Keys that change nothing at these values.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "rope.scaling.type": ("none",),
    "tensor_data_layout": ("reference",),
    "use_parallel_residual": (False,),
}
_BIASES = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias")


class _Metadata:
    """The metadata of one file, with the architecture's prefix and errors that name the key."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.architecture = architecture_of(file)

    def place(self, key: str) -> str:
        return f"{self.file.file.shown} key {self.architecture}.{key}"

    def count(self, key: str, default: int | None = None) -> int:
        """A positive integer; of an array, the one value that all its elements have."""
        value = self.file.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, np.ndarray) and value.size and bool((value == value[0]).all()):
            value = value[0].item()
        if value is None:
            raise ConfigValueBad("is missing", self.place(key))
        if type(value) is not int or not 1 <= value < 2**31:
            raise ConfigValueBad("is not one integer from 1 to 2^31 - 1", self.place(key))
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A positive, finite number, exactly as the file holds it: a float32 mostly."""
        value = self.file.metadata.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise ConfigValueBad("is missing", self.place(key))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise ConfigValueBad("is not a positive number", self.place(key))
        return float(value)

    def check_understood(self) -> None:
        """Errors for a key under the prefix that may change the result: ConfigFieldUnknown (E1005)."""
        prefix = f"{self.architecture}."
        for key in sorted(self.file.metadata):
            rest = key.removeprefix(prefix)
            if rest == key or rest in _READ:
                continue
            value = self.file.metadata[key]
            if rest not in _NEUTRAL or not any(type(value) is type(v) and value == v for v in _NEUTRAL[rest]):
                raise ConfigFieldUnknown("may change the result and is not understood", self.place(rest))

    def token(self, key: str) -> int | None:
        value = self.file.metadata.get(f"tokenizer.ggml.{key}")
        return value if type(value) is int else None


def architecture_of(file: GgufFile) -> str:
    """The value of general.architecture, one of ARCHITECTURES; a whole model, not an adapter or a part of a split.

    Errors: ModelUnknown (E1004), ConfigValueBad (E1006).
    """
    shown = file.file.shown
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ConfigValueBad("is missing", f"{shown} key general.architecture")
    if file.metadata.get("general.type", "model") != "model":
        raise ConfigValueBad("is not a model: give the model's own file", f"{shown} key general.type")
    parts = file.metadata.get("split.count", 1)
    if type(parts) is not int or parts > 1:
        raise ConfigValueBad("one part of a split model; merge the parts first", f"{shown} key split.count")
    if architecture not in ARCHITECTURES:
        raise ModelUnknown(
            f"the architecture {architecture[:60]} is not known; presk reads {', '.join(ARCHITECTURES)}", shown
        )
    return architecture


def head_counts(file: GgufFile) -> tuple[int, int]:
    """The numbers of query heads and of key-value heads. Errors: ConfigValueBad (E1006)."""
    metadata = _Metadata(file)
    heads = metadata.count("attention.head_count")
    kv_heads = metadata.count("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise ConfigValueBad(f"{kv_heads} does not divide the {heads} heads", metadata.place("attention.head_count_kv"))
    return heads, kv_heads


def config_from_gguf(file: GgufFile | PathLike) -> dict[str, Any]:
    """The config.json of the model in the file, ready for json.dump.

    Numbers are those of the file: an epsilon that was rounded to float32 stays the float32.
    Errors: ModelUnknown (E1004), ConfigFieldUnknown (E1005), ConfigValueBad (E1006), and those of GgufFile.
    """
    opened = file if isinstance(file, GgufFile) else GgufFile(file)
    metadata = _Metadata(opened)
    metadata.check_understood()
    config = _gpt2_config(metadata) if metadata.architecture == "gpt2" else _llama_config(metadata)
    config["tie_word_embeddings"] = "output.weight" not in opened
    for ours, theirs in (("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id")):
        token = metadata.token(theirs)
        if token is not None:
            config[ours] = token
    return config


def _vocabulary(metadata: _Metadata) -> int:
    """The rows of token_embd.weight, which vocab_size, if there, must agree with."""
    file = metadata.file
    if "token_embd.weight" not in file:
        raise TensorMissing("there is no tensor token_embd.weight", file.file.shown)
    rows = file.info("token_embd.weight").shape[0]
    if metadata.count("vocab_size", rows) != rows:
        raise ConfigValueBad(f"differs from the {rows} rows of token_embd.weight", metadata.place("vocab_size"))
    return rows


def _gpt2_config(metadata: _Metadata) -> dict[str, Any]:
    heads, kv_heads = head_counts(metadata.file)
    if kv_heads != heads:
        raise ConfigValueBad("GPT-2 has as many key-value heads as heads", metadata.place("attention.head_count_kv"))
    width = metadata.count("embedding_length")
    if width % heads:
        raise ConfigValueBad(f"{heads} heads do not divide the width {width}", metadata.place("attention.head_count"))
    for key in ("attention.key_length", "attention.value_length"):
        if metadata.count(key, width // heads) != width // heads:
            raise ConfigValueBad("is not width / heads", metadata.place(key))
    context = metadata.count("context_length")
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "layer_norm_epsilon": metadata.real("attention.layer_norm_epsilon"),
        "n_ctx": context,
        "n_embd": width,
        "n_head": heads,
        "n_inner": metadata.count("feed_forward_length", 4 * width),
        "n_layer": metadata.count("block_count"),
        "n_positions": context,
        "vocab_size": _vocabulary(metadata),
    }


def _llama_config(metadata: _Metadata) -> dict[str, Any]:
    heads, kv_heads = head_counts(metadata.file)
    width = metadata.count("embedding_length")
    if "attention.key_length" not in _keys(metadata) and width % heads:
        raise ConfigValueBad(f"{heads} heads do not divide the width {width}", metadata.place("attention.head_count"))
    head_dim = metadata.count("attention.key_length", width // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if metadata.count(key, head_dim) != head_dim:
            raise ConfigValueBad(f"differs from the head's {head_dim}, which presk does not read", metadata.place(key))
    if head_dim % 2:
        raise ConfigValueBad(f"a head of {head_dim} has no halves to rotate", metadata.place("rope.dimension_count"))
    family = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[metadata.architecture]
    config: dict[str, Any] = {
        "architectures": [f"{family}ForCausalLM"],
        "model_type": metadata.architecture,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": metadata.count("feed_forward_length"),
        "max_position_embeddings": metadata.count("context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": metadata.count("block_count"),
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": metadata.real("attention.layer_norm_rms_epsilon"),
        "rope_theta": metadata.real("rope.freq_base", 10000.0),
        "vocab_size": _vocabulary(metadata),
    }
    if metadata.architecture == "qwen2":  # its config has no head_dim; biases on q, k, v are a matter of course
        if head_dim * heads != width:
            raise ConfigValueBad("is not width / heads", metadata.place("attention.key_length"))
        config["use_sliding_window"] = False
    else:
        config["attention_bias"] = _attention_bias(metadata)
    if metadata.architecture == "llama":
        config["mlp_bias"] = False
    return config


def _attention_bias(metadata: _Metadata) -> bool:
    """Whether q, k, v and output have biases: all four in the first layer, or none."""
    there = [name for name in _BIASES if f"blk.0.{name}" in metadata.file]
    if there and len(there) != len(_BIASES):
        raise ConfigFieldUnknown(
            f"has biases on {', '.join(there)} only; {metadata.architecture} has them on all four or none",
            metadata.file.file.shown,
        )
    return bool(there)


def _keys(metadata: _Metadata) -> set[str]:
    prefix = f"{metadata.architecture}."
    return {key.removeprefix(prefix) for key in metadata.file.metadata if key.startswith(prefix)}
