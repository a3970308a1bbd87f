"""PRINTERS: what a generator's query may ask for to turn a kernel's text into lines of a language."""

from collections.abc import Callable
from typing import Any

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.parser import parse


def _c_function(row: Any) -> list[str]:
    """The C11 function of `row.kernel_text`, named `row.name`."""
    return c_function(parse(row.kernel_text), row.name).rstrip("\n").split("\n")


PRINTERS: dict[str, Callable[[Any], list[str]]] = {"c_function": _c_function}
