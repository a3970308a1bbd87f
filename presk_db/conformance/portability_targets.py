"""TARGETS: the compilers, flags, machines and thread counts of the portability matrix."""

import importlib.util
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

THREADS = (1, 2, 3, 7)
"""What OMP_NUM_THREADS is set to where a program is built with OpenMP, if nothing else is said."""

LEVELS = ("-O0", "-O2", "-O3", "-O3 -march=native")

WASI = """
require('node:v8').setFlagsFromString('--no-turbo-fast-api-calls');
const { WASI } = require('node:wasi');
const { readFileSync } = require('node:fs');
const [file, ...args] = process.argv.slice(1);
const wasi = new WASI({ version: 'preview1', args: [file, ...args], preopens: { '/': '/' }, returnOnExit: true });
WebAssembly.instantiate(readFileSync(file), { wasi_snapshot_preview1: wasi.wasiImport })
    .then(({ instance }) => { process.exitCode = wasi.start(instance); });
"""
"""Runs a WebAssembly program on the files of this machine: for `node -e`.

V8's fast calls are off: with them the garbage collector of Node 20 crashes in one of five runs that read large files.
"""


@dataclass(frozen=True)
class Target:
    """One row of the matrix: how to compile and link, how to run, and what must be installed for it.

    `refused` is a word of the message with which the build must fail, for a target that cannot keep the bits. `counts`
    are the values of OMP_NUM_THREADS.
    """

    name: str
    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    openmp: bool = False
    runner: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    refused: str | None = None
    counts: tuple[int, ...] = THREADS

    @property
    def threads(self) -> tuple[int | None, ...]:
        """The thread counts to run with; None where there are no threads."""
        return self.counts if self.openmp else (None,)


def zig() -> tuple[str, ...]:
    """The command of zig's C compiler: from the package ziglang of this environment, or on the path."""
    return (sys.executable, "-m", "ziglang", "cc") if importlib.util.find_spec("ziglang") else ("zig", "cc")


def _hosts() -> list[Target]:
    """gcc, clang and zig for this machine, at each level, with and without OpenMP where they have it."""
    found = []
    for compiler, package in (("gcc", "gcc"), ("clang-19", "clang-19 and libomp-19-dev")):
        for level in LEVELS:
            for openmp in (True, False):
                name = f"{compiler} {level}{', OpenMP' if openmp else ''}"
                found.append(Target(name, (compiler,), tuple(level.split()), openmp, needs=(package,)))
    for level in LEVELS:
        found.append(Target(f"zig cc {level}", zig(), tuple(level.split()), needs=("ziglang",)))
    if platform.machine() == "x86_64":
        found.append(Target("gcc -O3 -march=x86-64-v3", ("gcc",), ("-O3", "-march=x86-64-v3"), needs=("gcc",)))
    return found


def _musl() -> list[Target]:
    """musl's C library, linked statically: by Debian's wrapper, and by zig."""
    machine = platform.machine()
    return [
        Target("musl-gcc -O2 -static", ("musl-gcc",), ("-O2", "-static"), needs=("musl-tools",)),
        Target("zig cc, musl, -O2", zig(), (f"--target={machine}-linux-musl", "-O2"), needs=("ziglang",)),
    ]


def _crossed() -> list[Target]:
    """Other machines under qemu-user, linked statically: Debian's gcc with OpenMP, and zig."""
    triples = (
        ("aarch64", "aarch64-linux-gnu", "aarch64-linux-musl", "arm64"),
        ("riscv64", "riscv64-linux-gnu", "riscv64-linux-musl", "riscv64"),
        ("arm", "arm-linux-gnueabihf", "arm-linux-musleabihf", "armhf"),
        ("s390x", "s390x-linux-gnu", "s390x-linux-musl", "s390x"),
    )
    found = []
    for machine, gnu, musl, debian in triples:
        qemu = (f"qemu-{machine}",)
        needs = (f"gcc-{gnu}", f"libc6-dev-{debian}-cross", "qemu-user")
        for level in ("-O2", "-O3"):
            flags = (level, "-static")
            found.append(Target(f"{machine} gcc {level}, OpenMP", (f"{gnu}-gcc",), flags, True, qemu, needs))
        flags = (f"--target={musl}", "-O2")
        found.append(Target(f"{machine} zig cc -O2", zig(), flags, False, qemu, ("ziglang", "qemu-user")))
    flags = ("--target=powerpc64-linux-musl", "-O2")
    found.append(Target("ppc64 zig cc -O2", zig(), flags, False, ("qemu-ppc64",), ("ziglang", "qemu-user")))
    flags = ("--target=x86-linux-musl", "-O2")
    found.append(Target("i386 zig cc -O2", zig(), flags, False, ("qemu-i386",), ("ziglang", "qemu-user")))
    return found


def _wasm() -> list[Target]:
    """WebAssembly under Node, with and without its vectors."""
    node, needs = ("node", "--no-warnings", "-e", WASI), ("ziglang", "node")
    return [
        Target(f"wasm32-wasi zig cc {level}", zig(), ("--target=wasm32-wasi", *level.split()), False, node, needs)
        for level in ("-O2", "-O3 -msimd128")
    ]


def _refused() -> list[Target]:
    """Builds that would change the bits and that the runtime must refuse."""
    bad = [("gcc -ffast-math", ("-O2", "-ffast-math"), "-ffast-math")]
    if platform.machine() == "x86_64":
        bad.append(("gcc -mfpmath=387", ("-O2", "-mfpmath=387"), "excess precision"))
    return [Target(name, ("gcc",), flags, needs=("gcc",), refused=word) for name, flags, word in bad]


TARGETS: tuple[Target, ...] = (*_hosts(), *_musl(), *_crossed(), *_wasm(), *_refused())
"""All rows, in the table's order."""


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """The name."""
        ...


N = TypeVar("N", bound=Named)


def chosen(pattern: str, named: Sequence[N]) -> list[N]:
    """Those whose name holds one of the texts that `|` separates."""
    return [n for n in named if any(word in n.name for word in pattern.split("|"))]
