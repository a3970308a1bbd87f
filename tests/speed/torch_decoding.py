"""The course GPT's cached decoding in PyTorch: `python torch_decoding.py THREADS TOKENS` prints tokens a second.

Without arguments it only imports torch. One token a step, f32, eager, attention over what the caches hold by
scaled_dot_product_attention or by products and a softmax: the faster of both, after a few tokens that are not timed. The
weights are drawn: the work is the same. This file imports nothing of presk.
"""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, POSITIONS, VOCABULARY = 6, 384, 6, 256, 65


def weights() -> dict[str, Any]:
    """Matrices as (out, in) with biases, by the names of the modules."""
    generator = torch.Generator().manual_seed(1)
    c, v = WIDTH, VOCABULARY
    shapes = {"wte": (v, c), "wpe": (POSITIONS, c), "head": (v, c)}
    for i in range(LAYERS):
        shapes |= {f"{i}.qkv": (3 * c, c), f"{i}.proj": (c, c), f"{i}.fc": (4 * c, c), f"{i}.out": (c, 4 * c)}
    found = {name: torch.randn(shape, generator=generator) * 0.02 for name, shape in shapes.items()}
    found |= {f"{name}.bias": torch.zeros(shape[0]) for name, shape in shapes.items()}
    return found | {"ones": torch.ones(c), "zeros": torch.zeros(c)}


def attention(q: Any, k: Any, v: Any) -> Any:
    """(1, heads, 1, head width) of queries on keys and values that are all seen, written out."""
    return F.softmax((q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1])), dim=-1) @ v


def decoded(w: dict[str, Any], tokens: int, attend: Callable[..., Any]) -> list[int]:
    """The likeliest tokens after token 1."""

    def norm(x: Any) -> Any:
        return F.layer_norm(x, (WIDTH,), w["ones"], w["zeros"])

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, w[name], w[f"{name}.bias"])

    cache = torch.zeros(LAYERS, 2, 1, HEADS, POSITIONS, WIDTH // HEADS)
    found, token = [], 1
    for at in range(tokens):
        x = w["wte"][token].view(1, 1, -1) + w["wpe"][at]
        for i in range(LAYERS):
            parts = linear(norm(x), f"{i}.qkv").view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            cache[i, :, :, :, at : at + 1] = parts[1:]
            keys, values = cache[i, :, :, :, : at + 1]
            x = x + linear(attend(parts[0], keys, values).transpose(1, 2).reshape(1, 1, -1), f"{i}.proj")
            x = x + linear(F.gelu(linear(norm(x), f"{i}.fc"), approximate="tanh"), f"{i}.out")
        token = int(linear(norm(x), "head").argmax())
        found.append(token)
    return found


def main() -> None:
    """Prints the rate of the faster attention."""
    if len(sys.argv) == 1:
        return
    torch.set_num_threads(int(sys.argv[1]))
    tokens, rates, w = int(sys.argv[2]), [], weights()
    with torch.inference_mode():
        for attend in (attention, F.scaled_dot_product_attention):
            decoded(w, 8, attend)
            start = time.perf_counter()
            decoded(w, tokens, attend)
            rates.append(tokens / (time.perf_counter() - start))
    print(f"{max(rates):.2f}")


if __name__ == "__main__":
    main()
