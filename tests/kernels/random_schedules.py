"""random_schedule: legal schedules of a kernel; arrays_for: its arguments."""

import random
from math import prod

import numpy as np

from presk_db.errors import ScheduleIllegal
from presk_db.kernels.attention import attention_of
from presk_db.kernels.ir import Kernel
from presk_db.kernels.legality import check_schedule, is_tileable
from presk_db.kernels.liveness import live_tree
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.products import product_of
from presk_db.kernels.schedule import AttentionTile, ProductTile, Right, Schedule, Split, Tile
from presk_db.kernels.tree import Nest, nests
from presk_db.native.numbers import STORAGE, Array


def random_schedule(kernel: Kernel, rng: random.Random) -> Schedule:
    """A legal schedule: a random one if such is found soon, else the default one."""
    for _ in range(30):
        schedule = _random(kernel, rng)
        try:
            check_schedule(kernel, schedule)
        except ScheduleIllegal:
            continue
        return schedule
    return default_schedule(kernel)


def _random(kernel: Kernel, rng: random.Random) -> Schedule:
    if product_of(kernel) is not None and rng.random() < 0.8:
        rows = rng.randint(1, 30)
        rights: tuple[Right, ...] = ("packed", "inside", "direct")
        depth = rng.choice((0, 0, 1, 2, 7, 16))
        group = rng.choice((1, 2, 3, 5))
        tile = ProductTile(rows, rng.randint(1, 5), rows * rng.randint(1, 4), depth, group, rng.choice(rights))
        return Schedule(product=tile)
    if attention_of(kernel) is not None and rng.random() < 0.8:
        return Schedule(attention=AttentionTile(rng.randint(1, 40)))
    nodes = live_tree(kernel)
    tiles = [
        Tile(n.loop.var, rng.choice((1, 2, 3, 8, 16, 64)))
        for n in nests(nodes)
        if is_tileable(n) and rng.random() < 0.7
    ]
    splits = []
    for top in (n for n in nodes if isinstance(n, Nest)):
        loops, nest = [top.loop.var], top
        while rng.random() < 0.5 and (inner := [n for n in nest.body if isinstance(n, Nest) and n.loop.kind == "par"]):
            nest = inner[0]
            loops.append(nest.loop.var)
        splits.append(Split(tuple(loops), rng.choice((1, 1, 2, 5, 40))))
    return Schedule(tiles=tuple(tiles), splits=tuple(splits) if rng.random() < 0.8 else ())


def arrays_for(kernel: Kernel, rng: np.random.Generator) -> list[Array]:
    """Random arguments with zeros of both signs, subnormals, and a few infinities and NaNs; outputs filled with ones."""
    found: list[Array] = []
    for a in kernel.arrays:
        n = prod(a.shape)
        if a.type == "i64":
            found.append(rng.integers(0, a.limit or 5, n))
            continue
        x = rng.standard_normal(n).astype(np.float64 if a.type == "f64" else np.float32)
        for value in (0.0, -0.0, 1e-40, np.inf, -np.inf, np.nan):
            if n > 40 and rng.random() < 0.4:
                x[rng.integers(0, n)] = value
        if a.mode == "out":
            x[:] = 1
        found.append((x.view(np.uint32) >> 16).astype(np.uint16) if a.type == "bf16" else x.astype(STORAGE[a.type]))
    return found
