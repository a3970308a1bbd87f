"""Random programs: calls in calls, folds, windows of stacked buffers; the same bodies recur, so that forms are shared."""

from random import Random

from synthetic import Builder, part

from presk_db.kernels.launches import LaunchOrder, View


def random_order(seed: int, size: int = 4) -> LaunchOrder:
    """A launch order that depends on `seed` alone."""
    rng = Random(seed)
    b = Builder("main")
    pool = [b.buffer("input", "x", 4), b.weight("w", 4)]
    stacks = [b.weight(f"s{n}", 4, 4) for n in range(2)]
    _body(b, rng, pool, stacks, 0, size)
    out = b.buffer("output", "out", 4)
    b.launch("last", [_whole(rng, pool)], [out])
    return b.order()


def _whole(rng: Random, pool: list[View]) -> View:
    return rng.choice(pool)


def _body(b: Builder, rng: Random, pool: list[View], stacks: list[View], depth: int, size: int) -> None:
    """Launches, calls and folds; appends to `pool` what the caller may use."""
    for _ in range(rng.randint(1, size)):
        kind = rng.random()
        if depth == 3 or kind < 0.4:
            _launch(b, rng, pool)
        elif kind < 0.75:
            given = [rng.choice(pool) for _ in range(2)]
            name, inner = rng.choice("fgh"), Random(rng.randint(0, 2))
            with b.call(name):
                _body(b, inner, given, stacks, depth + 1, 3)
            if rng.random() < 0.6:
                pool.append(given[-1])
        else:
            _fold(b, rng, pool, stacks, depth)


def _launch(b: Builder, rng: Random, pool: list[View]) -> None:
    inputs = [rng.choice(pool) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        pair = b.temp("pair", 2, 4)
        b.launch("both", inputs, [part(pair, 0), part(pair, 1)], rng.randint(0, 1))
        pool += [part(pair, 1), part(pair, 0)]
    else:
        pool.append(b.temp("t", 4))
        b.launch("one", inputs, [pool[-1]], rng.randint(0, 1))


def _fold(b: Builder, rng: Random, pool: list[View], stacks: list[View], depth: int) -> None:
    """A fold over stacked weights that hands a value on, keeps one an iteration, or both; one layer may be odd."""
    descending, length, kept = rng.random() < 0.5, rng.randint(2, 4), rng.random() < 0.4
    odd = rng.choice([None, None, rng.randrange(length)])
    body = rng.randint(0, 2)
    x = rng.choice(pool)
    store = b.temp("kept", length, 4) if kept else None
    for layer in b.fold(rng.choice("fgh"), length, descending):
        given = [part(stacks[0], layer), x]
        if layer == odd:
            given.append(part(stacks[1], layer))
        _body(b, Random(body), given, stacks, max(depth + 1, 2), 2)
        if store is not None:
            b.launch("keep", [given[-1]], [part(store, layer)])
        x = b.temp("x", 4)
        b.launch("next", [given[-1], part(stacks[1], layer)], [x])
    pool.append(x)
    if store is not None:
        pool.append(part(store, rng.randrange(length)))
