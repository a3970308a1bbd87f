"""polly_verdicts: which nests of an emission of the generator scop Polly takes for static control, by clang's remarks.

A nest is taken where each of its loops at the top lies in a region that Polly says is a SCoP (one that ends where the
next loop begins does not hold that loop); a region inside a loop does not make its nest one. What Polly says of the
function around the nest, whose local arrays it does not take in, is not asked.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from presk_db.errors import BuildFailed

FLAGS = (
    "-std=c11 -ffp-contract=off -O3 -mllvm -polly -mllvm -polly-process-unprofitable -mllvm -polly-position=early"
    " -mllvm -polly-detect-full-functions -mllvm -polly-code-generation=none -Rpass-analysis=polly -Rpass-missed=polly"
)
"""Polly before every other pass, without a view to profit, told to say what it finds and to change nothing."""

_REMARK = re.compile(r"^[^:\n]+:(\d+):\d+: remark: (.*?) \[-Rpass[^\]]*\]$", re.MULTILINE)
_GENERAL = re.compile(r"SCoP |The following errors|Invalid Scop|Possibly aliasing|Unspecified error|skipped possible")


@dataclass(frozen=True)
class Nest:
    """Lines of a function: the first, those of its loops at the top, the last."""

    name: str
    first: int
    loops: tuple[int, ...]
    last: int


def polly_verdicts(folder: Path, clang: str = "clang-19") -> dict[str, str | None]:
    """By the name of each nest in the folder's nests.c, in order: None where Polly takes it, else Polly's reason.

    Raises BuildFailed (E7001) where clang is missing, has no Polly, or does not compile the nests.
    """
    remarks = _remarks(folder, clang)
    return {nest.name: _refusal(nest, remarks) for nest in nests_of((folder / "nests.c").read_text(encoding="utf-8"))}


def _remarks(folder: Path, clang: str) -> list[tuple[int, str]]:
    command = [clang, *FLAGS.split(), "-fno-caret-diagnostics", "-c", "-o", "/dev/null", "nests.c"]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as e:
        raise BuildFailed(f"cannot run it: {e.strerror}; Debian's clang-19 has Polly", clang) from None
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "rror" in line or "nknown" in line]
        raise BuildFailed(f"{lines[0] if lines else 'it failed'}; Debian's clang-19 has Polly", clang)
    return [(int(m[1]), m[2]) for m in _REMARK.finditer(result.stderr)]


def nests_of(text: str) -> list[Nest]:
    """The functions of nests.c."""
    found: list[Nest] = []
    name, first, loops = "", 0, list[int]()
    for number, line in enumerate(text.splitlines(), 1):
        if m := re.match(r"void (\w+)\(", line):
            name, first, loops = m[1], number, []
        elif line.startswith("    for ("):
            loops.append(number)
        elif line == "}":
            found.append(Nest(name, first, tuple(loops), number))
    return found


def _refusal(nest: Nest, remarks: list[tuple[int, str]]) -> str | None:
    own = [(line, text) for line, text in remarks if nest.first <= line <= nest.last]
    regions: list[tuple[int, int]] = []
    begin = nest.first
    for line, text in own:
        if text.startswith("SCoP begins"):
            begin = line
        elif text.startswith("SCoP ends"):
            regions.append((begin, line))
    outside = [loop for loop in nest.loops if not any(a <= loop < b for a, b in regions)]
    if not outside:
        return None
    said = [text.rstrip(".") for _, text in own if not _GENERAL.match(text)]
    return said[0] if said else "no SCoP begins at its first loop"
