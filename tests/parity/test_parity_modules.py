"""Every module function's forward and backward pass against PyTorch's, at the sizes that pytest's options give."""

from typing import Any

import pytest
import torch
from parity_cases import Case, check_case
from parity_sizes import Sizes, sizes_from_options
from torch.nn import functional as F

from presk_db import language as L
from presk_db.language import nn
from presk_db.models.rope import Rope

pytestmark = pytest.mark.parity

EPS = 1e-5
THETA = 10000.0


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """x cos + (-second half, first half) sin, as transformers writes rotary positions."""
    a, b = x.chunk(2, -1)
    return x * torch.cat((cosine, cosine), -1) + torch.cat((-b, a), -1) * torch.cat((sine, sine), -1)


def tables(s: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each position and pair (T, D/2)."""
    frequency = THETA ** (-torch.arange(0, s.head_dim, 2, dtype=torch.float64) / s.head_dim)
    angles = torch.arange(s.tokens, dtype=torch.float64)[:, None] * frequency
    return angles.cos(), angles.sin()


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention with grouped heads, q (B, H, T, D), k and v (B, G, T, D): (B, T, H D)."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def norms(s: Sizes) -> dict[str, Case]:
    """LayerNorm and RMSNorm of (B, T, C)."""
    x, c = (s.batch, s.tokens, s.width), (s.width,)
    return {
        "layer_norm": Case(
            lambda q: L.layer_norm(*q, EPS), lambda q: F.layer_norm(q[0], c, q[1], q[2], EPS), [x, c, c]
        ),
        "layer_norm without bias": Case(
            lambda q: L.layer_norm(*q, None, EPS), lambda q: F.layer_norm(q[0], c, q[1], None, EPS), [x, c]
        ),
        "rms_norm": Case(lambda q: L.rms_norm(*q, EPS), lambda q: F.rms_norm(q[0], c, q[1], EPS), [x, c]),
    }


def feed_forward(s: Sizes) -> dict[str, Case]:
    """Linear, both forms of GELU, SwiGLU and softmax of (B, T, C)."""
    x, up, down = (s.batch, s.tokens, s.width), (s.width, s.inner), (s.inner, s.width)
    return {
        "linear": Case(lambda q: L.linear(*q), lambda q: F.linear(q[0], q[1].T, q[2]), [x, up, (s.inner,)]),
        "linear without bias": Case(lambda q: L.linear(*q), lambda q: F.linear(q[0], q[1].T), [x, up]),
        "gelu": Case(lambda q: L.gelu(q[0]), lambda q: F.gelu(q[0]), [x], low=-5.0, high=5.0),
        "gelu_tanh": Case(
            lambda q: L.gelu_tanh(q[0]), lambda q: F.gelu(q[0], approximate="tanh"), [x], low=-5.0, high=5.0
        ),
        "swiglu": Case(
            lambda q: L.linear(L.silu(L.linear(q[0], q[1])) * L.linear(q[0], q[2]), q[3]),
            lambda q: F.linear(F.silu(F.linear(q[0], q[1].T)) * F.linear(q[0], q[2].T), q[3].T),
            [x, up, up, down],
            low=-0.5,
            high=0.5,
        ),
        "softmax": Case(lambda q: L.softmax(q[0]), lambda q: F.softmax(q[0], -1), [x], low=-8.0, high=8.0),
    }


def heads(s: Sizes) -> dict[str, Case]:
    """Rotary positions, attention, and both with their products, as Llama has them."""
    b, t, c, d = s.batch, s.tokens, s.width, s.head_dim
    q, kv, table = (b, s.heads, t, d), (b, s.kv_heads, t, d), (t, d // 2)
    # An angle in f32 is wrong by half an ulp of a number below T, and so its sine and cosine.
    angle = t * 2.0**-22

    def split(x: Any, count: int) -> Any:
        return L.transpose(L.reshape(x, b, t, count, d), 0, 2, 1, 3)

    def rotated(x: Any) -> Any:
        angles = Rope(THETA, "default", {}).angles(t, d)
        return L.rotary(x, L.cos(angles), L.sin(angles))

    def module(r: Any) -> Any:
        x, *w = r
        turned_q, turned_k = (rotated(split(L.linear(x, m), n)) for m, n in ((w[0], s.heads), (w[1], s.kv_heads)))
        return L.linear(L.attention(turned_q, turned_k, split(L.linear(x, w[2]), s.kv_heads)), w[3])

    def reference(r: list[torch.Tensor]) -> torch.Tensor:
        x, wq, wk, wv, wo = r
        parts = ((x @ w).unflatten(-1, (-1, d)).transpose(1, 2) for w in (wq, wk, wv))
        mine, keys, values = parts
        return attended(turned(mine, *tables(s)), turned(keys, *tables(s)), values) @ wo

    return {
        "rotary": Case(lambda r: L.rotary(*r), lambda r: turned(*r), [q, table, table]),
        "rotary at positions": Case(lambda r: rotated(r[0]), lambda r: turned(r[0], *tables(s)), [q], f32=angle),
        "attention": Case(lambda r: L.attention(*r), lambda r: attended(*r), [q, kv, kv]),
        "grouped-query attention": Case(
            module,
            reference,
            [(b, t, c), (c, s.heads * d), (c, s.kv_heads * d), (c, s.kv_heads * d), (s.heads * d, c)],
            low=-0.5,
            high=0.5,
            f32=4.0 * angle,
        ),
    }


def vocabulary(s: Sizes) -> dict[str, Case]:
    """Embedding and cross-entropy; integers of V are targets that are ignored."""
    b, t, v = s.batch, s.tokens, s.vocabulary
    targets = {"i": (v + 1, (b * t,))}

    def mean_loss(q: Any, i: Any) -> Any:
        return L.sum(L.token_losses(q[0], i)) / L.target_count(i, v)

    return {
        "embedding": Case(
            lambda q, i: L.gather(q[0], i), lambda q, i: F.embedding(i, q[0]), [(v, s.width)], {"i": (v, (b, t))}
        ),
        "token_losses": Case(
            lambda q, i: L.token_losses(q[0], i),
            lambda q, i: F.cross_entropy(q[0], i, ignore_index=v, reduction="none"),
            [(b * t, v)],
            targets,
        ),
        "cross-entropy": Case(
            mean_loss, lambda q, i: F.cross_entropy(q[0], i, ignore_index=v), [(b * t, v)], targets, low=-8.0, high=8.0
        ),
    }


def cases(s: Sizes) -> dict[str, Case]:
    """Every module."""
    return norms(s) | feed_forward(s) | heads(s) | vocabulary(s)


NAMES = tuple(cases(Sizes(1, 1, 1, 1, 1, 2)))


@pytest.mark.parametrize("type_", ["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_module(name: str, type_: str, sizes: Sizes) -> None:
    check_case(cases(sizes)[name], type_)


def test_every_module_function_is_compared() -> None:
    public = {n for n, f in vars(nn).items() if getattr(f, "__module__", "") == nn.__name__ and not n.startswith("_")}
    inside = {
        "causal_mask": "attention",
        "rotary_frequencies": "rotary at positions",
        "target_count": "cross-entropy",
    }
    elsewhere = {"llama3_frequencies"}  # test_parity_transformers.py, llama3-scaling
    assert public == {n for n in NAMES if n.isidentifier() and n in public} | set(inside) | elsewhere
    assert set(inside.values()) <= set(NAMES)


def test_a_wrong_formula_shows(sizes: Sizes) -> None:
    right = cases(sizes)["rms_norm"]
    wrong = Case(lambda q: L.rms_norm(*q, 1.01 * EPS), right.torch, right.shapes)
    with pytest.raises(AssertionError, match="f64"):
        check_case(wrong, "f64")
    half = Case(lambda q: L.rms_norm(q[0] * 0.5 + L.stop(q[0]) * 0.5, q[1], EPS), right.torch, right.shapes)
    with pytest.raises(AssertionError, match=r"grad\.0"):
        check_case(half, "f64")


@pytest.mark.parametrize("option", ["--heads 5 --kv-heads 2", "--head-dim 3", "--tokens 0"])
def test_sizes_that_do_not_fit(option: str, pytestconfig: pytest.Config) -> None:
    class Changed:
        def getoption(self, name: str) -> Any:
            words = option.split()
            changed = {w[2:].replace("-", "_"): n for w, n in zip(words[::2], words[1::2], strict=True)}
            return changed.get(name, pytestconfig.getoption(name))

    with pytest.raises(pytest.UsageError, match=option.split()[0]):
        sizes_from_options(Changed())  # type: ignore[arg-type]  # it has what is used of a Config
