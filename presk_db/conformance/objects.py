"""spilling_functions: the functions of an object file whose innermost loops of products go through the stack.

A tile of sums is fast while it stays in registers. Whether it does is the compiler's decision, which no test of bits
sees; so this reads the machine code of x86-64 and AArch64.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from presk_db.errors import BuildFailed

PRODUCTS = re.compile(r"presk_tile_\w+")
"""The functions that multiply and sum."""

_HEAD = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_TARGET = re.compile(r"(?:^|\s)([0-9a-f]+) <([^>+]+)(?:\+0x[0-9a-f]+)?>")
_JUMPS = re.compile(r"^(j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)$")
_MULTIPLIES = re.compile(r"^(v?mul[ps][sd]|fmul|fmla)")
_STACK = re.compile(r"\(%[re]?sp[,)]|\[sp[,\]]")
_FRAME = re.compile(r"\(%rbp[,)]|\[x29[,\]]")


@dataclass(frozen=True)
class Instruction:
    """One line of the disassembly: its address, operation and operands; the address that a jump inside goes to."""

    address: int
    operation: str
    operands: str
    target: int | None


def spilling_functions(path: Path, names: re.Pattern[str] = PRODUCTS) -> tuple[str, ...]:
    """The functions, in the file's order, that have an innermost loop which multiplies and touches the stack.

    Raises BuildFailed (E7001) where there is no objdump, or it cannot read the file, or no function has such a name.
    """
    found, seen = [], 0
    for name, code in _functions(path):
        if names.match(name):
            seen += 1
            if any(_spills(loop, _has_frame(code)) for loop in innermost_loops(code)):
                found.append(name)
    if not seen:
        raise BuildFailed("no function that multiplies is in it: nothing was checked", str(path))
    return tuple(found)


def innermost_loops(code: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The stretches from a backward jump's target to the jump that hold no other whole stretch."""
    spans = sorted({(i.target, i.address) for i in code if i.target is not None and i.target <= i.address})
    for low, high in spans:
        if not any((a, b) != (low, high) and low <= a and b <= high for a, b in spans):
            yield [i for i in code if low <= i.address <= high]


def _spills(loop: Sequence[Instruction], frame: bool) -> bool:
    if not any(_MULTIPLIES.match(i.operation) for i in loop):
        return False
    return any(_STACK.search(i.operands) or (frame and _FRAME.search(i.operands)) for i in loop)


def _has_frame(code: Sequence[Instruction]) -> bool:
    """Whether the frame pointer points into the stack here, and is no register like others."""
    return any(i.operation.startswith("mov") and i.operands in ("%rsp,%rbp", "x29, sp") for i in code)


def _functions(path: Path) -> Iterator[tuple[str, list[Instruction]]]:
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        raise BuildFailed("objdump is missing; install binutils to look into objects", str(path))
    command = [tool, "-d", "--no-show-raw-insn", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"objdump cannot read it: {done.stderr.strip()[:200]}", str(path))
    name, code = "", list[Instruction]()
    for line in done.stdout.splitlines():
        if head := _HEAD.match(line):
            if name:
                yield name, code
            name, code = head[1], []
        elif name and (m := _LINE.match(line)):
            code.append(_instruction(name, int(m[1], 16), m[2], m[3].strip()))
    if name:
        yield name, code


def _instruction(function: str, address: int, operation: str, operands: str) -> Instruction:
    target = _TARGET.search(operands) if _JUMPS.match(operation) else None
    inside = int(target[1], 16) if target is not None and target[2] == function else None
    return Instruction(address, operation, operands, inside)
