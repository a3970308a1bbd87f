"""A user's entries with folds of every kind. Twelve layers of one small function, unless an entry slices the stack.

A fold that starts from an input, or whose last layer writes an output, has that layer apart from its loop.
"""

from presk_db import language as L

DIMS = {"B": 3}


def parameters(dims):
    return L.Record(
        w=L.parameter("layer.{}.w", 4, 4, scale=0.4, layers=12),
        b=L.parameter("layer.{}.b", 4, layers=12),
        v=L.parameter("v", 4, 4, scale=0.4),
    )


def inputs(dims):
    return {"x": L.real_input(dims["B"], 4)}


@L.function
def step(x, p):
    return L.tanh(L.linear(x, p.w, p.b))


@L.function
def shift(x, p):
    """Reads its argument when it writes its result: two places in turn."""
    return x + L.softmax(L.linear(x, p.w))


def stack(p):
    return L.Record(w=p.w, b=p.b)


def threes(p):
    return L.Record(w=L.reshape(p.w, 3, 4, 4, 4), b=L.reshape(p.b, 3, 4, 4))


def part(p, start, stop):
    return L.Record(w=p.w[start:stop], b=p.b[start:stop])


def ascending(p, x):
    return L.fold(step, x, stack(p))


def padded(p, x):
    return L.linear(L.fold(step, L.linear(x, p.v), stack(p)), p.v)


def descending(p, x):
    return L.fold(step, x, stack(p), reverse=True)


def up_and_down(p, x):
    def keep(x, q):
        y = step(x, q)
        return y, x

    y, kept = L.fold(keep, x, stack(p), collect=True)

    def back(g, q):
        return L.tanh(L.linear(g, L.transpose(q.w)) * q.x)

    return {"y": y, "g": L.fold(back, y, L.Record(w=p.w, x=kept), reverse=True)}


def collected(p, x):
    def keep(x, q):
        y = step(x, q)
        return y, {"kept": y, "twice": y + y}

    y, ys = L.fold(keep, x, stack(p), collect=True)
    return {"y": y, "kept": ys["kept"], "twice": ys["twice"]}


def collected_down(p, x):
    def keep(x, q):
        y = step(x, q)
        return y, L.softmax(y)

    y, ys = L.fold(keep, x, stack(p), collect=True, reverse=True)
    return {"y": y, "ys": ys, "more": L.softmax(ys)}


def ping_pong(p, x):
    return L.linear(L.fold(shift, L.linear(x, p.v), stack(p)), p.v)


def three_places(p, x):
    def next_(carry, q):
        a, b = carry
        return b, L.softmax(L.linear(b, q.w)) + a + b

    a, b = L.fold(next_, (L.linear(x, p.v), L.linear(L.tanh(x), p.v)), stack(p))
    return {"a": L.linear(a, p.v), "b": L.linear(b, p.v)}


def nested(p, x):
    def outer(x, q):
        return L.fold(step, x, q)

    return L.linear(L.fold(outer, L.linear(x, p.v), threes(p)), p.v)


def nested_descending(p, x):
    def outer(x, q):
        return L.fold(shift, x, q, reverse=True)

    return L.linear(L.fold(outer, L.linear(x, p.v), threes(p)), p.v)


@L.function
def tower(x, w, b):
    return L.fold(step, x, L.Record(w=w, b=b))


def called_twice(p, x):
    return tower(tower(x, p.w[:6], p.b[:6]), p.w[6:], p.b[6:])


def two_folds(p, x):
    return L.fold(step, L.fold(step, x, part(p, 0, 4)), part(p, 4, 9))


def one_layer(p, x):
    return L.fold(step, x, part(p, 2, 3))


def two_layers(p, x):
    return L.linear(L.fold(shift, L.linear(x, p.v), part(p, 1, 3)), p.v)


def two_layers_down(p, x):
    return L.linear(L.fold(step, L.linear(x, p.v), part(p, 1, 3), reverse=True), p.v)


def two_layers_alone(p, x):
    return L.fold(shift, x, part(p, 1, 3))


def shared(p, x):
    def with_shared(y, q, v):
        return L.tanh(L.linear(y, q.w, q.b) + L.linear(y, v))

    return L.linear(L.fold(with_shared, L.linear(x, p.v), stack(p), p.v), p.v)
