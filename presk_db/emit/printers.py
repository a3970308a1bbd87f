"""PRINTERS: what a generator's query may ask for to turn a kernel's text into lines of a language."""

from collections.abc import Callable
from math import prod
from typing import Any

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.parser import parse


def _c_function(row: Any) -> dict[str, Any]:
    """`lines` of the C11 function of `row.kernel_text`, named `row.name`, and its `prototype`."""
    kernel = parse(row.kernel_text)
    lines = [line.removeprefix("static ") for line in c_function(kernel, row.name).splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"void {row.name}("))
    brace = lines.index("{", start)
    head = lines[start:brace]
    lines[brace + 1 : brace + 1] = [
        f"    PRESK_TRACE_WRITE({a.name}, {prod(a.shape)} * sizeof *{a.name});"
        for a in kernel.arrays
        if a.mode == "out"
    ]
    return {"lines": lines, "prototype": "\n".join(head) + ";"}


PRINTERS: dict[str, Callable[[Any], dict[str, Any]]] = {"c_function": _c_function}
