"""Runs a recorded entry in PyTorch, in a process of its own: `python bench_torch.py FOLDER THREADS`.

FOLDER holds job.json (`family`, `entry`, `config`, `weights`, `inputs`, `outputs`: the last three are paths of safetensors
files; without weights they are drawn). The process prints a JSON line with the variants that ran and how far their
result is from the recorded one (over its largest element), then answers each line `RUNS NAME` with a JSON list of so many seconds.

GPT-2 is written out here, with attention as products and softmax (eager) and by scaled_dot_product_attention (sdpa),
both also compiled; of Llama it takes transformers' own model. This file imports nothing of presk, so that any Python
with torch can run it. One process a number of threads: a compiled model has that number in its code.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Weights = Mapping[str, Any]
Run = Callable[[], Any]


def gpt2(config: Mapping[str, Any], w: Weights, sdpa: bool) -> Callable[[Any], Any]:
    """The forward pass: tokens (B, T) to logits (B, T, V). `w` has a linear layer's weights as (out, in)."""
    import torch  # noqa: PLC0415 - the number of threads is set before
    import torch.nn.functional as F  # noqa: PLC0415

    heads, layers, eps = config["n_head"], config["n_layer"], config.get("layer_norm_epsilon", 1e-5)
    positions = config["n_positions"]
    hidden = torch.ones(positions, positions, dtype=torch.bool).triu(1)

    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def attention(x: Any, name: str) -> Any:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in linear(x, f"{name}.c_attn").split(c, dim=2))
        if sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // heads))
            y = F.softmax(scores.masked_fill(hidden[:t, :t], float("-inf")), dim=-1) @ v
        return linear(y.transpose(1, 2).reshape(b, t, c), f"{name}.c_proj")

    def forward(tokens: Any) -> Any:
        x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
        for layer in range(layers):
            name = f"h.{layer}"
            x = x + attention(norm(x, f"{name}.ln_1"), f"{name}.attn")
            inner = F.gelu(linear(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc"), approximate="tanh")
            x = x + linear(inner, f"{name}.mlp.c_proj")
        return F.linear(norm(x, "ln_f"), w.get("lm_head.weight", w["wte.weight"]))

    return forward


def gpt2_weights(path: str) -> dict[str, Any]:
    """The checkpoint's tensors by their names without `transformer.`, linear layers' transposed to (out, in)."""
    from safetensors.torch import load_file  # noqa: PLC0415

    linear = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    loaded = {name.removeprefix("transformer."): t for name, t in load_file(path).items()}
    return {name: t.t().contiguous() if name.endswith(linear) else t for name, t in loaded.items()}


def llama(config: Mapping[str, Any], kind: str) -> Callable[[Any], Any]:
    """transformers' model with drawn weights: tokens (B, T) to logits (B, T, V)."""
    import torch  # noqa: PLC0415
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    settings = {k: v for k, v in config.items() if k not in ("model_type", "torch_dtype", "dtype")}
    torch.manual_seed(0)
    made = AutoConfig.for_model(config["model_type"], **settings)
    model = AutoModelForCausalLM.from_config(made, attn_implementation=kind).eval().float()
    return lambda tokens: model(tokens, use_cache=False).logits


def variants(job: Mapping[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """What runs, by name."""
    import torch  # noqa: PLC0415

    found: dict[str, Callable[[Any], Any]] = {}
    if job["family"] == "gpt2":
        w = gpt2_weights(job["weights"])
        for name, sdpa in (("eager", False), ("sdpa", True)):
            found[f"torch {name}"] = gpt2(job["config"], w, sdpa)
        for name in ("eager", "sdpa"):
            found[f"torch compiled {name}"] = torch.compile(found[f"torch {name}"], dynamic=False)
    else:
        for kind in ("eager", "sdpa"):
            found[f"transformers {kind}"] = llama(job["config"], kind)
    return found


def main() -> None:
    """Serves until its input ends."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415

    torch.set_num_threads(threads)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    tokens, expected = load_file(job["inputs"])["tokens"], load_file(job["outputs"])["logits"].float()
    runs: dict[str, Callable[[Any], Any]] = {}
    distance: dict[str, float | None] = {}
    with torch.no_grad():
        for name, forward in variants(job).items():
            try:
                result = forward(tokens)
                forward(tokens)
            except Exception as e:  # a variant that this torch cannot compile here is left out, and said so
                print(f"{name}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
                continue
            runs[name] = forward
            distance[name] = (
                float((result - expected).abs().max() / expected.abs().max()) if job["family"] == "gpt2" else None
            )
        print(json.dumps(distance), flush=True)
        for line in sys.stdin:
            count, name = line.rstrip("\n").split(" ", 1)
            seconds = []
            for _ in range(int(count)):
                start = time.perf_counter()
                runs[name](tokens)
                seconds.append(time.perf_counter() - start)
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
