"""Hashes: what a program built with -DPRESK_HASH wrote down of its run."""

import re
from dataclasses import dataclass
from pathlib import Path

from presk_db.errors import HashesBad

FIRST_LINE = "presk hashes 1"
LIMIT = 1 << 30
"""The most bytes of such a file: 10^7 launches."""

_RECORDING = re.compile(r"recording ([0-9a-f]{64}) (structured|straight-line)")
_WRITTEN = re.compile(r"(\d{1,15}) (\w+) (\d{1,6}) ((?:arena|out\d{1,9})\+\d{1,20}|\?) ([0-9a-f]{16})")
_STRAY = re.compile(r"(\d{1,15}) \w+ stray ((?:arena|out\d{1,9})\+\d{1,20})")
_END = re.compile(r"end (\d{1,15})")


@dataclass(frozen=True)
class Found:
    """One array that a launch wrote: the C function, its argument, where it lay, its hash."""

    kernel: str
    position: int
    place: str
    hash: int


@dataclass(frozen=True)
class Hashes:
    """A run: by operation, what was written, and where bytes changed that no argument covers.

    `operations` is the number of launches; None where the run ended before its end.
    """

    recording: str
    straight_line: bool
    written: dict[int, tuple[Found, ...]]
    strays: dict[int, str]
    operations: int | None


def read_hashes(path: str) -> Hashes:
    """Reads the file. Raises HashesBad (E7007) with the line that is not one of such a file."""
    lines = _lines(path)
    if lines[:1] != [FIRST_LINE]:
        raise HashesBad("this is no file of hashes: a program built with -DPRESK_HASH writes one with -s", path)
    head = _RECORDING.fullmatch(lines[1]) if len(lines) > 1 else None
    if head is None:
        raise HashesBad("the second line does not name the recording", f"{path} line 2")
    written: dict[int, list[Found]] = {}
    strays: dict[int, str] = {}
    end: int | None = None
    for number, line in enumerate(lines[2:], 3):
        if end is not None:
            raise HashesBad("lines come after the end", f"{path} line {number}")
        if match := _WRITTEN.fullmatch(line):
            found = Found(match[2], int(match[3]), match[4], int(match[5], 16))
            written.setdefault(int(match[1]), []).append(found)
        elif match := _STRAY.fullmatch(line):
            strays.setdefault(int(match[1]), match[2])
        elif match := _END.fullmatch(line):
            end = int(match[1])
        elif number < len(lines):  # the last line of a run that crashed may be cut
            raise HashesBad("this is no line of a file of hashes", f"{path} line {number}")
    return Hashes(head[1], head[2] == "straight-line", {n: tuple(f) for n, f in written.items()}, strays, end)


def _lines(path: str) -> list[str]:
    try:
        file = Path(path)
        if file.stat().st_size > LIMIT:
            raise HashesBad(f"has more than {LIMIT} bytes", path)
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as e:
        raise HashesBad(f"cannot be read: {getattr(e, 'strerror', None) or e}", path) from None
