"""Tiny configs, and specs of their entries for training."""

import json
from pathlib import Path
from typing import Any

from presk_db.specs.spec import Spec, spec_from

GPT2: dict[str, Any] = {
    "model_type": "gpt2", "n_layer": 2, "n_embd": 12, "n_head": 2, "vocab_size": 11, "n_positions": 6,
    "tie_word_embeddings": False,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 12, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 20, "vocab_size": 13,
    "max_position_embeddings": 8, "tie_word_embeddings": True,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gpt2-tied": GPT2 | {"tie_word_embeddings": True, "activation_function": "gelu", "n_layer": 3},
    "llama": LLAMA,
    "llama-biases": LLAMA | {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
    "qwen2": LLAMA | {"model_type": "qwen2"},
    "qwen3": LLAMA | {"model_type": "qwen3", "num_hidden_layers": 1},
    "mistral": LLAMA | {"model_type": "mistral", "sliding_window": 3, "tie_word_embeddings": False},
}


def spec_of(folder: Path, config: str, entry: str, **flags: Any) -> Spec:
    """The spec of an entry of one of CONFIGS."""
    path = folder / f"{config}.json"
    path.write_text(json.dumps(CONFIGS[config]), encoding="utf-8")
    return spec_from(str(path), {"entry": entry, "seed": 3, **flags})
