"""Attention in one kernel: when it is, that its bits are those of three, and what a masked value does."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from lowering_cases import check, contents, graph_of, native, real

from presk_db.kernels.attention import attention_of
from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.products import product_of
from presk_db.language import elementwise
from presk_db.language import primitives as p
from presk_db.language.gradients import grad
from presk_db.language.graph import Graph
from presk_db.language.nn import attention, causal_mask, softmax
from presk_db.language.parameters import parameter
from presk_db.language.tracing import Record, Tensor
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.numbers import bf16_from_f32

Scores = Callable[[Tensor], Tensor]


def plain(weights: Scores, t: int = 5, s: int = 5, also: str = "") -> Graph:
    """softmax-like weights of q k, times v; with the weights, or the products q k, as a second result."""

    def entry(parameters: None, q: Tensor, k: Tensor, v: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        scores = p.matmul(q, p.transpose(k))
        w = weights(scores * 0.5)
        mixed = p.matmul(w, v)
        return (mixed, w if also == "weights" else scores) if also else mixed

    return graph_of(entry, None, q=real(2, 3, t, 4), k=real(2, 3, s, 4), v=real(2, 3, s, 6))


def causal(scores: Tensor) -> Tensor:
    return softmax(causal_mask(scores))


def anticausal(scores: Tensor) -> Tensor:
    """Key s where it is not before query t."""
    shape = scores.shape
    t, s = p.iota(shape, len(shape) - 2), p.iota(shape, len(shape) - 1)
    return softmax(p.select(s >= t, scores, p.const(-math.inf)))


def masked_by_zero(scores: Tensor) -> Tensor:
    shape = scores.shape
    t, s = p.iota(shape, len(shape) - 2), p.iota(shape, len(shape) - 1)
    return softmax(p.select(s <= t, scores, p.const(0.0)))


def masked_and_used(scores: Tensor) -> Tensor:
    masked = causal_mask(scores)
    return softmax(masked) + elementwise.maximum(masked, p.const(0.0)) * 0.0


def keys(order: LaunchOrder) -> set[str]:
    """The extents over keys of the one kernel that is an attention."""
    (found,) = [a for k in order.kernels() if (a := attention_of(k)) is not None]
    return {str(found.scores.column.extent), str(found.values.k.extent)}


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize(
    ("weights", "t", "s", "seen"),
    [
        (causal, 5, 5, "i2+1"),
        (causal, 3, 40, "i2+38"),
        (softmax, 5, 7, "7"),
        (anticausal, 5, 5, "5"),
        (masked_by_zero, 5, 5, "5"),
        (masked_and_used, 5, 5, "5"),
    ],
)
def test_one_launch_and_what_it_sees(weights: Scores, t: int, s: int, seen: str, type_: str) -> None:
    """Only where a masked key's weight is certainly +0, its score and value are left out."""
    order = check(plain(weights, t, s), type_)
    assert len(order.launches) == 1
    assert keys(order) == {seen.replace("i2", order.kernels()[0].text.split("par ")[2].split()[0])}


@pytest.mark.parametrize("type_", ["f32", "bf16", "f64"])
@pytest.mark.parametrize(("t", "s", "seen"), [(5, 5, "i2+1"), (3, 40, "i2+38"), (37, 37, "i2+1")])
def test_weights_that_are_a_result_are_stored(t: int, s: int, seen: str, type_: str) -> None:
    """By the one kernel: those that a query sees, and zeros for the others."""
    graph = plain(causal, t, s, "weights")
    order = check(graph, "f32") if type_ == "f32" else launch_order(graph, Realization(type_))
    assert len(order.launches) == 1
    assert keys(order) == {seen.replace("i2", order.kernels()[0].text.split("par ")[2].split()[0])}
    _, inputs = contents(graph, "f32" if type_ == "bf16" else type_, 7)
    given = {n: bf16_from_f32(a) if type_ == "bf16" else a for n, a in inputs.items()}
    weights = max(native(order, {}, given).items())[1]
    assert weights.shape == (2, 3, t, s)
    hidden = np.triu(np.ones((t, s), bool), s - t + 1)
    assert not weights[..., hidden].any(), "+0 whatever the type"
    assert (weights[..., ~hidden] != 0).all()


def gradient_of_attention(b: int, h: int, t: int) -> Graph:
    """The gradient of a sum of squares of causal attention by q, k, v."""

    def total(w: Record, c: Tensor) -> Tensor:
        mixed = p.matmul(causal(p.matmul(w.q, p.transpose(w.k)) * 0.5), w.v)
        return p.sum(p.reshape(mixed * mixed * c, -1))

    def entry(parameters: Record, c: Tensor) -> Record:
        found: Record = grad(total)(parameters, c)
        return found

    shape = (b, h, t, 4)
    given = Record(q=parameter("q", *shape), k=parameter("k", *shape), v=parameter("v", *shape))
    return graph_of(entry, given, c=real(*shape))


