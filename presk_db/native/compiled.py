"""compiled_executor: kernels through the C compiler and cffi; the same bits as `run_kernel`, faster."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cffi

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.c_text import STORED
from presk_db.kernels.ir import Array as ArrayParameter
from presk_db.kernels.ir import ExtentParameter, Kernel, Parameter
from presk_db.kernels.schedule import Schedule
from presk_db.native.arguments import check_arguments
from presk_db.native.compiler import FLAGS, shared_library
from presk_db.native.numbers import Array

Executor = Callable[[Kernel, Sequence[Array], Mapping[str, float | int]], None]


def compiled_executor(
    kernels: Sequence[Kernel],
    schedules: Mapping[str, Schedule] | None = None,
    flags: Sequence[str] = FLAGS,
) -> Executor:
    """A function like `run_kernel` for these kernels.

    They are compiled into one shared library.

    Args:
        kernels: what can be run.
        schedules: by a kernel's digest; the default schedule for the others.
        flags: the compiler's.

    Raises:
        CompilerFailed (E4002): there is no compiler, or it refused.
    """
    distinct = {k.digest: k for k in kernels}
    source = library_source(tuple(distinct.values()), schedules or {})
    library, ffi = _loaded(shared_library(source, flags), _declarations(tuple(distinct.values())))

    def execute(kernel: Kernel, arrays: Sequence[Array], scalars: Mapping[str, float | int]) -> None:
        check_arguments(kernel, arrays, scalars)
        given = iter(arrays)
        arguments: list[Any] = []
        for p in kernel.parameters:
            if isinstance(p, ArrayParameter):
                arguments.append(_pointer(ffi, p, next(given)))
            else:
                arguments.append(int(scalars[p.name]) if isinstance(p, ExtentParameter) else float(scalars[p.name]))
        getattr(library, _symbol(kernel))(*arguments)

    return execute


def library_source(kernels: Sequence[Kernel], schedules: Mapping[str, Schedule]) -> str:
    """One C file with an external function for each kernel."""
    parts = ['#include "presk_kernel.h"\n']
    for kernel in kernels:
        name = _symbol(kernel)
        parts.append(c_function(kernel, f"{name}_kernel", schedules.get(kernel.digest)))
        declared = ", ".join(f"{_c_type(p)}{p.name}" for p in kernel.parameters) or "void"
        names = ", ".join(p.name for p in kernel.parameters)
        parts.append(f"void {name}({declared});\nvoid {name}({declared})\n{{\n    {name}_kernel({names});\n}}\n")
    return "\n".join(parts)


def _symbol(kernel: Kernel) -> str:
    return f"k_{kernel.digest[:32]}"


def _c_type(p: Parameter) -> str:
    if isinstance(p, ArrayParameter):
        return f"{'const ' if p.mode == 'in' else ''}{STORED[p.type]} *"
    return "ptrdiff_t " if isinstance(p, ExtentParameter) else "double "


def _declarations(kernels: Sequence[Kernel]) -> str:
    lines = ["typedef uint16_t presk_bf16;"]
    for kernel in kernels:
        lines.append(f"void {_symbol(kernel)}({', '.join(_c_type(p) for p in kernel.parameters) or 'void'});")
    return "\n".join(lines)


def _pointer(ffi: Any, p: ArrayParameter, array: Array) -> Any:
    """The array's address; its dtype, size and contiguity are checked already."""
    return ffi.cast(f"{STORED[p.type]} *", array.ctypes.data)


@lru_cache(maxsize=64)
def _loaded(path: Path, declarations: str) -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return ffi.dlopen(str(path)), ffi
