"""shared_library: C text and the runtime as a library, by $CC (or cc), made once for all that it depends on."""

import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from presk_db.errors import CompilerFailed
from presk_db.resources import resource_folder

FLAGS: tuple[str, ...] = (
    *("-std=c11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno"),
    *(("-fexcess-precision=fast",) if platform.machine() == "s390x" else ()),  # float is evaluated as double without it
)
"""The exactness and the speed: gcc's and clang's own C11, without clang's contraction; square roots set no errno, so that
they are vector code."""

_RUNTIME = (
    "presk_rt",
    "presk_math",
    "presk_key",
    "presk_sample",
    "presk_routine",
    "presk_json",
)  # the parts of the runtime that kernels and tokenizers call begin so


def shared_library(source: str, flags: Sequence[str] = FLAGS, folder: str | None = None) -> Path:
    """The path of a shared library of `source`, which may include the runtime's headers and calls its functions.

    With `folder`, the files of that folder of the runtime belong to it too.

    It stays in a cache under the folder for temporary files, named by the digest of the text, the runtime, the
    compiler and the flags; so do the objects of the runtime.

    Raises:
        CompilerFailed (E4002): there is no compiler, it refused, or others could change the cache.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    runtime = resource_folder("runtime_c")
    more = [] if folder is None else sorted((runtime / folder).glob("*.[ch]"))
    headers = [p.read_text() for p in (*sorted(runtime.glob("*.h")), *more) if p.suffix == ".h"]
    command = [*compiler, *flags, "-fPIC", f"-I{runtime}", *([] if folder is None else [f"-I{runtime / folder}"])]
    base = [*compiler, _version(tuple(compiler)), *flags, *headers]
    objects: list[Path] = []
    for file in (*sorted(runtime.glob("*.c")), *more):
        if file.suffix == ".c" and (file in more or file.name.startswith(_RUNTIME)):
            text = file.read_text()
            objects.append(_made([*base, text], ".o", lambda out, f=file: [*command, "-c", "-o", out, str(f)]))  # type: ignore[misc]

    def link(out: str) -> list[str]:
        file = Path(out).with_suffix(".c")
        file.write_text(source)
        return [*command, "-shared", "-o", out, str(file), *map(str, objects), "-lm"]

    return _made([*base, *map(str, objects), source], ".so", link)


def _made(parts: Sequence[str], suffix: str, command: Callable[[str], list[str]]) -> Path:
    """The cached file of these parts; made by the command for a path, beside it, and then renamed."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())
    folder = _cache_folder()
    path = folder / f"{digest.hexdigest()}{suffix}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / f"made{suffix}"
            _run(command(str(made)))
            made.replace(path)
    return path


def _cache_folder() -> Path:
    """A folder of this user's alone: what lies there is loaded into the process."""
    if not hasattr(os, "getuid"):
        folder = Path(tempfile.gettempdir()) / "presk-kernels"
        folder.mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir()) / f"presk-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise CompilerFailed("this folder for compiled kernels belongs to others; set TMPDIR", str(folder))
    return folder


def _run(command: Sequence[str]) -> None:
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
