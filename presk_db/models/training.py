"""language_entries: forward, the steps, losses and training steps of a model that gives logits for tokens.

Letters: M micro-batches, B sequences of one, T positions, V vocabulary. Tokens and targets are (B, T), or (M, B, T)
where M is not 1. A target that is V is ignored. The loss is the mean over the other targets, of all micro-batches; where
there are none it is NaN (0 / 0).
"""

from collections.abc import Callable, Mapping
from typing import Any

from presk_db.errors import DimensionBad
from presk_db.language.gradients import value_and_grad
from presk_db.language.graph import Input
from presk_db.language.nn import target_count, token_losses
from presk_db.language.optimizers import adamw, clip_factor, mapped, sgd
from presk_db.language.parameters import int_input, real_input, scalar_input
from presk_db.language.primitives import broadcast_to, const, reshape, site, sum, update
from presk_db.language.tracing import Record, Tensor, flatten, fold, function, rebuilt
from presk_db.models.model import DERIVED, Entry, forward_entry

CLIP = 1.0
"""The largest norm of a gradient that train_step leaves as it is."""

MIXED = tuple(
    (sites, "bf16")
    for sites in ("forward", "*/batch_loss/site*", "*/batch_loss/forward", "*/forward_grad/block_grad.*/block")
)
"""Rules over f32 for the type `mixed`: the forward pass, with its own copy of the parameters, in bf16."""


def language_entries(forward: Callable[..., Any], parameters: Any, vocabulary: int, longest: int) -> dict[str, Entry]:
    """The entries by name. `forward(p, tokens)` gives a mapping with `logits` (B, T, V), for at most `longest` tokens."""

    def tokens(dims: Mapping[str, int]) -> dict[str, Input]:
        if dims.get("M", 1) != 1:
            raise DimensionBad("only entries for training have micro-batches", "dims.M")
        return {"tokens": int_input(dims["B"], dims["T"], limit=vocabulary)}

    def batch(dims: Mapping[str, int]) -> dict[str, Input]:
        shape = (*((dims["M"],) if dims.get("M", 1) != 1 else ()), dims["B"], dims["T"])
        return {"tokens": int_input(*shape, limit=vocabulary), "targets": int_input(*shape, limit=vocabulary + 1)}

    def with_rate(dims: Mapping[str, int]) -> dict[str, Input]:
        return {**batch(dims), "lr": scalar_input(1e-3)}

    def with_moments(dims: Mapping[str, int]) -> dict[str, Input]:
        named = flatten(parameters)
        first = {f"m.{n}": real_input(*p.shape, low=-1e-3, high=1e-3) for n, p in named}
        second = {f"v.{n}": real_input(*p.shape, low=0.0, high=1e-4) for n, p in named}
        return {**with_rate(dims), "step": scalar_input(1.0), **first, **second}

    functions = _functions(function(forward), vocabulary)
    inputs = {"loss": batch, "loss_grad": batch, "train_step": with_moments, "train_step_sgd": with_rate}
    whole = forward_entry(tokens, forward)
    return {
        "forward": whole,
        **{name: derived(whole, longest) for name, derived in DERIVED.items()},
        **{n: Entry(i, functions[n]) for n, i in inputs.items()},
    }


def _functions(forward: Callable[..., Any], vocabulary: int) -> dict[str, Callable[..., Any]]:
    @function
    def batch_loss(p: Any, tokens: Tensor, targets: Tensor, count: Tensor) -> Tensor:
        logits = forward(mapped(site, p), tokens)["logits"]
        return sum(token_losses(reshape(logits, -1, vocabulary), reshape(targets, -1))) / count

    def over_batches(term: Callable[..., Any], p: Any, tokens: Tensor, targets: Tensor, zero: Any) -> Any:
        """The sum of a term (a tree) over the micro-batches, in order."""
        count = target_count(targets, vocabulary)
        if len(tokens.shape) == 2:
            return term(p, tokens, targets, count)

        def micro_batch(total: Any, batch: Record, p: Any, count: Tensor) -> Any:
            return mapped(lambda a, b: a + b, total, term(p, batch.tokens, batch.targets, count))

        return fold(micro_batch, zero, Record(tokens=tokens, targets=targets), p, count)

    def with_gradient(p: Any, tokens: Tensor, targets: Tensor) -> Any:
        zero = (const(0.0), mapped(lambda t: broadcast_to(const(0.0), t.shape), p))
        return over_batches(value_and_grad(batch_loss), p, tokens, targets, zero)

    def loss(p: Any, tokens: Tensor, targets: Tensor) -> Any:
        return {"loss": over_batches(batch_loss, p, tokens, targets, const(0.0))}

    def loss_grad(p: Any, tokens: Tensor, targets: Tensor) -> Any:
        value, grads = with_gradient(p, tokens, targets)
        return {"loss": value, "grad": grads}

    def train_step(p: Any, tokens: Tensor, targets: Tensor, lr: Tensor, step: Tensor, **moments: Tensor) -> Any:
        value, grads = with_gradient(p, tokens, targets)
        norm, factor = clip_factor(grads, CLIP)
        m, v = (rebuilt(p, iter([moments[f"{which}.{name}"] for name, _ in flatten(p)])) for which in ("m", "v"))
        new, first, second = adamw(p, grads, m, v, lr, step, factor)
        return {"loss": value, "norm": norm, "p": new, "m": first, "v": second, "step": update(step + 1.0, step)}

    def train_step_sgd(p: Any, tokens: Tensor, targets: Tensor, lr: Tensor) -> Any:
        value, grads = with_gradient(p, tokens, targets)
        norm, factor = clip_factor(grads, CLIP)
        return {"loss": value, "norm": norm, "p": sgd(p, grads, lr, factor)}

    return {f.__name__: f for f in (loss, loss_grad, train_step, train_step_sgd)}
