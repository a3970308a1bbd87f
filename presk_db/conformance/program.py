"""Builds and runs an emitted program, and compares its output file with the native run's."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.errors import BitsDiffer, BuildFailed, ProgramFailed


@dataclass(frozen=True)
class Build:
    """How to build: the compiler, the user's flags, and whether OpenMP may be used."""

    compiler: str = "cc"
    flags: str = "-O3 -march=native"
    openmp: bool = True

    def __str__(self) -> str:
        return f"{self.compiler} {self.flags}{'' if self.openmp else ' without OpenMP'}"


def built(folder: Path, build: Build, runtime: Path | None = None, target: str = "main") -> Path:
    """Builds the program in `folder`, or another target, and returns the executable.

    Raises BuildFailed (E7001) with the first error.

    The runtime's objects are taken from the folder `runtime`, where an earlier build of the same recording with the
    same flags left them; else they are left there.
    """
    make = ["make", "-s", "-C", str(folder), f"CC={build.compiler}", f"CFLAGS={build.flags}"]
    make += [] if build.openmp else ["OPENMP="]
    _run([*make, "clean"], BuildFailed)
    if runtime is not None and runtime.is_dir():
        for made in runtime.glob("presk_*.o"):
            shutil.copyfile(made, folder / made.name)
    result = _run([*make, f"-j{os.cpu_count() or 1}", target], BuildFailed)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "error" in line.lower()] or result.stderr.splitlines()
        raise BuildFailed(lines[0] if lines else "make failed", str(build))
    if runtime is not None and not runtime.is_dir():
        runtime.mkdir()
        for made in folder.glob("presk_*.o"):
            shutil.copyfile(made, runtime / made.name)
    return folder / target


def ran(
    program: Path,
    weights: Path | None,
    inputs: Path,
    outputs: Path,
    threads: int | None = None,
    more: Sequence[str] = (),
) -> str:
    """What the program prints; `more` are further arguments. Raises ProgramFailed (E7002) with what it said."""
    command: list[str] = [str(program), "-i", str(inputs), "-o", str(outputs), *more]
    if weights is not None:
        command += ["-w", str(weights)]
    passive = {"OMP_WAIT_POLICY": "passive"}  # a machine that others use, too: threads that wait do not spin
    environment = {**passive, **os.environ, **({"OMP_NUM_THREADS": str(threads)} if threads is not None else {})}
    result = _run(command, ProgramFailed, environment)
    if result.returncode:
        said = result.stderr.strip().splitlines()
        raise ProgramFailed(said[0] if said else f"ended with status {result.returncode}", program.name)
    return result.stdout


def compare_outputs(found: Path, expected: Path, build: str) -> int:
    """The number of equal bytes; BitsDiffer (E7003) with the first tensor and element that differ."""
    a, b = found.read_bytes(), expected.read_bytes()
    if a == b:
        return len(a)
    left, right = SafetensorsFile(str(found)), SafetensorsFile(str(expected))
    for name in right.names():
        if name not in left.names() or left.info(name) != right.info(name):
            raise BitsDiffer(f"the program's {name} has another type or shape", build)
        x, y = left.read(name).reshape(-1), right.read(name).reshape(-1)
        same = (x == y) & (np.signbit(x) == np.signbit(y)) | ((x != x) & (y != y))
        if not same.all():
            at = int(np.argmin(same))
            count = int((~same).sum())
            first = f"first at {at}: {float(x[at]).hex()} is not {float(y[at]).hex()}"
            raise BitsDiffer(f"{name} differs in {count} of {same.size} elements, {first}", build)
    raise BitsDiffer("the output files differ in their headers", build)


def _run(
    command: Sequence[str], error: type[BuildFailed] | type[ProgramFailed], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    except OSError as e:
        raise error(f"cannot run it: {e.strerror}", command[0]) from None
