"""PRINTERS: what a generator's query may ask for to turn a kernel's text into lines of a language."""

from collections.abc import Callable
from typing import Any

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.parser import parse


def _c_function(row: Any) -> dict[str, Any]:
    """`lines` of the C11 function of `row.kernel_text`, named `row.name`, and its `prototype`."""
    lines = [line.removeprefix("static ") for line in c_function(parse(row.kernel_text), row.name).splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"void {row.name}("))
    head = lines[start : lines.index("{", start)]
    return {"lines": lines, "prototype": "\n".join(head) + ";"}


PRINTERS: dict[str, Callable[[Any], dict[str, Any]]] = {"c_function": _c_function}
