"""primitive_kernels: the kernels that every primitive of the language becomes, at shapes with 0, 1, odd and large extents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Kernel, Load, Local, Loop, Statement, Store
from presk_db.kernels.tree import Nest, tree
from presk_db.language import nn
from presk_db.language import primitives as p
from presk_db.language.gradients import value_and_grad
from presk_db.language.graph import Input
from presk_db.language.tracing import Tensor, graph_from_entry
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization

Shape = tuple[int, ...]
Case = tuple[str, Callable[..., Any], dict[str, Input]]

TYPES = ("f64", "f32", "bf16")
SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (7,), (33,), (2, 0, 3), (3, 5), (4, 257), (1, 2049))
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()), ((0,), (1,)), ((7,), (7,)), ((33, 1), (1, 3)), ((2, 1, 65), (3, 1)), ((1031,), (1031,)),
)  # fmt: skip
REDUCED: tuple[tuple[Shape, int], ...] = (
    ((0,), 0), ((1,), 0), ((31,), 0), ((32,), 0), ((33,), 0), ((3, 70), 1), ((70, 3), 0), ((2, 5, 3), 1), ((1999,), 0),
    ((0, 4), 1), ((4, 0), 1), ((5, 1), 1),
)  # fmt: skip
PRODUCTS = ((1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (5, 7, 9), (1, 64, 65), (33, 17, 70), (2, 301, 130))


def real(*shape: int) -> Input:
    """A real input."""
    return Input("real", shape)


def primitive_cases() -> Iterator[Case]:
    """(name, entry, inputs) of each primitive at each of its shapes, and of the module functions."""
    for shape in SHAPES:
        x, n = {"x": real(*shape)}, {"x": Input("int", shape, 5), "y": Input("int", shape, 5)}
        for op in p.UNARY:
            yield op, lambda x, op=op: p.unary(op, x), x
        for op in ("add", "sub", "mul"):
            yield f"{op} of integers", lambda x, y, op=op: p.binary(op, x, y), n
        yield "real of integers", p.real, {"x": n["x"]}
        yield "gelu_tanh", nn.gelu_tanh, x
        yield "site and update", lambda x: p.update(p.site(x * 3.0) + p.stop(x), 2.0 * x), x
    for a, b in PAIRS:
        two = {"x": real(*a), "y": real(*b)}
        for op in p.BINARY:
            yield op, lambda x, y, op=op: p.binary(op, x, y), two
        for op in p.COMPARE:
            yield op, lambda x, y, op=op: p.real(p.compare(op, x, y)), two
        yield "select", lambda x, y: p.select(x < y, x, y), two
        yield "and or not", lambda x, y: p.real((x < y) & ~(x < 0.5) | (y > 1.0)), two
    yield from _layout_cases()
    yield from _scattered_cases()
    yield from _run_cases()
    yield from _reduced_cases()
    yield from _product_cases()


def _layout_cases() -> Iterator[Case]:
    for a, b, c in ((0, 3, 2), (1, 1, 1), (3, 5, 7), (2, 33, 65)):
        x = {"x": real(a, b, c)}
        yield "transpose", lambda x: p.transpose(x, 2, 0, 1), x
        yield "reshape", lambda x, s=(c, a * b): p.reshape(p.transpose(x), *s), x
        yield "slice", lambda x: x[:, 1:, : x.shape[2] // 2], x
        yield "broadcast", lambda x: p.broadcast_to(x[..., :1], (2, *x.shape)), x
        yield "concat", lambda x: p.concat([x, x[:, :1], x], 1), x
        yield "iota", lambda x, s=(a, b, c): p.real(p.iota(s, 1)) + x, x
        if a:
            table = {"x": real(a, c), "i": Input("int", (b, 3), a)}
            yield "gather", lambda x, i: p.gather(x, i), table


def _scattered_cases() -> Iterator[Case]:
    for shape, row, rows in (((0,), (2,), 3), ((1,), (), 1), ((7,), (3,), 5), ((3, 5), (0,), 4), ((2, 67), (33,), 9)):
        given = {"x": real(*shape, *row), "i": Input("int", shape, rows)}
        yield "scatter_add", lambda x, i, rows=rows: p.scatter_add(i, x, rows), given


def _run_cases() -> Iterator[Case]:
    for shape, axis, count in (((5,), 0, 1), ((1, 3), 0, 1), ((2, 33), 1, 7), ((4, 3, 70), 1, 2), ((6, 0), 0, 2)):
        rows = tuple(count if a == axis else n for a, n in enumerate(shape))
        given = {
            "s": Input("real", shape, state=True),
            "x": real(*rows),
            "at": Input("int", (), shape[axis] - count + 1),
        }

        def kept(s: Tensor, x: Tensor, at: Tensor, axis: int = axis, count: int = count) -> dict[str, Tensor]:
            new = p.put_rows(s, x, at, axis)
            before = p.iota(new.shape, axis) < at + count
            return {"s": new, "sum": p.sum(p.select(before, p.seen(new, at, count, axis), 0.0), axis)}

        yield "put_rows and seen", kept, given
        table = {"x": real(*shape), "at": given["at"]}
        yield "take_rows", lambda x, at, axis=axis, count=count: p.take_rows(x, at, count, axis), table


def _reduced_cases() -> Iterator[Case]:
    for shape, axis in REDUCED:
        x = {"x": real(*shape)}
        yield "reduce_sum", lambda x, axis=axis: p.sum(x, axis), x
        yield "reduce_max", lambda x, axis=axis: p.amax(x, axis), x
        if shape[axis]:
            yield "argmax", lambda x, axis=axis: p.argmax(x, axis), x
            yield "mean", lambda x, axis=axis: p.mean(x, axis), x
        if shape[-1]:
            row = {**x, "w": real(shape[-1]), "b": real(shape[-1])}
            yield "softmax", nn.softmax, x
            yield "layer_norm", lambda x, w, b: nn.layer_norm(x, w, b, 1e-5), row
            yield "rms_norm", lambda x, w, b: nn.rms_norm(x, w, 1e-5) + b, row


def _product_cases() -> Iterator[Case]:
    for m, k, n in PRODUCTS:
        yield "matmul", p.matmul, {"a": real(m, k), "b": real(k, n)}
        yield "matmul of a transpose", lambda a, b: p.matmul(a, p.transpose(b)), {"a": real(m, k), "b": real(n, k)}
        yield "matmul of batches", p.matmul, {"a": real(2, m, k), "b": real(3, 1, k, n)}
        linear = {"x": real(m, k), "w": real(k, n), "b": real(n)}
        yield "linear", nn.linear, linear
        yield "linear and gelu", lambda x, w, b: nn.gelu_tanh(nn.linear(x, w, b)), linear
    for t, d in ((1, 2), (5, 8), (33, 6)):
        heads = {"q": real(1, 4, t, d), "k": real(1, 2, t, d), "v": real(1, 2, t, d)}
        yield "attention", nn.attention, heads


def gradient_cases() -> Iterator[Case]:
    """The gradient, by all its real inputs, of each of those cases that has one: of the sum of its results' squares."""
    for name, entry, inputs in primitive_cases():
        given = inputs.values()
        if any(i.kind == "real" for i in given) and not any(i.state for i in given) and name not in WITHOUT:
            yield f"gradient of {name}", partial(_gradient, entry), inputs


