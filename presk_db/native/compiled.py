"""compiled_executor: kernels through the C compiler and cffi; the same bits as `run_kernel`, faster."""

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cffi

from presk_db.errors import CompilerFailed
from presk_db.kernels.c_printer import c_function
from presk_db.kernels.c_text import STORED
from presk_db.kernels.ir import Array as ArrayParameter
from presk_db.kernels.ir import ExtentParameter, Kernel, Parameter
from presk_db.kernels.schedule import Schedule
from presk_db.native.arguments import check_arguments
from presk_db.native.numbers import Array
from presk_db.resources import resource_folder

FLAGS: tuple[str, ...] = ("-std=c11", "-O3", "-march=native", "-ffp-contract=off")

Executor = Callable[[Kernel, Sequence[Array], Mapping[str, float | int]], None]


def compiled_executor(
    kernels: Sequence[Kernel],
    schedules: Mapping[str, Schedule] | None = None,
    flags: Sequence[str] = FLAGS,
) -> Executor:
    """A function like `run_kernel` for these kernels.

    They are compiled by $CC (or cc) into one shared library, which stays in a cache under the folder for temporary
    files and is named by the digest of all that it depends on.

    Args:
        kernels: what can be run.
        schedules: by a kernel's digest; the default schedule for the others.
        flags: the compiler's.

    Raises:
        CompilerFailed (E4002): there is no compiler, or it refused.
    """
    distinct = {k.digest: k for k in kernels}
    source = library_source(tuple(distinct.values()), schedules or {})
    library, ffi = _loaded(_built(source, tuple(flags)), _declarations(tuple(distinct.values())))

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


def _cache_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"presk-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if folder.is_symlink() or (hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022)):
        raise CompilerFailed("this folder for compiled kernels belongs to others; set TMPDIR", str(folder))
    return folder


def _built(source: str, flags: tuple[str, ...]) -> Path:
    """The path of the library of this source."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    runtime = resource_folder("runtime_c")
    digest = hashlib.sha256()
    files = sorted(p for p in runtime.iterdir() if p.suffix in (".c", ".h"))
    for text in (source, *compiler, *flags, _version(tuple(compiler)), *(p.read_text() for p in files)):
        digest.update(hashlib.sha256(text.encode()).digest())
    folder = _cache_folder()
    library = folder / f"{digest.hexdigest()}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        file, built = Path(scratch) / "kernels.c", Path(scratch) / "kernels.so"
        file.write_text(source)
        needed = [str(p) for p in files if p.suffix == ".c" and p.name.startswith(("presk_rt", "presk_math"))]
        command = [*compiler, *flags, "-shared", "-fPIC", f"-I{runtime}", "-o", str(built), str(file), *needed, "-lm"]
        _compile(command)
        built.replace(library)
    return library


def _compile(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as e:
        raise CompilerFailed(f"the C compiler does not start ({e.strerror}); set CC or install one", command[0]) from e
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise CompilerFailed(f"the C compiler refused the kernels: {first}", command[0])


@lru_cache(maxsize=8)
def _version(compiler: tuple[str, ...]) -> str:
    """What the compiler says of itself, so that another one under the same name makes another library."""
    try:
        return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as e:
        raise CompilerFailed(f"the C compiler does not start ({e.strerror}); set CC or install one", compiler[0]) from e


@lru_cache(maxsize=64)
def _loaded(path: Path, declarations: str) -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return ffi.dlopen(str(path)), ffi