def test_the_gradient_of_attention_is_two_attentions() -> None:
    """The second one's row function is that of the softmax's gradient; what it hands on is zero where nothing is seen."""
    order = check(gradient_of_attention(2, 2, 7), "f32")
    found = [a for launch in order.launches if (a := attention_of(launch.kernel)) is not None]
    assert len(found) == 2
    for a in found:
        assert str(a.scores.column.extent) == str(a.values.k.extent) == f"{a.row.var}+1"


def test_the_gradients_of_keys_and_values_begin_at_the_first_query_that_sees_them() -> None:
    order = check(gradient_of_attention(2, 2, 7), "f32")
    late = [p for launch in order.launches if (p := product_of(launch.kernel)) is not None and p.late]
    assert len(late) == 2
    for product in late:
        assert product.right.source is not None and product.right.source.across == 1


def test_what_is_not_seen_reaches_no_gradient_of_a_key_or_a_value() -> None:
    """An infinite cotangent of the first query, which sees one key, does not reach the others'."""
    graph = gradient_of_attention(1, 1, 5)
    order = launch_order(graph, Realization("f32"))
    weights, inputs = contents(graph, "f32")
    clean = native(order, weights, inputs)
    (name, given) = min(inputs.items())
    given = given.copy()
    given.reshape(5, 4)[0] = np.inf
    found = native(order, weights, {name: given})
    for n in ("k", "v"):
        (key,) = [o for o in clean if o.split(".")[-1] == n]
        got, want = (a[key].reshape(5, 4) for a in (found, clean))
        assert not np.isfinite(got[0]).all() and (got[1:] == want[1:]).all()


def test_weights_that_are_read_before_the_values_are_there_are_stored_apart() -> None:
    def entry(parameters: None, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        w = causal(p.matmul(q, p.transpose(k)))
        total = p.sum(w)
        return p.matmul(w, v * p.reshape(p.sum(total), 1, 1)), total

    order = check(graph_of(entry, None, q=real(4, 3), k=real(4, 3), v=real(4, 2)), "f32")
    assert all(attention_of(launch.kernel) is None for launch in order.launches)


def test_scores_with_another_user_are_stored() -> None:
    def entry(parameters: None, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = p.matmul(q, p.transpose(k))
        return p.matmul(softmax(scores), v), p.matmul(scores, v)

    order = check(graph_of(entry, None, q=real(4, 3), k=real(5, 3), v=real(5, 2)))
    assert len(order.launches) == 4


def test_groups_share_keys() -> None:
    graph = graph_of(
        lambda w, q, k, v: attention(q, k, v), None, q=real(2, 4, 3, 6), k=real(2, 2, 5, 6), v=real(2, 2, 5, 6)
    )
    order = check(graph, "f32")
    assert len(order.launches) == 2, "the second one copies the heads into their places"
    assert attention_of(order.kernels()[0]) is not None


@pytest.mark.parametrize("type_", ["f32", "bf16", "f64"])
def test_the_bits_are_those_of_three_kernels(type_: str) -> None:
    """Scores and weights are rounded where memory would round them."""
    found = []
    for also in ("", "scores", "weights"):
        graph = plain(causal, 37, 37, also)
        order = launch_order(graph, Realization(type_))
        _, inputs = contents(graph, "f32" if type_ == "bf16" else type_, 7)
        given = {n: bf16_from_f32(a) if type_ == "bf16" else a for n, a in inputs.items()}
        outputs = native(order, {}, given)
        assert len(order.launches) == (3 if also == "scores" else 1)
        found.append(min(outputs.items())[1].tobytes())
    assert len(set(found)) == 1


def test_a_masked_value_is_multiplied_by_nothing() -> None:
    """What a query does not see does not reach it, whatever it is."""
    graph = plain(causal, 16, 16)
    order = launch_order(graph, Realization("f32"))
    _, inputs = contents(graph, "f32")
    (clean,) = native(order, {}, inputs).values()
    changed = {n: a.copy() for n, a in inputs.items()}
    changed["v"][:, :, 9] = np.inf
    changed["v"][:, :, 12] = np.nan
    changed["k"][:, :, 9:] = np.nan
    (found,) = native(order, {}, changed).values()
    assert found[:, :, :9].tobytes() == clean[:, :, :9].tobytes()
    assert np.isnan(found[:, :, 9:]).all()