WITHOUT = (*p.COMPARE, "and or not", "argmax", "take_rows")
"""The cases without a gradient."""


def _gradient(entry: Callable[..., Any], **tensors: Tensor) -> Any:
    reals = {n: t for n, t in tensors.items() if t.kind == "real"}
    others = {n: t for n, t in tensors.items() if t.kind != "real"}

    def loss(reals: dict[str, Tensor], others: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        y = entry(**reals, **others)
        return p.sum(p.reshape(y * y, -1)), y

    (value, y), grads = value_and_grad(loss, aux=True)(reals, others)
    return {"value": value, "y": y, **grads}


def kernels_of(case: Case, type_: str) -> tuple[Kernel, ...]:
    """The kernels of one case in one type."""
    _, entry, inputs = case

    def called(parameters: None, **tensors: Tensor) -> Any:
        return entry(**tensors)

    return launch_order(graph_from_entry(called, None, inputs), Realization(type_)).kernels()


def emptied(kernel: Kernel, kind: str) -> Kernel:
    """The kernel with no iteration in its loops of the kind: lowering launches nothing for results without elements."""

    def changed(s: Statement) -> Statement:
        return replace(s, extent=Affine()) if isinstance(s, Loop) and s.kind == kind else s

    return replace(kernel, statements=tuple(changed(s) for s in kernel.statements))


def is_defined(kernel: Kernel) -> bool:
    """Whether every local that a loop with iterations loads is also stored by one: else its elements have no value."""

    def run(nodes: Sequence[Statement | Nest]) -> Iterator[Statement]:
        for node in nodes:
            if not isinstance(node, Nest):
                yield node
            elif node.loop.extent != Affine():
                yield from run(node.body)

    reached = list(run(tree(kernel)))
    stored = {s.array for s in reached if isinstance(s, Store)}
    local = {s.name for s in reached if isinstance(s, Local)}
    return all(s.array in stored for s in reached if isinstance(s, Load) and s.array in local)


def primitive_kernels(cases: list[Case]) -> dict[str, tuple[str, Kernel]]:
    """Each distinct kernel of these cases with its case's name and type, by digest; of each name one with empty loops."""
    found: dict[str, tuple[str, Kernel]] = {}
    names: set[str] = set()
    for case in cases:
        for type_ in TYPES:
            name = f"{case[0]} {type_}"
            kernels = kernels_of(case, type_)
            for kernel in kernels:
                found.setdefault(kernel.digest, (name, kernel))
                for kind in ("par", "seq") if name not in names else ():
                    empty = emptied(kernel, kind)
                    if is_defined(empty):
                        found.setdefault(empty.digest, (f"{name}, {kind} of nothing", empty))
            if any(isinstance(s, Loop) for k in kernels for s in k.statements):
                names.add(name)
    return found
