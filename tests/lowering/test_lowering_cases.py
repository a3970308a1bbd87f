"""Structures of the lowering, one small entry each: the oracle's bits, and the number of launches."""

from collections.abc import Callable
from typing import Any

import pytest
from lowering_cases import check, graph_of, integer, real, weight

from presk_db.language import elementwise
from presk_db.language import primitives as p
from presk_db.language.graph import Graph
from presk_db.language.nn import attention, causal_mask, gelu_tanh, layer_norm, linear, rms_norm, rotary, softmax
from presk_db.language.tracing import Tensor, fold, function

CASES: dict[str, tuple[int, Callable[[], Graph]]] = {}


def case(launches: int) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]:
    """Registers a graph and the launches that it needs."""

    def register(make: Callable[[], Graph]) -> Callable[[], Graph]:
        CASES[make.__name__] = (launches, make)
        return make

    return register


def of(fn: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    """The graph of fn(tensors of these shapes)."""
    inputs = {f"x{n}": real(*s) for n, s in enumerate(shapes)}
    return graph_of(lambda parameters, **given: fn(*given.values()), None, **inputs)


@case(2)
def attention_output_packed_into_its_product() -> Graph:
    """The heads' transposition is stored by the product itself; the next product reads it."""

    def entry(a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        mixed = p.matmul(a, b)
        return linear(p.reshape(p.transpose(mixed, 0, 2, 1, 3), 2, 3, 8), w)

    return of(entry, (2, 2, 3, 5), (2, 2, 5, 4), (8, 6))


@case(2)
def attention_with_groups() -> Graph:
    return of(lambda q, k, v: attention(q, k, v) + 0.0, (2, 4, 3, 6), (2, 2, 5, 6), (2, 2, 5, 6))


@case(3)
def double_pack() -> Graph:
    def entry(x: Tensor) -> Tensor:
        y = p.reshape(p.transpose(elementwise.exp(x), 1, 0, 2), 3, 8)
        return p.reshape(p.transpose(y), 24) + 1.0

    return of(entry, (2, 3, 4))


@case(2)
def pack_of_a_softmax() -> Graph:
    return of(lambda x: p.reshape(p.transpose(softmax(x), 2, 0, 1), 30), (3, 2, 5))


@case(3)
def pack_behind_a_broadcast() -> Graph:
    return of(lambda x: p.reshape(p.transpose(p.broadcast_to(elementwise.exp(x), (3, 2, 4))), 3, 8), (2, 1))


@case(1)
def softmax_over_a_middle_axis() -> Graph:
    def entry(x: Tensor) -> Tensor:
        e = elementwise.exp(x - p.amax(x, 1, True))
        return e / p.sum(e, 1, True)

    return of(entry, (3, 4, 5))


@case(2)
def softmax_over_the_first_axis_of_a_transposed_square() -> Graph:
    def entry(x: Tensor) -> Tensor:
        e = elementwise.exp(p.transpose(x) - p.amax(x, 1, False))
        return e / p.sum(e, 0)

    return of(entry, (4, 4))


@case(3)
def a_function_seen_transposed_in_a_square_row() -> Graph:
    def entry(x: Tensor) -> Tensor:
        e = p.transpose(elementwise.exp(x))
        return (e - p.amax(e, 1, True)) / p.sum(e, 1, True)

    return of(entry, (4, 4))


@case(1)
def norm_over_one_element() -> Graph:
    return of(lambda x, w, b: layer_norm(x, w, b, 1e-5), (3, 1), (1,), (1,))


@case(1)
def softmax_over_one_element() -> Graph:
    return of(softmax, (3, 2, 1))


@case(1)
def norm_of_a_vector() -> Graph:
    return of(lambda x, w: rms_norm(x, w, 1e-6), (33,), (33,))


@case(5)
def two_reductions_share_an_operand() -> Graph:
    def entry(x: Tensor) -> dict[str, Tensor]:
        y = elementwise.tanh(x)
        return {"sum": p.sum(y), "max": p.amax(y, keep=True), "at": p.argmax(y), "y": y}

    return of(entry, (3, 35))


@case(2)
def reductions_over_two_axes() -> Graph:
    def entry(x: Tensor) -> dict[str, Tensor]:
        return {"rows": p.sum(x, 0), "columns": p.sum(x, 1)}

    return of(entry, (3, 4))


@case(1)
def concat_of_computed_parts() -> Graph:
    return of(lambda x, y: p.concat([elementwise.exp(x), x * y, y], 1), (2, 3), (2, 3))


@case(3)
def concat_of_what_others_use_too() -> Graph:
    def entry(x: Tensor) -> dict[str, Tensor]:
        y = elementwise.exp(x)
        return {"both": p.concat([y, x], 0), "sum": p.sum(y)}

    return of(entry, (2, 3))


@case(2)
def rotary_positions() -> Graph:
    return of(lambda x, c, s: p.sum(rotary(x, c, s)), (2, 2, 3, 4), (3, 2), (3, 2))


@case(2)
def product_of_a_concat() -> Graph:
    return of(lambda x, y, w: p.concat([x, y], 1) @ w, (2, 3), (2, 2), (5, 4))


@case(1)
def product_with_broadcast_row_and_column() -> Graph:
    return of(lambda x, w, b, c: elementwise.tanh(x @ w + b) * c, (3, 4), (4, 5), (5,), (3, 1))


@case(2)
def product_of_a_reduction() -> Graph:
    return of(lambda x, w: p.sum(x, 1, True) @ w, (3, 4), (1, 5))


@case(3)
def product_of_its_own_transpose() -> Graph:
    return of(lambda x: p.matmul(elementwise.exp(x), p.transpose(elementwise.exp(x))), (2, 3, 4))


@case(2)
def product_whose_store_reads_it_transposed() -> Graph:
    def entry(x: Tensor) -> Tensor:
        y = x @ x
        return y + p.transpose(y)

    return of(entry, (4, 4))


@case(3)
def operands_from_two_kernels() -> Graph:
    def entry(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        return p.sum(elementwise.exp(y), 1, True) + y + p.amax(y, 0)

    return of(entry, (3, 3), (3, 3))


@case(4)
def post_norm_residual() -> Graph:
    def entry(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
        y = rms_norm(x + gelu_tanh(x @ w), g, 1e-6)
        return rms_norm(y + y @ w, g, 1e-6)

    return of(entry, (3, 4), (4, 4), (4,))


@case(2)
def gather_from_a_computed_table() -> Graph:
    return graph_of(
        lambda parameters, i: p.gather(elementwise.exp(parameters), i) * 2.0, weight(5, 3), i=integer(5, 2, 2)
    )


@case(2)
def gather_of_a_concat() -> Graph:
    def entry(parameters: dict[str, Tensor], i: Tensor) -> Tensor:
        return p.gather(p.concat([parameters["a"], parameters["b"]], 0), i)

    return graph_of(entry, {"a": weight(2, 3), "b": weight(3, 3)}, i=integer(5, 4))


@case(3)
def gather_of_gathered_and_found_integers() -> Graph:
    def entry(parameters: Tensor, i: Tensor, t: Tensor) -> dict[str, Tensor]:
        found = p.argmax(p.gather(parameters, i), 1)
        return {"y": p.gather(p.transpose(parameters), found), "z": p.gather(t, i)}

    return graph_of(entry, weight(5, 3), i=integer(5, 4), t=integer(7, 5))


@case(1)
def gather_by_an_index_of_the_loop() -> Graph:
    return of(lambda x: p.gather(x, p.iota((3, 2), 0)), (4, 2))


@case(2)
def free_values_behind_reshapes() -> Graph:
    return of(lambda x: x + p.real(p.reshape(p.iota((2, 6), 1), 12)), (12,))


@case(2)
def free_values_that_no_affine_index_reaches() -> Graph:
    return of(lambda x: x + p.real(p.reshape(p.iota((4, 6), 1), 3, 8)), (3, 8))


@case(1)
def masks() -> Graph:
    return of(lambda x: softmax(causal_mask(x)), (2, 3, 5))


@case(4)
def results_that_are_no_kernels_own() -> Graph:
    def entry(parameters: Tensor, x: Tensor) -> dict[str, Tensor]:
        y = elementwise.exp(x)
        return {"parameter": parameters, "input": x, "view": y[1:], "y": y, "again": y}

    return graph_of(entry, weight(2), x=real(3, 2))


@case(3)
def constants_as_results() -> Graph:
    return of(lambda x: {"c": p.const(-0.0), "i": p.iota((2, 3), 1), "n": p.integer(-7)}, ())


@case(0)
def nothing_to_compute() -> Graph:
    return of(lambda x, y: {"a": elementwise.exp(x), "b": x @ y, "c": p.concat([x, x], 0)}, (3, 0), (0, 0))


@case(4)
def folds_of_nothing() -> Graph:
    def entry(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        ones = p.broadcast_to(p.const(1.0), (3, 2))
        return {
            "sum": p.sum(x),
            "max": p.amax(x),
            "product": x @ y,
            "parts": p.concat([x, ones, elementwise.exp(x)], 1),
        }

    return of(entry, (3, 0), (0, 3))


@case(1)
def unused_equations() -> Graph:
    def entry(x: Tensor) -> Tensor:
        p.sum(x @ x)
        return x + 1.0

    return of(entry, (2, 2))


def folded(fn: Callable[..., Any], stacked: Callable[[Tensor], Any] = lambda w: w, **options: Any) -> Graph:
    """A fold of fn(carry, layer, shared) over a parameter (3, 2, 4), or something made of it."""

    def entry(parameters: Tensor, x: Tensor) -> Any:
        result = fold(fn, x, stacked(parameters), elementwise.exp(x), **options)
        return {"carry": result[0], "ys": result[1]} if options.get("collect") else result

    return graph_of(entry, weight(3, 2, 4), x=real(2, 4))


@case(4)
def fold_with_a_shared_value() -> Graph:
    return folded(lambda c, w, s: c * w + s)


@case(6)
def fold_downwards_collecting() -> Graph:
    return folded(lambda c, w, s: (c - w, elementwise.tanh(c * w)), reverse=True, collect=True)


@case(19)
def collected_views_parameters_and_carries() -> Graph:
    return folded(
        lambda c, w, s: (c + w, {"a": p.transpose(c), "b": w, "c": c, "d": p.iota((2,), 0), "e": s}), collect=True
    )


@case(4)
def layers_of_a_computed_stack() -> Graph:
    return folded(lambda c, w, s: c + w, lambda w: elementwise.exp(w))


@case(4)
def layers_of_a_view() -> Graph:
    return folded(lambda c, w, s: c + w, lambda w: p.transpose(p.reshape(w, 3, 4, 2)))


@case(4)
def layers_of_an_index() -> Graph:
    return folded(lambda c, w, s: c + p.real(w), lambda w: p.iota((3, 2, 4), 0))


@case(2)
def a_layer_of_what_the_same_row_writes() -> Graph:
    def entry(x: Tensor) -> dict[str, Tensor]:
        y = x - p.mean(x, keep=True)
        last = fold(lambda c, w: w, x[0], y)
        return {"last": last + 1.0, "y": y, "z": p.sum(y)}

    return of(entry, (3,))


@case(20)
def folds_in_folds() -> Graph:
    @function
    def inner(c: Tensor, w: Tensor) -> Any:
        return c + w, c * w

    @function
    def outer(c: Tensor, w: Tensor, s: Tensor) -> Any:
        c, ys = fold(inner, c, w, collect=True)
        return c + s[0], ys

    def entry(parameters: Tensor, x: Tensor) -> dict[str, Tensor]:
        y, ys = fold(outer, x, parameters, elementwise.exp(x), collect=True)
        return {"y": y, "ys": ys, "sum": p.sum(ys, 1) + y}

    return graph_of(entry, weight(3, 2, 4), x=real(4))


@case(3)
def a_later_equation_waits_for_a_stack() -> Graph:
    def entry(parameters: Tensor, x: Tensor) -> Tensor:
        early = elementwise.exp(x)
        _, ys = fold(lambda c, w: (c, elementwise.tanh(w)), x, parameters, collect=True)
        return early + ys[0]

    return graph_of(entry, weight(2, 4), x=real(4))


@case(0)
def a_fold_of_no_layers() -> Graph:
    def entry(parameters: Tensor, x: Tensor) -> Tensor:
        return fold(lambda c, w: (c + w, c), x, parameters, collect=True)[1]

    return graph_of(entry, weight(0, 4), x=real(4))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("type_", ["f64", "f32"])
def test_case(name: str, type_: str) -> None:
    launches, make = CASES[name]
    assert len(check(make(), type_).launches) == launches
