"""Builds the C runtime for its tests: a shared library through cffi, and programs with and without sanitizers."""

import hashlib
from pathlib import Path

import cffi
import pytest
from c_runtime import CDEF, FIXTURES, RUNTIME, SANITIZED, SOURCES, STRICT, Build, Runtime, compile_c


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A function that builds a driver of fixtures/ with the runtime; a file's name follows its sources and flags."""
    folder = tmp_path_factory.mktemp("runtime")

    def built(driver: str, *flags: str, compiler: str = "gcc") -> Path:
        files = [RUNTIME / name for name in SOURCES] + [FIXTURES / driver]
        seen = hashlib.sha256(repr((driver, flags, compiler)).encode())
        for path in [*files, *sorted(RUNTIME.glob("*.h"))]:
            seen.update(path.read_bytes())
        out = folder / f"{Path(driver).stem}-{seen.hexdigest()[:16]}"
        if not out.exists():
            done = compile_c(out, files, [*STRICT, *flags], compiler)
            assert done.returncode == 0, done.stderr
            assert done.stderr == ""
        return out

    return built


@pytest.fixture(scope="session")
def runtime(build: Build) -> Runtime:
    """The runtime at -O2 through cffi's ABI mode."""
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    return Runtime(ffi, ffi.dlopen(str(build("exports.c", "-O2", "-shared", "-fPIC"))))


@pytest.fixture(scope="session", params=["mapped", "read"])
def dump(request: pytest.FixtureRequest, build: Build) -> Path:
    """The dump program under ASan and UBSan: mapping files, and reading them with no byte order assumed."""
    portable = ["-DPRESK_NO_MMAP", "-DPRESK_ANY_BYTE_ORDER"] if request.param == "read" else []
    return build("dump.c", *SANITIZED, *portable)
