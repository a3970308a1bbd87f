"""routine: the routines of kernels on NumPy arrays; `presk_routine_NAME` in C are their twins."""

from collections.abc import Callable, Sequence

import numpy as np

from presk_db.errors import InputBad
from presk_db.keys import KEY_WORDS, Key
from presk_db.native.numbers import Array, keys
from presk_db.native.sampling import Sampling, penalized, sampled

Routine = Callable[..., None]
"""Takes the routine's arguments in order: arrays in their shapes (bf16 as f32), values as numbers; no locals."""


def routine(name: str) -> Routine:
    """The function of a routine of `kernels.routines`."""
    return _ROUTINES[name]


def _key(words: Array) -> Key:
    return Key(tuple(int(w) % 2**32 for w in words))


def _words(found: Sequence[Key]) -> Array:
    return np.array([k.key for k in found], np.int64).reshape(-1, KEY_WORDS)


def _key_seed(out: Array, seed: int) -> None:
    out[...] = _words([Key.from_seed(seed % 2**64)])[0]


def _key_child(out: Array, key: Array, i: int) -> None:
    out[...] = _words([_key(key).child(i % 2**64)])[0]


def _key_split(out: Array, key: Array) -> None:
    out[...] = _words(_key(key).split(len(out)))


def _uniform(out: Array, key: Array) -> None:
    out[...] = _key(key).uniform(len(out))


def _penalize(out: Array, logits: Array, seen: Array, penalty: float, count: int) -> None:
    for row, tokens, x in zip(out, seen, logits, strict=True):
        row[...] = penalized(x, [int(t) for t in tokens[: max(count, 0)]], penalty)


def _sample(out: Array, key: Array, logits: Array, temperature: float, top_p: float, min_p: float, top_k: int) -> None:
    """Where no token can be drawn, or a value is out of its range: the first of the largest logits, NaN above all."""
    try:
        how = Sampling(temperature, top_k, top_p, min_p)
    except InputBad:
        how = None
    draws = _key(key).uniform(len(out))
    for row, x in enumerate(logits.astype(np.float64)):
        token = -1 if how is None else sampled(how, float(draws[row]), x)
        out[row] = int(np.argmax(keys(x, "f64"))) if token < 0 else token


_ROUTINES: dict[str, Routine] = {
    "key_seed": _key_seed,
    "key_child": _key_child,
    "key_split": _key_split,
    "uniform": _uniform,
    "penalize": _penalize,
    "sample": _sample,
}
