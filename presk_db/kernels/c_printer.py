"""c_function: a kernel as one C11 function, by its schedule; the kernel's text is the comment above.

What the function calls is in presk_kernel.h. Loops, subscripts and names are the kernel's: a subscript is the flat
affine address with literal strides; a value that is used once, near, stands where it is used.
"""

import re
from collections.abc import Mapping

from presk_db.errors import KernelAliasBad
from presk_db.kernels.attention import attention_of
from presk_db.kernels.c_attention import AttentionPrinter
from presk_db.kernels.c_few_rows import FewRowsPrinter
from presk_db.kernels.c_late import LatePrinter
from presk_db.kernels.c_loops import LoopPrinter
from presk_db.kernels.c_product import ProductPrinter
from presk_db.kernels.c_statements import StatementPrinter
from presk_db.kernels.c_text import STORED, check_names, wrapped
from presk_db.kernels.ir import (
    Array,
    ExtentParameter,
    Kernel,
    Parameter,
    ScalarParameter,
)
from presk_db.kernels.legality import check_schedule, goes_by_rows, scratch_of
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.products import late_sum, product_of
from presk_db.kernels.schedule import Schedule
from presk_db.kernels.sharing import in_place, shared_pairs


def c_function(
    kernel: Kernel,
    name: str,
    schedule: Schedule | None = None,
    *,
    comment: bool = True,
    shared: Mapping[str, str] | None = None,
) -> str:
    """The function `static void name(...)` in C11, ending in a newline.

    Its parameters are `ptrdiff_t first, ptrdiff_t last`, the units to compute (see `legality.units`); `unsigned char
    *restrict scratch`, aligned to 64, where `legality.scratch_bytes` is not 0; then the kernel's in order: arrays as
    restrict pointers, scalars as double, extents as ptrdiff_t. It is silent under -Wall -Wextra -Wconversion.
    `schedule` is the default one where it is None. `shared` maps arrays that are read to the written ones whose memory
    they are given: they are no parameters.

    Raises:
        KernelNameBad (E2002): a name of the kernel means something in C.
        KernelAliasBad (E2006): two arrays of `shared` cannot have one memory.
        ScheduleIllegal (E3004): the schedule does not fit the kernel.
    """
    schedule = default_schedule(kernel) if schedule is None else schedule
    check_schedule(kernel, schedule)
    own = _own_names(kernel)
    lines = kernel.text.splitlines()
    for read, written in (shared or {}).items():
        if (read, written) not in shared_pairs(kernel):
            raise KernelAliasBad(f"{read} and {written} cannot share memory", name)
        lines.append(f"{read} is {written}'s memory")
    text = ["/*", *(f" * {line}" for line in lines), " */"] if comment else []
    kernel = in_place(kernel, shared or {})
    product = product_of(kernel)
    if schedule.product is not None and product is not None and (late := late_sum(kernel)) is not None:
        printer: StatementPrinter = LatePrinter(late, product, schedule.product, *own)
    elif schedule.product is not None and product is not None:
        by_rows = goes_by_rows(kernel, product, schedule.product)
        printer = (FewRowsPrinter if by_rows else ProductPrinter)(kernel, product, schedule.product, *own)
    elif schedule.attention is not None and (attention := attention_of(kernel)) is not None:
        printer = AttentionPrinter(kernel, attention, schedule.attention, *own)
    else:
        printer = LoopPrinter(kernel, schedule, *own)
    check_names(printer.taken)
    return "\n".join([*text, *_function(printer, kernel, name, schedule, own)]) + "\n"


def parameter_names(kernel: Kernel, schedule: Schedule) -> tuple[str, ...]:
    """The names of the function's parameters, in order."""
    first, last, scratch = _own_names(kernel)
    own = (first, last, scratch) if scratch_of(kernel, schedule).total else (first, last)
    return (*own, *(p.name for p in kernel.parameters))


def _own_names(kernel: Kernel) -> tuple[str, str, str]:
    """`first`, `last` and `scratch`, under names that the kernel does not use."""
    taken = StatementPrinter(kernel).taken
    first, last, scratch = (f"{n}_" if n in taken else n for n in ("first", "last", "scratch"))
    return first, last, scratch


def _function(
    printer: StatementPrinter, kernel: Kernel, name: str, schedule: Schedule, own: tuple[str, str, str]
) -> list[str]:
    """The function's lines."""
    first, last, scratch = own
    printer.depth = 1
    printer.constants()
    printer.print_body()
    used = set(re.findall(r"\w+", "\n".join(printer.lines)))
    names = parameter_names(kernel, schedule)
    unused = [f"    (void){n};" for n in names if n not in used]
    declared = [f"ptrdiff_t {first}", f"ptrdiff_t {last}"]
    if scratch in names:
        declared.append(f"unsigned char *restrict {scratch}")
    head = wrapped(f"static void {name}(", [*declared, *(parameter_text(p) for p in kernel.parameters)])
    return [*head, "{", *unused, *printer.lines, "}"]


def parameter_text(p: Parameter) -> str:
    """A kernel's parameter as C declares it."""
    match p:
        case Array(name, "in", type_, _, _):
            return f"const {STORED[type_]} *restrict {name}"
        case Array(name, _, type_, _, _):
            return f"{STORED[type_]} *restrict {name}"
        case ExtentParameter(name, _):
            return f"ptrdiff_t {name}"
        case ScalarParameter(name):
            return f"double {name}"
