"""Keys as values of the language: child, split, uniform, sample; docs/generation.md has the definitions.

A key comes from an input (`key_input`, or a seed through `key_from_seed`), so that the program holds it. A key of
another kind, such as one of a Python library, is refused (E8006): its numbers would be constants of the program.
"""

import math
from collections.abc import Sequence
from typing import Any

from presk_db.errors import InputBad, KeyForeign, ShapeBad
from presk_db.language.primitives import const, integer
from presk_db.language.tracing import Tensor, current_trace, emit, source_line

ROUTINES = ("key_seed", "key_child", "key_split", "uniform", "penalize", "sample")
"""Equations that a routine of the runtime computes, on whole arrays; they have no derivative."""


def _check_key(key: Any, op: str) -> None:
    """Raises KeyForeign (E8006) unless `key` is one key that the program holds."""
    if not isinstance(key, Tensor):
        held = "declare an input key_input(), or an integer input for key_from_seed()"
        raise KeyForeign(f"{op} takes a key of the program, not {type(key).__name__}: {held}", source_line())
    if key.kind != "key":
        raise KeyForeign(f"{op} takes a key, not {key.var.type_text}: declare the input as key_input()", source_line())
    if key.trace is not current_trace():
        raise KeyForeign(f"{op} takes a key that its function was given: make it an argument", source_line())
    if key.shape:
        raise ShapeBad(
            f"{op} takes one key: choose one of {key.shape[0]} by an index, or fold over them", source_line()
        )


def _integer(x: Any, what: str) -> Tensor:
    if isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 2**63:
        return integer(x)
    if not isinstance(x, Tensor) or (x.kind, x.shape) != ("int", ()):
        raise ShapeBad(f"{what} is one integer of the program, or a whole number from 0", source_line())
    return x


def _number(x: Any, what: str, low: float, high: float) -> Tensor:
    """A real of shape (), or a Python number in [low, high]."""
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        if not (math.isfinite(x) and low <= x <= high):
            ends = f"from {low:g} on" if math.isinf(high) else f"in [{low:g}, {high:g}]"
            raise InputBad(f"{what} must be a number {ends}", source_line())
        return const(x)
    if not isinstance(x, Tensor) or (x.kind, x.shape) != ("real", ()):
        raise ShapeBad(f"{what} is one real number", source_line())
    return x


def key_from_seed(seed: Tensor) -> Tensor:
    """The key that an integer of the program names (`int_input(limit=2**63 - 1)`). KeyForeign (E8006) for a constant."""
    if not isinstance(seed, Tensor) or seed.kind != "int":
        raise KeyForeign("a seed is an integer that the program is given: declare it by int_input()", source_line())
    return emit("key_seed", [_integer(seed, "a seed")], "key", ())


def child(key: Tensor, i: Tensor | int) -> Tensor:
    """The child of a key with the number i."""
    _check_key(key, "child")
    return emit("key_child", [key, _integer(i, "a child's number")], "key", ())


def split(key: Tensor, n: int) -> Tensor:
    """n keys (n,), the parts of a key: `keys[i]`, or folded over. They differ from all children."""
    _check_key(key, "split")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ShapeBad("a key is split into a number of parts from 1 on", source_line())
    return emit("key_split", [key], "key", (n,))


def uniform(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Numbers in [0, 1), the first ones of the key in row-major order: f64 in every realization."""
    _check_key(key, "uniform")
    if any(isinstance(e, bool) or not isinstance(e, int) or e < 0 for e in shape):
        raise ShapeBad(f"{list(shape)} is no shape", source_line())
    return emit("uniform", [key], "real", tuple(shape))


def _rows(logits: Tensor, op: str) -> tuple[int, ...]:
    if not isinstance(logits, Tensor) or logits.kind != "real" or not logits.shape or logits.shape[-1] < 1:
        raise ShapeBad(f"{op} takes real logits (..., n) of at least one token", source_line())
    return logits.shape


def penalized(logits: Tensor, seen: Tensor, penalty: Tensor | float, count: Tensor | int | None = None) -> Tensor:
    """Logits (..., n), smaller for the tokens among seen (..., m), of which the first `count` count: f64, and constant
    to derivatives. A token outside [0, n) is passed over."""
    shape = _rows(logits, "penalized")
    fits = isinstance(seen, Tensor) and seen.kind == "int" and seen.shape[:-1] == shape[:-1] and len(seen.shape) > 0
    if not fits or seen.shape[-1] < 1:
        raise ShapeBad("penalized takes integers seen (..., m), m from 1 on, beside logits (..., n)", source_line())
    m = _integer(seen.shape[-1] if count is None else count, "a count of tokens")
    factor = _number(penalty, "the repetition penalty", math.nextafter(0.0, 1.0), math.inf)
    return emit("penalize", [logits, seen, factor, m], "real", shape)


def sample(
    key: Tensor,
    logits: Tensor,
    temperature: Tensor | float = 1.0,
    top_k: Tensor | int = 0,
    top_p: Tensor | float = 1.0,
    min_p: Tensor | float = 0.0,
) -> Tensor:
    """A token for each row of logits (..., n): integers (...) in [0, n).

    Row i takes the key's uniform number i. A temperature of 0 takes the largest logit. Where no token can be drawn (a
    NaN, nothing but -infinity, a number of the run out of its range), the result is that of `argmax`.

    Raises KeyForeign (E8006) for a key that the program does not hold, InputBad (E1205) for a constant out of range.
    """
    _check_key(key, "sample")
    shape = _rows(logits, "sample")
    numbers = [
        _number(temperature, "the temperature", 0.0, math.inf),
        _number(top_p, "top-p", 0.0, 1.0),
        _number(min_p, "min-p", 0.0, 1.0),
        _integer(top_k, "top-k"),
    ]
    return emit("sample", [key, logits, *numbers], "int", shape[:-1], shape[-1])
