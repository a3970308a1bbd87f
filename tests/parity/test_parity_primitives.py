"""Every primitive's forward and backward pass against PyTorch's, at the sizes that pytest's options give."""

import operator
from collections.abc import Callable

import pytest
import torch
from parity_cases import Case, check_case
from parity_sizes import Sizes
from torch.nn import functional as F

from presk_db.language import primitives as p

pytestmark = pytest.mark.parity

WITHOUT = {
    "update": "marks a new value of a state, which a program writes in place; five steps in test_parity_gradients.py",
    "seen": "says which elements nobody uses: the others are its operand itself",
    "put_rows": "writes rows of a state in place; the caches of decoding equal the forward pass' rows in tests/decoding",
}
"""Primitives that PyTorch has no counterpart of, and what checks them."""

POSITIVE = {"sqrt": 0.5, "log": 0.5, "log1p": -0.5}
"""The least argument of functions that are not defined everywhere."""


def unary(s: Sizes) -> dict[str, Case]:
    """Functions of one real, of (B, T, C)."""

    def case(op: str) -> Case:
        theirs: Callable[..., torch.Tensor] = getattr(F if op in ("silu", "gelu") else torch, op)
        shape = (s.batch, s.tokens, s.width)
        return Case(lambda q: p.unary(op, q[0]), lambda q: theirs(q[0]), [shape], low=POSITIVE.get(op, -2.0))

    return {op: case(op) for op in p.UNARY}


def binary(s: Sizes) -> dict[str, Case]:
    """Functions of two operands: the second is broadcast in add, sub, mul and div."""
    x = (s.batch, s.tokens, s.width)
    smaller = {"add": (s.width,), "sub": (s.tokens, 1), "mul": (s.batch, 1, s.width), "div": (s.width,)}
    theirs = {"div": operator.truediv} | {op: getattr(torch, op) for op in p.BINARY if op != "div"}
    return {
        op: Case(
            lambda q, op=op: p.binary(op, *q),
            lambda q, op=op: theirs[op](*q),
            [x, smaller.get(op, x)],
            low=0.5 if op == "div" else -2.0,
        )
        for op in p.BINARY
    }


def truths(s: Sizes) -> dict[str, Case]:
    """Comparisons, with ties, and truth values: what they choose of two reals, and its gradient."""
    x = (s.batch, s.tokens, s.width)
    found: dict[str, Case] = {}
    for op in p.COMPARE:
        found[op] = Case(
            lambda q, op=op: q[0] * p.real(p.compare(op, *q)) + q[1],
            lambda q, op=op: q[0] * getattr(torch, op)(*q) + q[1],
            [x, x],
            ties=True,
        )
    logic = {
        "and": (lambda a, b: p.logical("and", a, b), torch.logical_and),
        "or": (lambda a, b: p.logical("or", a, b), torch.logical_or),
        "not": (lambda a, b: p.logical("not", a), lambda a, b: torch.logical_not(a)),
    }
    for op, (ours, theirs) in logic.items():
        found[op] = Case(
            lambda q, f=ours: p.select(f(q[0] < 0.0, q[1] < 0.0), q[0], q[1]),
            lambda q, f=theirs: torch.where(f(q[0] < 0.0, q[1] < 0.0), q[0], q[1]),
            [x, x],
        )
    found["select"] = Case(
        lambda q: p.select(q[0] < q[1], q[0] * q[1], q[2]),
        lambda q: torch.where(q[0] < q[1], q[0] * q[1], q[2]),
        [x, x, x],
    )
    found["real"] = Case(lambda q, i: q[0] * p.real(i), lambda q, i: q[0] * i.double(), [x], {"i": (s.vocabulary, x)})
    return found


