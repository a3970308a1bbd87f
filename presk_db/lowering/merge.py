"""Merges adjacent parallel loops that run over adjacent axes of every array: (B, T, C) is then seen as (B·T, C)."""

from dataclasses import dataclass

from presk_db.kernels.affine import Affine
from presk_db.kernels.ir import Array, End, Index, Kernel, Load, Loop, Statement, Store
from presk_db.lowering.builder import Argument
from presk_db.lowering.codegen import Lowered


@dataclass(frozen=True)
class _Pair:
    """Two loops, the inner directly in the outer, and their extents."""

    outer: str
    inner: str
    rows: int
    columns: int


def merged(lowered: Lowered) -> Lowered:
    """The same kernel with as few parallel loops as its accesses allow; loops and arrays are numbered anew."""
    again = True
    while again:
        again = False
        for pair in _pairs(lowered.kernel):
            changed = _merged_pair(lowered, pair)
            if changed is not None:
                lowered, again = changed, True
                break
    return Lowered(_renumbered(lowered.kernel), lowered.arguments)


def _pairs(kernel: Kernel) -> list[_Pair]:
    found = []
    for first, second in zip(kernel.statements, kernel.statements[1:], strict=False):
        if not (isinstance(first, Loop) and isinstance(second, Loop) and first.kind == second.kind == "par"):
            continue
        if first.extent.is_const and second.extent.is_const and _ends_together(kernel, first, second):
            found.append(_Pair(first.var, second.var, first.extent.const, second.extent.const))
    return found


def _ends_together(kernel: Kernel, outer: Loop, inner: Loop) -> bool:
    """Whether nothing stands between the two loops' ends."""
    start = kernel.statements.index(inner)
    depth = 0
    for at in range(start, len(kernel.statements)):
        s = kernel.statements[at]
        depth += isinstance(s, Loop) - isinstance(s, End)
        if depth == 0:
            return at + 1 < len(kernel.statements) and isinstance(kernel.statements[at + 1], End)
    return False


def _accesses(kernel: Kernel) -> list[Load | Store]:
    return [s for s in kernel.statements if isinstance(s, (Load, Store))]


def _merged_pair(lowered: Lowered, pair: _Pair) -> Lowered | None:
    kernel = lowered.kernel
    axes: dict[str, int] = {}
    for s in kernel.statements:
        if isinstance(s, Index) and {pair.outer, pair.inner} & set(s.expression.names):
            return None
        if isinstance(s, Loop) and {pair.outer, pair.inner} & set(s.extent.names):
            return None
    shapes = {a.name: a.shape for a in kernel.arrays}
    for s in _accesses(kernel):
        at = _axis(s.index, shapes.get(s.array, ()), pair)
        if at is None or axes.setdefault(s.array, at) != at:
            return None
    axes = {name: at for name, at in axes.items() if at >= 0}
    arrays = {
        name: (*shapes[name][:at], pair.rows * pair.columns, *shapes[name][at + 2 :]) for name, at in axes.items()
    }
    if any(shapes[name][at] != pair.rows for name, at in axes.items()):
        return None
    parameters = tuple(
        Array(p.name, p.mode, p.type, arrays.get(p.name, p.shape), p.limit) if isinstance(p, Array) else p
        for p in kernel.parameters
    )
    statements: list[Statement] = []
    skip: int | None = None
    depth = 0
    for s in kernel.statements:
        if isinstance(s, Loop) and s.var == pair.outer:
            statements.append(Loop("par", pair.outer, Affine((), pair.rows * pair.columns)))
            depth += 1
            continue
        if isinstance(s, Loop) and s.var == pair.inner:
            skip = depth
            continue
        depth += isinstance(s, Loop)
        if isinstance(s, End):
            if skip is not None and depth == skip:
                skip = None
                continue
            depth -= 1
        statements.append(_reindexed(s, axes, pair.outer))
    names = [a.name for a in kernel.arrays]
    arguments = tuple(
        Argument(argument.value, arrays.get(name, argument.shape))
        for name, argument in zip(names, lowered.arguments, strict=True)
    )
    return Lowered(Kernel(parameters, tuple(statements)), arguments)


def _axis(index: tuple[Affine, ...], shape: tuple[int, ...], pair: _Pair) -> int | None:
    """The axis at which an index is (outer, inner); -1 where it has neither; None where it has them otherwise."""
    outer, inner = Affine.var(pair.outer), Affine.var(pair.inner)
    with_either = [a for a, i in enumerate(index) if {pair.outer, pair.inner} & set(i.names)]
    if not with_either:
        return -1
    at = with_either[0]
    fits = with_either == [at, at + 1] and index[at] == outer and index[at + 1] == inner
    return at if fits and shape and shape[at + 1] == pair.columns else None


def _reindexed(s: Statement, axes: dict[str, int], var: str) -> Statement:
    if isinstance(s, (Load, Store)) and s.array in axes:
        at = axes[s.array]
        index = (*s.index[:at], Affine.var(var), *s.index[at + 2 :])
        return Load(s.dest, s.array, index) if isinstance(s, Load) else Store(s.array, index, s.value)
    return s


def _renumbered(kernel: Kernel) -> Kernel:
    """Loops named i0, i1, … in order."""
    loops = [s.var for s in kernel.statements if isinstance(s, Loop)]
    names = {old: f"i{n}" for n, old in enumerate(loops)}
    statements: list[Statement] = []
    for s in kernel.statements:
        match s:
            case Loop(kind, var, extent):
                statements.append(Loop(kind, names[var], extent.renamed(names)))
            case Load(dest, array, index):
                statements.append(Load(dest, array, tuple(i.renamed(names) for i in index)))
            case Store(array, index, value):
                statements.append(Store(array, tuple(i.renamed(names) for i in index), value))
            case Index(dest, expression):
                statements.append(Index(dest, expression.renamed(names)))
            case _:
                statements.append(s)
    return Kernel(kernel.parameters, tuple(statements))
