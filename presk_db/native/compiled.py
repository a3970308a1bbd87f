"""compiled_executor: kernels through the C compiler and cffi; the same bits as `run_kernel`, faster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from presk_db.errors import FloatEnvironmentBad
from presk_db.kernels.c_printer import c_function, parameter_names
from presk_db.kernels.c_text import STORED
from presk_db.kernels.ir import Array as ArrayParameter
from presk_db.kernels.ir import ExtentParameter, Kernel, Parameter
from presk_db.kernels.legality import Packing, packing_of, scratch_bytes, units
from presk_db.kernels.plans import default_schedule
from presk_db.kernels.schedule import Schedule
from presk_db.native.arguments import check_arguments
from presk_db.native.compiler import FLAGS, shared_library
from presk_db.native.numbers import STORAGE, Array

Executor = Callable[[Kernel, Sequence[Array], Mapping[str, float | int]], None]


@dataclass(frozen=True)
class _Function:
    """What calling a kernel's function needs."""

    units: int
    scratch: int
    packing: Packing | None


def compiled_executor(
    kernels: Sequence[Kernel],
    schedules: Mapping[str, Schedule] | None = None,
    flags: Sequence[str] = FLAGS,
    pieces: int = 1,
) -> Executor:
    """A function like `run_kernel` for these kernels.

    They are compiled by $CC (or cc) into one shared library, which stays in a cache under the folder for temporary
    files and is named by the digest of all that it depends on.

    Args:
        kernels: what can be run.
        schedules: by a kernel's digest; the default schedule for the others. An operand that a schedule reads packed
            is packed at each run.
        flags: the compiler's.
        pieces: into how many calls the units of each run are divided.

    Raises:
        CompilerFailed (E4002): there is no compiler, or it refused.
        FloatEnvironmentBad (E4001): what it made, in this process, does not compute the bits.
        ScheduleIllegal (E3004): a schedule does not fit its kernel.
    """
    distinct = tuple({k.digest: k for k in kernels}.values())
    chosen = {k.digest: (schedules or {}).get(k.digest) or default_schedule(k) for k in distinct}
    source = library_source(distinct, chosen)
    library, ffi = _loaded(shared_library(source, flags), _declarations(distinct, chosen))
    reason = library.presk_library_probe()
    if reason != ffi.NULL:
        raise FloatEnvironmentBad(f"compiled kernels: {ffi.string(reason).decode()}")
    functions = {k.digest: _function(k, chosen[k.digest]) for k in distinct}
    scratch = np.empty(max((f.scratch for f in functions.values()), default=0) + 64, np.uint8)
    aligned = scratch[-scratch.ctypes.data % 64 :]

    def execute(kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int]) -> None:
        check_arguments(kernel, arrays, scalars)
        function = functions[kernel.digest]
        given, held = iter(arrays), []
        arguments: list[Any] = [ffi.cast("unsigned char *", aligned.ctypes.data)] if function.scratch else []
        for p in kernel.parameters:
            if isinstance(p, ArrayParameter):
                array = next(given)
                if function.packing is not None and p.name == function.packing.array:
                    array = _packed(library, ffi, function.packing, array)
                    held.append(array)
                arguments.append(_pointer(ffi, p, array))
            else:
                arguments.append(int(scalars[p.name]) if isinstance(p, ExtentParameter) else float(scalars[p.name]))
        for piece in range(pieces):
            ends = (function.units * piece // pieces, function.units * (piece + 1) // pieces)
            getattr(library, _symbol(kernel))(*ends, *arguments)

    return execute


def _function(kernel: Kernel, schedule: Schedule) -> _Function:
    packed = schedule.product is not None and schedule.product.right == "packed"
    return _Function(units(kernel, schedule), scratch_bytes(kernel, schedule), packing_of(kernel) if packed else None)


def _packed(library: Any, ffi: Any, packing: Packing, array: Array) -> Array:
    """The array in panels."""
    packed = np.empty(packing.elements + 64, STORAGE[packing.type])
    packed = packed[(-packed.ctypes.data % 64) // packed.itemsize :][: packing.elements]
    pointer = f"{STORED[packing.type]} *"
    to, source = ffi.cast(pointer, packed.ctypes.data), ffi.cast(pointer, array.ctypes.data)
    pack = getattr(library, f"pack_{packing.type}")
    pack(to, 0, packing.panels, packing.k, packing.n, source, packing.down, packing.across)
    return packed


_PACK = "(T *to, ptrdiff_t first, ptrdiff_t last, ptrdiff_t k, ptrdiff_t n, const T *from, ptrdiff_t down, ptrdiff_t across)"


def _pack_declarations() -> list[tuple[str, str]]:
    """The declaration of each packing function, and what its body calls."""
    names = _PACK.replace("const ", "").replace("T *", "").replace("ptrdiff_t ", "")
    return [
        (f"void pack_{t}{_PACK.replace('T *', f'{STORED[t]} *')}", f"presk_pack_{t}{names}")
        for t in ("f32", "f64", "bf16")
    ]


_PROBE = """\
const char *presk_library_probe(void);
const char *presk_library_probe(void)
{
    const char *reason = presk_rt_probe();
    return reason != NULL ? reason : presk_probe_unit();
}
"""
"""The answer of the runtime and of this file, whose flags are the same but need not be."""


def library_source(kernels: Sequence[Kernel], schedules: Mapping[str, Schedule]) -> str:
    """One C file with an external function for each kernel, and those that pack operands."""
    parts = ['#include "presk_kernel.h"\n#include "presk_probe.h"\n', _PROBE]
    parts += [f"{head};\n{head}\n{{\n    {call};\n}}\n" for head, call in _pack_declarations()]
    for kernel in kernels:
        name, schedule = _symbol(kernel), schedules[kernel.digest]
        parts.append(c_function(kernel, f"{name}_kernel", schedule))
        head = f"void {name}({_parameters(kernel, schedule, named=True)})"
        names = ", ".join(parameter_names(kernel, schedule))
        parts.append(f"{head};\n{head}\n{{\n    {name}_kernel({names});\n}}\n")
    return "\n".join(parts)


def _symbol(kernel: Kernel) -> str:
    return f"k_{kernel.digest[:32]}"


def _c_type(p: Parameter) -> str:
    if isinstance(p, ArrayParameter):
        return f"{'const ' if p.mode == 'in' else ''}{STORED[p.type]} *"
    return "ptrdiff_t " if isinstance(p, ExtentParameter) else "double "


def _parameters(kernel: Kernel, schedule: Schedule, named: bool) -> str:
    types = ["ptrdiff_t ", "ptrdiff_t "]
    if scratch_bytes(kernel, schedule):
        types.append("unsigned char *")
    types += [_c_type(p) for p in kernel.parameters]
    names = parameter_names(kernel, schedule)
    return ", ".join(f"{t}{n if named else ''}" for t, n in zip(types, names, strict=True))


def _declarations(kernels: Sequence[Kernel], schedules: Mapping[str, Schedule]) -> str:
    lines = [
        "typedef uint16_t presk_bf16; const char *presk_library_probe(void);",
        *(f"{head};" for head, _ in _pack_declarations()),
    ]
    for kernel in kernels:
        lines.append(f"void {_symbol(kernel)}({_parameters(kernel, schedules[kernel.digest], named=False)});")
    return "\n".join(lines)


def _pointer(ffi: Any, p: ArrayParameter, array: Array) -> Any:
    """The array's address; its dtype, size and contiguity are checked already."""
    return ffi.cast(f"{STORED[p.type]} *", array.ctypes.data)


@lru_cache(maxsize=64)
def _loaded(path: Path, declarations: str) -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return ffi.dlopen(str(path)), ffi
