"""PRINTERS: what a generator's query may ask for to turn a kernel's text into lines of a language."""

from collections.abc import Callable
from math import prod
from typing import Any

from presk_db.kernels.c_nest import c_nest, nest_prototype
from presk_db.kernels.c_printer import c_function, parameter_text
from presk_db.kernels.c_text import wrapped
from presk_db.kernels.ir import Kernel
from presk_db.kernels.legality import scratch_bytes, units
from presk_db.kernels.parser import parse
from presk_db.kernels.plans import default_schedule, pieces_of
from presk_db.kernels.schedule import Schedule, parse_schedule


def _c_function(row: Any) -> dict[str, Any]:
    """The C11 functions of `row.kernel_text`, and their numbers.

    `lines` holds `NAME_part`, which computes units of the output, and `NAME`, which launches it over all units;
    `prototype` declares NAME; `scratch` is the bytes that a piece needs, `pieces` the most pieces. `row.packed` says
    that the right operand is packed at load; `row.plan` is the text of its schedule, None for the default one;
    `row.shared`, where there is one, names the arrays that have one memory by their places, as in `0>3 4>5`: what is
    read at 0 is written at 3.
    """
    kernel = parse(row.kernel_text)
    schedule = default_schedule(kernel, bool(row.packed)) if row.plan is None else parse_schedule(row.plan)
    pairs = [
        [kernel.arrays[int(n)].name for n in pair.split(">")] for pair in (getattr(row, "shared", None) or "").split()
    ]
    shared = dict(sorted(pairs))
    part = c_function(kernel, f"{row.name}_part", schedule, shared=shared).splitlines()
    names = [p.name for p in kernel.parameters if p.name not in shared]
    head = wrapped(f"void {row.name}(", [parameter_text(p) for p in kernel.parameters if p.name in names])
    scratch, pieces = scratch_bytes(kernel, schedule), pieces_of(kernel, schedule)
    return {
        "lines": [*part, "", *head, "{", *_launch(kernel, row.name, names, schedule, scratch, pieces), "}"],
        "prototype": "\n".join(head) + ";",
        "scratch": scratch,
        "pieces": pieces,
        "schedule": schedule.text.replace("\n", "; ").removesuffix("; ") or "as written",
    }


def _launch(kernel: Kernel, name: str, names: list[str], schedule: Schedule, scratch: int, pieces: int) -> list[str]:
    """The body of the function, with parameters of these names, that launches all units."""
    own = ["first", "last"]
    memory = []  # the team is this thread's own: the pieces' threads take it from a variable
    if scratch:
        own.append(f"scratch + piece * {scratch}")
        memory = ["    unsigned char *const scratch = team.scratch;"]
    call = f"{name}_part({', '.join([*own, *names])})"
    written = [
        f"    PRESK_LAUNCH_WRITES({position}, PRESK_{a.type.upper()}, {a.name}, {prod(a.shape)});"
        for position, a in enumerate(kernel.arrays)
        if a.mode == "out"
    ]
    launch = [
        f"    PRESK_LAUNCH({units(kernel, schedule)}, presk_least({pieces}, team.threads),",
        f"        {call});",
    ]
    if units(kernel, schedule) == 0:
        memory, launch = [], [f"    (void){n};" for n in names]
    return [*memory, "    PRESK_LAUNCH_BEGINS();", *launch, *written, "    PRESK_LAUNCH_ENDS();"]


def _c_nest(row: Any) -> dict[str, Any]:
    """The plain C function of `row.kernel_text` at point zero: `lines`, and `prototype`, which declares it."""
    kernel = parse(row.kernel_text)
    return {"lines": c_nest(kernel, row.name), "prototype": "\n".join(nest_prototype(kernel, row.name))}


PRINTERS: dict[str, Callable[[Any], dict[str, Any]]] = {"c_function": _c_function, "c_nest": _c_nest}
