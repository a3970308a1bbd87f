"""sampled: one token from a row of logits, in NumPy; docs/generation.md defines it, `presk_sample` is its twin in C."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from presk_db.errors import InputBad
from presk_db.native.functions import function
from presk_db.native.numbers import Array

_SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn; the defaults draw from the plain softmax. A temperature of 0 takes the largest logit.

    Errors: InputBad (E1205) for a value that is out of its range or NaN.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0):
            raise InputBad("the temperature must be a number from 0 on")
        if not 0.0 <= self.top_p <= 1.0:
            raise InputBad("top-p must lie in [0, 1]")
        if not 0.0 <= self.min_p <= 1.0:
            raise InputBad("min-p must lie in [0, 1]")
        if not (math.isfinite(self.penalty) and self.penalty > 0.0):
            raise InputBad("the repetition penalty must be a number above 0")
        if self.top_k < 0:
            raise InputBad("top-k must be 0 or more")


def penalized(logits: Array, seen: Iterable[int], penalty: float) -> Array:
    """The logits (n,) of f64, smaller for the tokens that were seen; tokens outside [0, n) are passed over."""
    x = logits.astype(np.float64)
    tokens = np.array(sorted({t for t in seen if 0 <= t < len(x)}), np.int64)
    with np.errstate(all="ignore"):
        x[tokens] = np.where(x[tokens] > 0.0, x[tokens] / penalty, x[tokens] * penalty)
    return x


def sampled(sampling: Sampling, u: float, logits: Array) -> int:
    """The token drawn with the uniform number u from logits (n,) of f32 or f64; -1 where none can be drawn."""
    x = logits.astype(np.float64)
    if len(x) == 0 or bool(np.isnan(x).any()):
        return -1
    first = int(_order(x)[0])
    if x[first] == -np.inf:
        return -1
    if sampling.temperature == 0.0:
        return first
    with np.errstate(all="ignore"):
        y = x / np.float64(sampling.temperature)
        m = y[first]
        if np.isinf(m):
            return first
        w = function("exp", "f64")(y - m)
    if 0 < sampling.top_k < len(y):
        w[_order(y)[sampling.top_k :]] = 0.0
    if sampling.top_p < 1.0:
        w = _nucleus(w, sampling.top_p)
    w = np.where(w >= sampling.min_p, w, 0.0)
    running = np.add.accumulate(w)
    return int(np.argmax(running > np.float64(u) * running[-1]))


def _order(x: Array) -> Array:
    """The tokens (n,): larger numbers first, -0 after +0, the lower token among equals. No number is NaN."""
    bits = np.ascontiguousarray(x).view(np.int64)
    keys = np.where(bits < 0, _SIGN - bits, bits + 1)  # -0 gives 0, +0 gives 1
    return np.argsort(-keys, kind="stable")


def _nucleus(w: Array, top_p: float) -> Array:
    """The weights (n,), 0 behind the shortest beginning of their order whose sum reaches top_p of all."""
    order = _order(w)
    enough = np.float64(top_p) * np.add.accumulate(w)[-1]
    reached = np.add.accumulate(w[order]) >= enough
    if reached.any():
        w = w.copy()
        w[order[int(np.argmax(reached)) + 1 :]] = 0.0
    return w
