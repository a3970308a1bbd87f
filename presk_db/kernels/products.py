"""product_of: what a kernel multiplies and sums, where it is one nest of products whose order a tile can keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Acc, Const, Fold, Index, Kernel, Load, Loop, Op, Scalar, Statement, Store
from presk_db.kernels.liveness import affine_names, defined, live_tree, operands
from presk_db.kernels.ranges import array_shapes, extent_bounds, flat_address
from presk_db.kernels.tree import Nest

COLUMNS = {"f32": 16, "f64": 8}
"""The columns of a panel: one cache line, by the type of the sums."""


@dataclass(frozen=True)
class Strided:
    """An operand that is one element of an array: `across` from column (or row) to column, `down` from k to k.

    `base` is the address at column 0 and k 0, in the names of the loops around and of run-time integers.
    """

    array: str
    type: str
    base: Affine
    across: int
    down: int


@dataclass(frozen=True)
class Operand:
    """One factor of the products: the value and the statements that compute it, in order, loads of one element first.

    `source` is set where the value is an element of an array parameter as it stands.
    """

    value: str
    statements: tuple[Statement, ...]
    source: Strided | None


@dataclass(frozen=True)
class Product:
    """`for batch, row, column: acc = sum over k of left * right`, then an epilogue of straight statements.

    `row` is None for one row. `before` are the statements of the batch loops' and the top level, `beside` those that
    stand beside the sum inside the row and column loops, without the accumulator. Where it is `late`, the sum of row r
    has the terms k >= r only.
    """

    batch: tuple[Loop, ...]
    row: Loop | None
    column: Loop
    k: Loop
    acc: Acc
    left: Operand
    right: Operand
    before: tuple[Statement, ...]
    beside: tuple[Statement, ...]
    late: bool = False

    @property
    def columns(self) -> int:
        """The columns of a panel."""
        return COLUMNS[self.acc.type]


@dataclass(frozen=True)
class Sizes:
    """A product's largest extents: of all batch loops together, rows, columns and k."""

    batch: int
    rows: int
    columns: int
    k: int


def sizes_of(product: Product, kernel: Kernel) -> Sizes:
    """The literal bounds of the loops."""
    bounds = extent_bounds(kernel)
    batch = 1
    for loop in product.batch:
        batch *= bounds[loop.var]
    rows = 1 if product.row is None else bounds[product.row.var]
    return Sizes(batch, rows, bounds[product.column.var], bounds[product.k.var])


@lru_cache(maxsize=1024)
def product_of(kernel: Kernel) -> Product | None:
    """The kernel's product, or None where its nest is another one.

    It is one where all loops at the top are one nest of par loops around one sum of f32 or f64, whose terms are the
    product of a factor that does not move along the columns (the innermost par loop) and one that does not move along
    the rows (the par loop around it), and where no loop's extent moves with another loop. It is late where what is
    summed is such a term from the row's own number on, and +0 before: to add that changes no sum that begins with +0.
    """
    if (late := late_sum(kernel)) is None:
        return _product_of(kernel)
    product = _product_of(late.every)
    if product is None or product.row is None or (product.row.var, product.k.var) != (late.row, late.k):
        return None
    return replace(product, late=True)


@dataclass(frozen=True)
class LateSum:
    """A kernel whose one sum has +0 instead of its terms where `row <= k` does not hold; `every` has all terms."""

    row: str
    k: str
    every: Kernel


def late_sum(kernel: Kernel) -> LateSum | None:
    """The kernel's sum of `select(row <= k, term, +0)`, or None where it has another one."""
    made = {name: s for s in kernel.statements if (name := defined(s)) is not None}
    folds = [s for s in kernel.statements if isinstance(s, Fold)]
    chosen = made.get(folds[0].value) if len(folds) == 1 else None
    if not isinstance(chosen, Op) or chosen.op != "select":
        return None
    condition, zero = made.get(chosen.args[0]), made.get(chosen.args[2])
    if not isinstance(condition, Op) or (condition.op, condition.type) != ("le", "i64"):
        return None
    if not isinstance(zero, Const) or float.fromhex(zero.literal) != 0:
        return None
    row, k = (_variable(made.get(name)) for name in condition.args)
    if row is None or k is None:
        return None
    every = tuple(Fold(s.acc, chosen.args[1]) if isinstance(s, Fold) else s for s in kernel.statements)
    return LateSum(row, k, Kernel(kernel.parameters, every))


def _variable(s: Statement | None) -> str | None:
    """The loop variable that an index statement gives as it is."""
    if not isinstance(s, Index) or len(s.expression.names) != 1:
        return None
    (name,) = s.expression.names
    return name if s.expression == Affine.var(name) else None