def layout(s: Sizes) -> dict[str, Case]:
    """Reshape, transpose, slice, broadcast, concat, and runs of rows."""
    b, t, c = x = (s.batch, s.tokens, s.width)
    cut = (b, -(-t // 2), c)
    return {
        "reshape": Case(
            lambda q: p.reshape(q[0], b * t, c) * q[1], lambda q: q[0].reshape(b * t, c) * q[1], [x, (b * t, c)]
        ),
        "transpose": Case(
            lambda q: p.transpose(q[0], 2, 0, 1) * q[1], lambda q: q[0].permute(2, 0, 1) * q[1], [x, (c, b, t)]
        ),
        "slice": Case(
            lambda q: q[0][:, t // 2 :] * q[1] + q[0][:, : -(-t // 2)],
            lambda q: q[0][:, t // 2 :] * q[1] + q[0][:, : -(-t // 2)],
            [x, cut],
        ),
        "broadcast": Case(lambda q: p.broadcast_to(q[0], x) * q[1], lambda q: q[0].expand(x) * q[1], [(b, 1, c), x]),
        "concat": Case(
            lambda q: p.concat([q[0], q[1], q[0] * q[2]], 1),
            lambda q: torch.cat([q[0], q[1], q[0] * q[2]], 1),
            [x, cut, x],
        ),
        "take_rows": Case(
            lambda q, i: p.take_rows(q[0], i, -(-t // 2), 1),
            lambda q, i: q[0].narrow(1, i, -(-t // 2)),
            [x],
            {"i": (t // 2 + 1, ())},
            differentiated=False,
        ),
    }


def along(s: Sizes) -> dict[str, Case]:
    """Reductions, lookups, sums into rows, and products."""
    b, t, c, v = s.batch, s.tokens, s.width, s.vocabulary
    x, d = (b, t, c), s.head_dim
    return {
        "reduce_sum": Case(lambda q: p.sum(q[0] * q[0], 1), lambda q: (q[0] * q[0]).sum(1), [x]),
        "reduce_max": Case(lambda q: p.amax(q[0], 1), lambda q: q[0].max(1).values, [x]),
        "argmax": Case(
            lambda q: p.sum(q[0]) * p.real(p.argmax(q[0])), lambda q: q[0].sum(-1) * q[0].argmax(-1).double(), [x]
        ),
        "gather": Case(lambda q, i: p.gather(q[0], i), lambda q, i: q[0][i], [(v, c)], {"i": (v, (b, t))}),
        "scatter_add": Case(
            lambda q, i: p.scatter_add(i, q[0], v),
            lambda q, i: torch.zeros((v, c), dtype=torch.float64).index_add(0, i, q[0]),
            [(b * t, c)],
            {"i": (v, (b * t,))},
        ),
        "matmul": Case(lambda q: q[0] @ q[1], lambda q: q[0] @ q[1], [(b, s.heads, t, d), (b, s.heads, d, t)]),
        "matmul, one matrix for all": Case(lambda q: q[0] @ q[1], lambda q: q[0] @ q[1], [x, (c, s.inner)]),
    }


def others(s: Sizes) -> dict[str, Case]:
    """Constants, indices, and marks that give their operand itself."""
    x = (s.batch, s.tokens, s.width)
    index = torch.arange(s.tokens, dtype=torch.float64)[:, None]
    return {
        "const": Case(lambda q: q[0] * p.const(1.5), lambda q: q[0] * 1.5, [x]),
        "iota": Case(lambda q: q[0] * p.real(p.iota(x, 1)), lambda q: q[0] * index, [x]),
        "stop": Case(lambda q: q[0] * p.stop(q[0]), lambda q: q[0] * q[0].detach(), [x]),
        "site": Case(lambda q: p.site(q[0]) * q[0], lambda q: q[0] * q[0], [x]),
    }


def cases(s: Sizes) -> dict[str, Case]:
    """Every primitive but those WITHOUT a counterpart."""
    return unary(s) | binary(s) | truths(s) | layout(s) | along(s) | others(s)


NAMES = tuple(cases(Sizes(1, 1, 1, 1, 1, 2)))


@pytest.mark.parametrize("type_", ["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_primitive(name: str, type_: str, sizes: Sizes) -> None:
    check_case(cases(sizes)[name], type_)


def test_every_primitive_is_compared_or_named() -> None:
    assert {n.split(",")[0] for n in NAMES} | set(WITHOUT) == set(p.PRIMITIVES)
    assert not set(NAMES) & set(WITHOUT)
