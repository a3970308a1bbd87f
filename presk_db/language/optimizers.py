"""Optimizer steps on trees of tensors: AdamW, SGD, and the factor that clips a gradient by its norm.

Learning rate and step number are scalar arguments, so what is computed from them alone is computed in f64.
"""

from collections.abc import Callable
from typing import Any

from presk_db.language.elementwise import exp, log, minimum, sqrt
from presk_db.language.primitives import const, reshape, sum, update
from presk_db.language.tracing import Tensor, flatten, function, rebuilt


def mapped(fn: Callable[..., Any], tree: Any, *more: Any) -> Any:
    """A tree of the same form whose leaves are `fn` of the leaves of the trees."""
    leaves = [[leaf for _, leaf in flatten(t)] for t in (tree, *more)]
    return rebuilt(tree, iter([fn(*row) for row in zip(*leaves, strict=True)]))


@function
def square_sum(g: Tensor) -> Tensor:
    """The sum of squares: along the last axis, then over the rows in row-major order."""
    rows = sum(g * g) if g.shape else g * g
    return sum(reshape(rows, -1)) if rows.shape else rows


@function
def clip_factor(grads: Any, most: float) -> tuple[Tensor, Tensor]:
    """The gradient's norm, and min(1, most / (norm + 1e-6)), by which it is multiplied.

    The norm is the root of the tensors' sums of squares, added in the tree's order.
    """
    total: Any = None
    for _, g in flatten(grads):
        total = square_sum(g) if total is None else total + square_sum(g)
    norm = sqrt(total)
    return norm, minimum(most / (norm + 1e-6), 1.0)


@function
def adamw_rates(lr: Tensor, step: Tensor, beta1: float, beta2: float, decay: float) -> tuple[Tensor, Tensor, Tensor]:
    """1 - lr decay, lr / (1 - beta1^step), sqrt(1 - beta2^step), with beta^step as exp(step log beta)."""
    first = 1.0 - exp(step * log(const(beta1)))
    second = 1.0 - exp(step * log(const(beta2)))
    return 1.0 - lr * decay, lr / first, sqrt(second)


@function
def adamw_update(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, rates: Any, factor: Tensor | None, betas: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """One tensor's new value and moments."""
    keep, rate, root = rates
    beta1, beta2 = betas
    g = g if factor is None else g * factor
    first = beta1 * m + (1.0 - beta1) * g
    second = beta2 * v + (1.0 - beta2) * (g * g)
    new = p * keep - rate * (first / (sqrt(second) / root + eps))
    return update(new, p), update(first, m), update(second, v)


def adamw(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    lr: Tensor,
    step: Tensor,
    factor: Tensor | None = None,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 0.01,
) -> tuple[Any, Any, Any]:
    """AdamW with decoupled decay and bias correction (Loshchilov and Hutter 2019), on trees of one form.

    `step` counts from 1. Every gradient is first multiplied by `factor`. Gives the new p, m and v; a new value that no
    result of the entry depends on is an error.
    """
    rates = adamw_rates(lr, step, betas[0], betas[1], decay)
    leaves = [[leaf for _, leaf in flatten(tree)] for tree in (p, g, m, v)]
    new = [adamw_update(a, b, c, d, rates, factor, betas, eps) for a, b, c, d in zip(*leaves, strict=True)]
    first, second, third = (rebuilt(p, iter([row[i] for row in new])) for i in range(3))
    return first, second, third


@function
def sgd_update(p: Tensor, g: Tensor, lr: Tensor, factor: Tensor | None) -> Tensor:
    """p - lr g."""
    return update(p - lr * (g if factor is None else g * factor), p)


def sgd(p: Any, g: Any, lr: Tensor, factor: Tensor | None = None) -> Any:
    """Gradient descent on a tree: p - lr (factor g)."""
    return mapped(lambda a, b: sgd_update(a, b, lr, factor), p, g)
