"""Module functions that networks share, written in the primitives: norms, softmax, rotary positions, attention.

Letters: B batch, T positions, C width, H heads, G key-value heads, D width of a head, K reduced, N output width.
"""

import math

from presk_db.language.elementwise import equal, exp, log, sqrt, tanh
from presk_db.language.primitives import (
    amax,
    concat,
    const,
    iota,
    matmul,
    mean,
    real,
    reshape,
    select,
    stop,
    sum,
    transpose,
)
from presk_db.language.tracing import Tensor, function


@function
def linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """x (..., K) @ w (K, N) + b (N): (..., N)."""
    y = reshape(matmul(reshape(x, 1, -1), w), -1) if len(x.shape) == 1 else matmul(x, w)
    return y if b is None else y + b


@function
def layer_norm(x: Tensor, w: Tensor, b: Tensor | None, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * w + b along the last axis (Ba et al. 2016); the quotient as 1/sqrt times."""
    centered = x - mean(x, keep=True)
    scale = 1.0 / sqrt(mean(centered * centered, keep=True) + eps)
    y = centered * scale * w
    return y if b is None else y + b


@function
def rms_norm(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * w along the last axis (Zhang and Sennrich 2019); the quotient as 1/sqrt times."""
    scale = 1.0 / sqrt(mean(x * x, keep=True) + eps)
    return x * scale * w


@function
def softmax(x: Tensor) -> Tensor:
    """exp(x - max) / sum along the last axis. The maximum only keeps exp finite: the result does not depend on it."""
    e = exp(x - stop(amax(x, keep=True)))
    return e / sum(e, keep=True)


@function
def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """log(sum(exp(logits))) - logits[target], logits (N, V), targets (N) in [0, V]: (N).

    The logits are taken less their row's maximum. A target that is V is ignored: its loss is 0.
    """
    v = logits.shape[-1]
    shifted = logits - stop(amax(logits, keep=True))
    at = equal(iota(logits.shape, 1), reshape(targets, -1, 1))
    own = sum(select(at, shifted, 0.0))
    return select(targets < v, log(sum(exp(shifted))) - own, 0.0)


@function
def target_count(targets: Tensor, ignored: int) -> Tensor:
    """How many targets are not `ignored`, as a real of shape ()."""
    return sum(select(equal(reshape(targets, -1), ignored), 0.0, 1.0))


@function
def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) (Hendrycks and Gimpel 2016), operation by operation."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + tanh(inner))


def causal_mask(scores: Tensor) -> Tensor:
    """scores (..., T, S) where key s is not after query t + (S - T); -inf elsewhere."""
    shape = scores.shape
    t, s = iota(shape, len(shape) - 2), iota(shape, len(shape) - 1)
    return select(s <= t + (shape[-1] - shape[-2]), scores, const(-math.inf))


def rotary_frequencies(shape: tuple[int, int], d: int, theta: float) -> Tensor:
    """θ^(−2i/D) in column i, (T, D/2) (Su et al. 2021)."""
    return exp(real(iota(shape, 1)) * (-2.0 / d) * log(const(theta)))


def llama3_frequencies(frequency: Tensor, factor: float, low: float, high: float, original: float) -> Tensor:
    """Frequencies f stretched for longer contexts as in Llama 3.1 (Grattafiori et al. 2024).

    With w = 2π/f and c = `original` positions: f where w < c/high, f/factor where w > c/low, between them a mixture
    whose weight is (c/w − low)/(high − low).
    """
    wavelength = 2.0 * math.pi / frequency
    weight = (original / wavelength - low) / (high - low)
    mixed = (1.0 - weight) * (frequency / factor) + weight * frequency
    stretched = select(wavelength > original / low, frequency / factor, mixed)
    return select(wavelength < original / high, frequency, stretched)


def rotary(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x (..., T, D) with each pair (x[i], x[i + D/2]) turned by its angle; cosine, sine (T, D/2)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return concat([a * cosine - b * sine, b * cosine + a * sine], -1)


@function
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal scaled dot-product attention (Vaswani et al. 2017), q (B, H, T, D), k and v (B, G, S, D): (B, T, H D).

    Each group of H/G query heads shares a key-value head (Ainslie et al. 2023).
    """
    b, h, t, d = q.shape
    g, s = k.shape[1], k.shape[2]
    grouped = reshape(q, b, g, h // g, t, d)
    keys = transpose(reshape(k, b, g, 1, s, d))
    values = reshape(v, b, g, 1, s, d)
    scores = matmul(grouped, keys) * (1.0 / math.sqrt(d))
    mixed = matmul(softmax(causal_mask(scores)), values)
    return reshape(transpose(reshape(mixed, b, h, t, d), 0, 2, 1, 3), b, t, h * d)