def _product_of(kernel: Kernel) -> Product | None:
    nodes: Sequence[Statement | Nest] = live_tree(kernel)
    loops: list[Loop] = []
    levels: list[list[Statement]] = []
    while True:
        inner = [n for n in nodes if isinstance(n, Nest)]
        levels.append([n for n in nodes if not isinstance(n, Nest)])
        if len(inner) != 1:
            return None
        nest = inner[0]
        if nest.loop.kind == "seq":
            break
        loops.append(nest.loop)
        nodes = nest.body
    variables = {loop.var for loop in loops}
    if not loops or any(variables.intersection(loop.extent.names) for loop in (*loops, nest.loop)):
        return None
    if not all(isinstance(s, (Const, Index, Load, Op, Scalar)) for level in levels[:-1] for s in level):
        return None
    return product_at(kernel, loops, levels, nest)


def product_at(kernel: Kernel, loops: list[Loop], levels: list[list[Statement]], nest: Nest) -> Product | None:
    """The product of `nest`, the seq loop inside the par loops, or None where it is none.

    `levels` are the statements that stand above the loops and in each of them.
    """
    accs = [s for s in levels[-1] if isinstance(s, Acc)]
    folds = [s for s in nest.body if isinstance(s, Fold)]
    plain = all(isinstance(s, (Const, Index, Load, Op, Scalar, Store, Acc)) for s in levels[-1])
    inside = all(isinstance(s, (Const, Index, Load, Op, Scalar, Fold)) for s in nest.body)
    if not (plain and inside) or len(accs) != 1 or len(folds) != 1:
        return None
    acc, body = accs[0], [s for s in nest.body if isinstance(s, (Const, Index, Load, Op, Scalar))]
    term = next((s for s in body if defined(s) == folds[0].value), None)
    if acc.kind != "sum" or acc.type not in COLUMNS or not isinstance(term, Op):
        return None
    if term.op != "mul" or term.type != acc.type:
        return None
    column, row = loops[-1], loops[-2] if len(loops) > 1 else None
    outer = len(loops) - 1 if row is None else len(loops) - 2
    beside = [s for level in levels[outer + 1 :] for s in level if s is not acc]
    moved = _movement([*beside, *body], {column.var, *([row.var] if row else [])}, acc.dest)
    left, right = term.args
    if column.var in moved[left] or (row and row.var in moved[right]):
        left, right = right, left
    if column.var in moved[left] or (row and row.var in moved[right]):
        return None
    pool = [s for s in (*beside, *body) if not isinstance(s, (Store, Fold))]
    operands_ = [
        _operand(kernel, v, pool, loop.var if loop else None, nest.loop.var, variables_in(loops, nest))
        for v, loop in ((left, row), (right, column))
    ]
    before = [s for level in levels[: outer + 1] for s in level]
    return Product(
        tuple(loops[:outer]), row, column, nest.loop, acc, operands_[0], operands_[1], tuple(before), tuple(beside)
    )


def variables_in(loops: Sequence[Loop], nest: Nest) -> frozenset[str]:
    """The loop variables of a nest."""
    return frozenset([*(loop.var for loop in loops), nest.loop.var])


def _movement(pool: Sequence[Statement], variables: set[str], acc: str) -> dict[str, set[str]]:
    """Which of the variables each value moves with; what depends on the accumulator moves with all."""
    moved: dict[str, set[str]] = {v: {v} for v in variables}
    moved[acc] = set(variables)
    for s in pool:
        name = defined(s)
        if name is not None:
            moved[name] = {m for n in (*operands(s), *affine_names(s)) for m in moved.get(n, ())}
    return _Default(moved)


class _Default(dict[str, set[str]]):
    """A value that is defined further out moves with none."""

    def __missing__(self, key: str) -> set[str]:
        return set()


def slice_of(pool: Sequence[Statement], values: Sequence[str]) -> tuple[Statement, ...]:
    """The statements of the pool that the values depend on, in order."""
    wanted, kept = set(values), []
    for s in reversed(pool):
        if defined(s) in wanted:
            kept.append(s)
            wanted.update((*operands(s), *affine_names(s)))
    return tuple(reversed(kept))


def _operand(
    kernel: Kernel, value: str, pool: Sequence[Statement], along: str | None, k: str, variables: frozenset[str]
) -> Operand:
    statements = slice_of(pool, [value])
    return Operand(value, statements, _source(kernel, statements, along, k, variables))


def _source(
    kernel: Kernel, statements: tuple[Statement, ...], along: str | None, k: str, variables: frozenset[str]
) -> Strided | None:
    if len(statements) != 1 or not isinstance(statements[0], Load):
        return None
    load = statements[0]
    types = {a.name: a.type for a in kernel.arrays}
    if load.array not in types or types[load.array] not in ("f32", "f64", "bf16"):
        return None
    address = flat_address(array_shapes(kernel)[load.array], load.index)
    across = address.coefficient(along) if along else 0
    moving = {along, k}
    base = Affine.of(((n, c) for n, c in address.terms if n not in moving), address.const)
    return Strided(load.array, types[load.array], base, across, address.coefficient(k))
