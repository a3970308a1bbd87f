"""Runs a recorded entry in PyTorch, in a process of its own: `python bench_torch.py FOLDER THREADS`.

FOLDER holds job.json (`family`, `entry`, `config`, `weights`, `inputs`, `outputs`: the last three are paths of safetensors
files; without weights they are drawn). The process prints a JSON line with the variants that ran and how far their
results are from the recorded ones (over the largest element), then answers each line `RUNS NAME` with a JSON list of so
many seconds.

GPT-2 is written out here, with attention as products and softmax (eager) and by scaled_dot_product_attention (sdpa),
both also compiled; of Llama it takes transformers' own model. An entry that trains is the loss of the same forward pass,
autograd, clipping by norm, and torch.optim's fused AdamW, or SGD; of its results loss and norm are compared, of the
first step. This file imports nothing of presk, so that any Python with torch can run it. One process a number of
threads: a compiled model has that number in its code.
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

Run = Callable[[], Mapping[str, Any]]
"""Runs the entry once; gives results by the names of the recorded outputs."""

CLIP, DECAY = 1.0, 0.01
"""The largest norm of a gradient and AdamW's decay, as the entries that train have them."""


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


def llama(config: Mapping[str, Any], kind: str) -> Any:
    """transformers' model with drawn weights."""
    import torch  # noqa: PLC0415
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    settings = {k: v for k, v in config.items() if k not in ("model_type", "torch_dtype", "dtype")}
    torch.manual_seed(0)
    made = AutoConfig.for_model(config["model_type"], **settings)
    return AutoModelForCausalLM.from_config(made, attn_implementation=kind).eval().float()


def _logits_of(model: Any) -> Callable[[Any], Any]:
    return lambda tokens: model(tokens, use_cache=False).logits


def forwards(job: Mapping[str, Any]) -> dict[str, tuple[Callable[[Any], Any], list[Any]]]:
    """Forward passes by name, each with parameters of its own."""
    import torch  # noqa: PLC0415

    found: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {}
    if job["family"] == "gpt2":
        for name in ("eager", "sdpa", "compiled eager", "compiled sdpa"):
            w = {n: t.requires_grad_(t.is_floating_point()) for n, t in gpt2_weights(job["weights"]).items()}
            forward = gpt2(job["config"], w, name.endswith("sdpa"))
            if name.startswith("compiled"):
                forward = torch.compile(forward, dynamic=False)
            found[f"torch {name}"] = forward, [t for t in w.values() if t.requires_grad]
    else:
        for kind in ("eager", "sdpa"):
            model = llama(job["config"], kind)
            found[f"transformers {kind}"] = _logits_of(model), list(model.parameters())
    return found


def entry_run(
    job: Mapping[str, Any], forward: Callable[[Any], Any], parameters: list[Any], inputs: Mapping[str, Any]
) -> Run:
    """The entry on the recorded inputs."""
    import torch  # noqa: PLC0415
    import torch.nn.functional as F  # noqa: PLC0415

    tokens = inputs["tokens"]
    if job["entry"] == "forward":
        return _without_gradients(lambda: {"logits": forward(tokens)})
    targets = inputs["targets"]
    batches = [(tokens, targets)] if tokens.dim() == 2 else list(zip(tokens, targets, strict=True))

    def batch_loss(tokens: Any, targets: Any, count: Any) -> Any:
        logits = forward(tokens).flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=logits.shape[-1], reduction="sum") / count

    def count() -> Any:
        return (targets < job["config"]["vocab_size"]).sum()

    def loss() -> dict[str, Any]:
        n = count()
        return {"loss": sum(batch_loss(x, y, n) for x, y in batches)}

    def loss_grad() -> dict[str, Any]:
        for p in parameters:
            p.grad = None
        total, n = torch.zeros(()), count()
        for x, y in batches:
            part = batch_loss(x, y, n)
            part.backward()
            total += part.detach()
        return {"loss": total}

    if job["entry"] == "loss":
        return _without_gradients(loss)
    if job["entry"] == "loss_grad":
        return loss_grad
    rate = float(inputs["lr"])
    optimizer = (
        torch.optim.SGD(parameters, lr=rate, fused=True)
        if job["entry"] == "train_step_sgd"
        else torch.optim.AdamW(parameters, lr=rate, weight_decay=DECAY, fused=True)
    )

    def step() -> dict[str, Any]:
        results = loss_grad()
        results["norm"] = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return results

    return step


def _without_gradients(run: Run) -> Run:
    import torch  # noqa: PLC0415

    def quiet() -> Mapping[str, Any]:
        with torch.no_grad():
            return run()

    return quiet


def distance_of(results: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """The largest difference of a result from the recorded one, over that one's largest element."""
    return max(float((r.detach() - expected[n]).abs().max() / expected[n].abs().max()) for n, r in results.items())


def main() -> None:
    """Serves until its input ends."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415

    torch.set_num_threads(threads)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    inputs, outputs = load_file(job["inputs"]), load_file(job["outputs"])
    expected: Weights = {n: outputs[n].float() for n in ("logits", "loss", "norm") if n in outputs}
    runs: dict[str, Run] = {}
    distance: dict[str, float | None] = {}
    for name, (forward, parameters) in forwards(job).items():
        run = entry_run(job, forward, parameters, inputs)
        try:
            results = run()
            found = distance_of(results, expected) if job["family"] == "gpt2" else None
            run()
        except Exception as e:  # a variant that this torch cannot compile here is left out, and said so
            print(f"{name}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
            continue
        runs[name], distance[name] = run, found
    print(json.dumps(distance), flush=True)
    for line in sys.stdin:
        count, name = line.rstrip("\n").split(" ", 1)
        seconds = []
        for _ in range(int(count)):
            start = time.perf_counter()
            runs[name]()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
