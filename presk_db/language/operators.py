"""OPERATORS: what the operators of a Tensor mean, by the names that `tracing.Tensor` asks for."""

from collections.abc import Callable, Mapping
from typing import Any

from presk_db.errors import ShapeBad
from presk_db.language.primitives import binary, compare, lift, logical, matmul, reshape, slice_axis, unary
from presk_db.language.tracing import Tensor, source_line


def element_or_slice(x: Tensor, index: Any) -> Tensor:
    """x[index] by integers, slices of step 1 and `...`; ShapeBad where it leaves the tensor."""
    parts = index if isinstance(index, tuple) else (index,)
    if Ellipsis in [p for p in parts if not isinstance(p, (Tensor, slice))]:
        at = parts.index(Ellipsis)
        parts = (*parts[:at], *[slice(None)] * (len(x.shape) - len(parts) + 1), *parts[at + 1 :])
    if len(parts) > len(x.shape):
        raise ShapeBad(f"{len(parts)} indices for {list(x.shape)}", source_line())
    dropped = []
    for axis, part in enumerate(parts):
        n = x.shape[axis]
        match part:
            case slice() if part.step not in (None, 1):
                raise ShapeBad("slices have step 1", source_line())
            case slice():
                start, stop, _ = part.indices(n)
                x = slice_axis(x, axis, start, max(start, stop))
            case int() if not isinstance(part, bool) and not -n <= part < n:
                raise ShapeBad(f"index {part} leaves axis {axis} of {list(x.shape)}", source_line())
            case int() if not isinstance(part, bool):
                x = slice_axis(x, axis, part % n, part % n + 1)
                dropped.append(axis)
            case _:
                raise ShapeBad("an index is an integer, a slice or ...; use gather for tensors", source_line())
    return reshape(x, *(n for a, n in enumerate(x.shape) if a not in dropped)) if dropped else x


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: binary("add", a, b),
    "sub": lambda a, b: binary("sub", a, b),
    "mul": lambda a, b: binary("mul", a, b),
    "div": lambda a, b: binary("div", a, b),
    "neg": lambda a: unary("neg", a),
    "matmul": matmul,
    "lt": lambda a, b: compare("lt", a, b),
    "le": lambda a, b: compare("le", a, b),
    "gt": lambda a, b: compare("gt", a, b),
    "ge": lambda a, b: compare("ge", a, b),
    "logical_and": lambda a, b: logical("and", a, b),
    "logical_or": lambda a, b: logical("or", a, b),
    "logical_not": lambda a: logical("not", a),
    "getitem": element_or_slice,
    "lift": lift,
}
