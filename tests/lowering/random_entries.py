"""random_entry: an entry of primitives in random composition, for hypothesis; every choice comes from `draw`."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from presk_db.language import elementwise
from presk_db.language import primitives as p
from presk_db.language.gradients import value_and_grad
from presk_db.language.graph import Graph
from presk_db.language.tracing import Tensor, fold, function, graph_from_entry

from lowering_cases import graph_of, integer, real, weight  # isort: skip

Draw = Callable[[st.SearchStrategy[Any]], Any]

EXTENTS = st.sampled_from((3, 2, 1, 4, 2, 3, 5, 4, 2, 7, 3, 33, 2, 4, 0))
SHAPES = st.lists(EXTENTS, max_size=4).map(tuple).filter(lambda s: _size(s) <= 400)
FUNCTIONS = ("exp", "tanh", "sin", "sigmoid", "log1p", "gelu", "silu")
PLAIN = ("neg", "abs", "sqrt")


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n


class Pool:
    """The tensors that a function under construction can use."""

    def __init__(self, draw: Draw, tensors: list[Tensor]) -> None:
        self.draw = draw
        self.tensors = list(tensors)

    def pick(self, kind: str = "real", where: Callable[[Tensor], bool] = lambda t: True) -> Tensor | None:
        """A tensor of a kind, the latest more often."""
        found = [t for t in self.tensors if t.kind == kind and where(t)]
        if not found:
            return None
        return found[-1 - self.draw(st.integers(0, min(len(found) - 1, 6)))]

    def add(self, tensor: Tensor | None) -> None:
        """One more tensor, unless it grew too large."""
        if tensor is not None and _size(tensor.shape) <= 2000 and len(tensor.shape) <= 5:
            self.tensors.append(tensor)

    def step(self) -> None:
        """One more equation, or a few."""
        steps = (_unary, _binary, _binary, _logic, _layout, _layout, _reshaped, _reduced, _reduced, _matmul, _gather,
                 _concat, _index, _softmax, _call)  # fmt: skip
        self.add(self.draw(st.sampled_from(steps))(self))


def _fitting(pool: Pool, x: Tensor) -> Tensor | None:
    """Another tensor that broadcasts with x."""

    def fits(t: Tensor) -> bool:
        pairs = zip(t.shape[::-1], x.shape[::-1], strict=False)
        return all(a == b or 1 in (a, b) for a, b in pairs)

    return pool.pick(x.kind, fits)


def _unary(pool: Pool) -> Tensor | None:
    x = pool.pick()
    return None if x is None else p.unary(pool.draw(st.sampled_from((*FUNCTIONS, *PLAIN))), x)


def _binary(pool: Pool) -> Tensor | None:
    x = pool.pick(pool.draw(st.sampled_from(("real", "real", "real", "int"))))
    if x is None:
        return None
    y: Any = pool.draw(st.sampled_from((None, 2, -1)))
    y = _fitting(pool, x) if y is None else y
    if x.kind == "int":
        return p.binary(pool.draw(st.sampled_from(("add", "sub"))), x, y)
    return p.binary(pool.draw(st.sampled_from(p.BINARY)), *pool.draw(st.sampled_from(((x, y), (y, x)))))


def _logic(pool: Pool) -> Tensor | None:
    x = pool.pick(pool.draw(st.sampled_from(("real", "int"))))
    if x is None:
        return None
    y = _fitting(pool, x)
    truth = p.compare(pool.draw(st.sampled_from(p.COMPARE)), x, y)
    pool.add(truth)
    other = pool.pick("bool", lambda t: t.shape == truth.shape)
    match pool.draw(st.integers(0, 3)):
        case 0 if other is not None:
            return p.logical(pool.draw(st.sampled_from(("and", "or"))), truth, ~other)
        case 1:
            return p.real(truth)
    return p.select(truth, x, y)


def _layout(pool: Pool) -> Tensor | None:
    x = pool.pick(pool.draw(st.sampled_from(("real", "real", "real", "int", "bool"))), lambda t: len(t.shape) > 0)
    if x is None:
        return None
    axis = pool.draw(st.integers(0, len(x.shape) - 1))
    match pool.draw(st.integers(0, 3)):
        case 0:
            start = pool.draw(st.integers(0, x.shape[axis]))
            return p.slice_axis(x, axis, start, pool.draw(st.integers(start, x.shape[axis])))
        case 1:
            shape = [pool.draw(EXTENTS) if n == 1 else n for n in x.shape]
            return p.broadcast_to(x, [*pool.draw(st.lists(EXTENTS, max_size=1)), *shape])
    return p.transpose(x, *pool.draw(st.permutations(range(len(x.shape)))))


def _reshaped(pool: Pool) -> Tensor | None:
    x = pool.pick(pool.draw(st.sampled_from(("real", "real", "real", "int", "bool"))))
    if x is None:
        return None
    rest, shape = _size(x.shape), []
    if rest == 0:
        return p.reshape(x, *pool.draw(st.permutations((*x.shape, 1))))
    while rest > 1 and len(shape) < 4:
        shape.append(pool.draw(st.sampled_from([n for n in range(2, rest + 1) if rest % n == 0])))
        rest //= shape[-1]
    shape = [*shape, rest] if rest > 1 else shape
    for _ in range(pool.draw(st.integers(0, 1))):
        shape.insert(pool.draw(st.integers(0, len(shape))), 1)
    return p.reshape(x, *shape)


def _reduced(pool: Pool) -> Tensor | None:
    x = pool.pick(where=lambda t: len(t.shape) > 0)
    if x is None:
        return None
    axis, keep = pool.draw(st.integers(0, len(x.shape) - 1)), pool.draw(st.booleans())
    match pool.draw(st.integers(0, 3)):
        case 0 if x.shape[axis]:
            return p.argmax(x, axis)
        case 1:
            return p.amax(x, axis, keep)
        case 2 if x.shape[axis]:
            return x - p.mean(x, axis, True)
    return p.sum(x, axis, keep)


def _softmax(pool: Pool) -> Tensor | None:
    x = pool.pick(where=lambda t: len(t.shape) > 0)
    if x is None:
        return None
    axis = pool.draw(st.integers(0, len(x.shape) - 1))
    e = elementwise.exp(x - p.amax(x, axis, True))
    return e / p.sum(e, axis, True)


def _matmul(pool: Pool) -> Tensor | None:
    a = pool.pick(where=lambda t: len(t.shape) >= 2)
    if a is None:
        return None

    def fits(t: Tensor) -> bool:
        batch = zip(t.shape[-3::-1], a.shape[-3::-1], strict=False)
        return len(t.shape) >= 2 and t.shape[-2] == a.shape[-1] and all(m == n or 1 in (m, n) for m, n in batch)

    b = pool.pick(where=fits)
    return p.matmul(a, p.transpose(a) if b is None else b)


def _gather(pool: Pool) -> Tensor | None:
    index = pool.pick("int", lambda t: t.var.limit is not None)
    if index is None:
        return None
    table = pool.pick(
        pool.draw(st.sampled_from(("real", "real", "int"))), lambda t: bool(t.shape) and t.shape[0] >= index.var.limit
    )
    if table is None:
        return None
    updates = pool.pick(where=lambda t: t.shape[: len(index.shape)] == index.shape)
    if updates is not None:
        pool.add(p.scatter_add(index, updates, table.shape[0]))
    return p.gather(table, index)


def _concat(pool: Pool) -> Tensor | None:
    x = pool.pick(pool.draw(st.sampled_from(("real", "real", "int", "bool"))), lambda t: len(t.shape) > 0)
    if x is None:
        return None
    axis = pool.draw(st.integers(0, len(x.shape) - 1))

    def fits(t: Tensor) -> bool:
        same = len(t.shape) == len(x.shape)
        return same and all(a == axis or m == n for a, (m, n) in enumerate(zip(t.shape, x.shape, strict=True)))

    others = [pool.pick(x.kind, fits) for _ in range(pool.draw(st.integers(1, 2)))]
    return p.concat([x, *(t for t in others if t is not None)], axis)


def _index(pool: Pool) -> Tensor | None:
    shape = pool.draw(SHAPES.filter(lambda s: len(s) > 0))
    i = p.iota(shape, pool.draw(st.integers(0, len(shape) - 1)))
    pool.add(i)
    return pool.draw(st.sampled_from((lambda: p.real(i), lambda: i, lambda: p.real(i * 3 - 1), lambda: p.const(0.5))))()


def _call(pool: Pool) -> Tensor | None:
    x, y = pool.pick(), pool.pick()
    if x is None or y is None:
        return None

    def inner(a: Tensor, b: Tensor) -> Tensor:
        return random_body(pool.draw, [a, b], 3).tensors[-1]

    return function(inner)(x, y)


def random_body(draw: Draw, tensors: list[Tensor], most: int) -> Pool:
    """A pool after up to `most` steps."""
    pool = Pool(draw, tensors)
    for _ in range(draw(st.integers(1, most))):
        pool.step()
    return pool


def random_fold(pool: Pool) -> None:
    """A fold over something with a leading axis, with a carry, shared values and perhaps collected ones."""
    draw = pool.draw
    stacked = [
        t for t in (pool.pick(where=lambda t: len(t.shape) > 0 and t.shape[0] in (0, 1, 2, 3)),) if t is not None
    ]
    if not stacked:
        return
    index = pool.pick("int", lambda t: len(t.shape) > 0 and t.shape[0] == stacked[0].shape[0])
    layers = [*stacked, *([index] if index is not None else [])]
    carry = [t for t in (pool.pick(), pool.pick()) if t is not None]
    shared = pool.pick()
    collect = draw(st.booleans())

    def layer(carry: list[Tensor], layers: list[Tensor], shared: Tensor | None) -> Any:
        inner = random_body(draw, [*carry, *layers, *([shared] if shared is not None else [])], 4)
        after = []
        for old in carry:
            found = inner.pick(where=lambda t, s=old.shape: t.shape == s)
            after.append(old + 1.0 if found is None else found)
        if not collect:
            return after
        kinds = draw(st.lists(st.sampled_from(("real", "int", "bool")), min_size=1, max_size=2))
        return after, [t for k in kinds if (t := inner.pick(k)) is not None]

    result = fold(layer, carry, layers, shared, reverse=draw(st.booleans()), collect=collect)
    after, ys = result if collect else (result, [])
    for t in (*after, *ys):
        pool.add(t)


def random_entry(draw: Draw, folds: bool) -> Graph:
    """A graph: up to ten steps, perhaps folds, and up to four results that may be anything in the pool."""

    def entry(parameters: dict[str, Tensor], **inputs: Tensor) -> dict[str, Tensor]:
        pool = Pool(draw, [*parameters.values(), *inputs.values()])
        for _ in range(draw(st.integers(2, 8))):
            pool.step()
        if folds:
            random_fold(pool)
        for _ in range(draw(st.integers(1, 7))):
            pool.step()
        if folds and draw(st.booleans()):
            random_fold(pool)
        last = len(pool.tensors) - 1
        return {
            f"r{i}": pool.tensors[last - draw(st.integers(0, min(last, 8)))] for i in range(draw(st.integers(2, 5)))
        }

    shape = draw(SHAPES)
    other = draw(st.permutations(shape))
    layers = draw(st.sampled_from((0, 1, 2, 3)))
    parameters = {
        "w": weight(*shape),
        "u": weight(*other),
        "s": weight(layers, *draw(SHAPES.filter(lambda s: len(s) < 4))),
    }
    ints = integer(draw(st.sampled_from((1, 2, 3, 4))), *draw(SHAPES.filter(lambda s: len(s) < 3)))
    return graph_of(entry, parameters, x=real(*draw(SHAPES)), y=real(*shape), i=ints)


def random_gradient(draw: Draw, recompute: bool) -> Graph:
    """A graph: a loss of random steps, perhaps with folds, and its gradient by two parameters and an input."""

    def loss(parameters: dict[str, Tensor], i: Tensor) -> Tensor:
        pool = Pool(draw, [*parameters.values(), i])
        for _ in range(draw(st.integers(1, 5))):
            pool.step()
        if draw(st.booleans()):
            random_fold(pool)
        for _ in range(draw(st.integers(0, 4))):
            pool.step()
        total = p.const(0.0)
        for t in [t for t in pool.tensors[-4:] if t.kind == "real"] + list(parameters.values()):
            total = total + p.sum(p.reshape(elementwise.tanh(t), -1))
        return total

    def entry(parameters: dict[str, Tensor], i: Tensor, x: Tensor) -> dict[str, Tensor]:
        value, grads = value_and_grad(loss)({**parameters, "x": x}, i)
        return {"loss": value, **grads}

    shape = draw(SHAPES)
    layers = draw(st.sampled_from((0, 1, 2, 3)))
    parameters = {"w": weight(*shape), "s": weight(layers, *draw(SHAPES.filter(lambda s: len(s) < 4)))}
    ints = integer(draw(st.sampled_from((1, 2, 3, 4))), *draw(SHAPES.filter(lambda s: len(s) < 3)))
    inputs = {"i": ints, "x": real(*draw(st.permutations(shape)))}
    return graph_from_entry(entry, parameters, inputs, recompute)
