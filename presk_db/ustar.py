"""write_tar, read_tar: tar files of one form alone: USTAR, regular files in the order of their names, nobody's, at time 0.

What is read must be, byte for byte, what would be written of the same files. So a link, a device, a name that leaves the
folder, a member given twice or a byte out of place is refused before anything is unpacked.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from presk_db.errors import ArchiveBad

BLOCK = 512
RECORD = 20 * BLOCK
MODES = (0o644, 0o755)
LARGEST = 8**11 - 1
"""The most bytes of a member: eleven octal digits."""

_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a pipe",
    b"x": "an extended header", b"g": "an extended header", b"L": "a long name", b"K": "a long name",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


class Readable(Protocol):
    """What bytes are read from, in order."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; fewer only at the end."""
        ...


@dataclass(frozen=True)
class Member:
    """A file of a tar: its name, its permissions (0644 or 0755), its bytes."""

    name: str
    mode: int
    size: int


def write_tar(out: Callable[[bytes], object], members: Iterable[tuple[Member, BinaryIO]]) -> None:
    """Writes the members, which must stand in the order of their names, with the contents that the files hold.

    Raises ArchiveBad (E7008) for a name or a size that the format has no room for.
    """
    written = 0
    for member, content in members:
        out(header(member))
        left = member.size
        while left > 0:
            piece = content.read(min(left, 1 << 20))
            if not piece:
                raise ArchiveBad("the file became shorter while it was read", member.name)
            out(piece)
            left -= len(piece)
        out(b"\0" * (-member.size % BLOCK))
        written += BLOCK + member.size + -member.size % BLOCK
    out(b"\0" * (2 * BLOCK + -(written + 2 * BLOCK) % RECORD))


def header(member: Member) -> bytes:
    """The member's 512 bytes."""
    name, prefix = member.name.encode("ascii"), b""
    if len(name) > 100:
        cut = name.rfind(b"/", 0, 156)
        prefix, name = name[: max(cut, 0)], name[cut + 1 :]
    if not name or len(name) > 100 or member.size > LARGEST:
        raise ArchiveBad("a tar has no room for its name, or for its bytes", member.name)
    fields = [
        name.ljust(100, b"\0"),
        b"%07o\0" % member.mode,
        b"0000000\0" * 2,  # nobody's
        b"%011o\0" % member.size,
        b"00000000000\0",  # at time 0
        b" " * 8,  # the checksum is taken over spaces
        b"0",
        b"\0" * 100,
        b"ustar\x0000",
        b"\0" * 80,  # no owner's name, no device
        prefix.ljust(155, b"\0"),
        b"\0" * 12,
    ]
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def read_tar(file: Readable, limit: int) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """The members in order, each with its content in pieces, which must be taken before the next one.

    Raises ArchiveBad (E7008) where the file is not exactly what `write_tar` writes, or its members have more than `limit`
    bytes together.
    """
    previous, total, at = "", 0, 0
    while True:
        block = _exactly(file, BLOCK)
        if block == b"\0" * BLOCK:
            break
        member = _member(block)
        if member.name <= previous:
            twice = member.name == previous
            raise ArchiveBad("it is there twice" if twice else "it is not in the order of the names", member.name)
        total += member.size
        if total > limit:
            raise ArchiveBad(f"it would unpack to more than {limit} bytes; --limit allows more", member.name)
        previous = member.name
        yield member, _content(file, member.size)
        if any(_exactly(file, -member.size % BLOCK)):
            raise ArchiveBad("bytes stand behind its end", member.name)
        at += BLOCK + member.size + -member.size % BLOCK
    rest = BLOCK + -(at + 2 * BLOCK) % RECORD
    if any(_exactly(file, rest)) or file.read(1):
        raise ArchiveBad("bytes stand behind the last member")


def _member(block: bytes) -> Member:
    """What a header says. Raises ArchiveBad (E7008) unless it is the one that this member has."""
    kind = block[156:157]
    name = block[:100].rstrip(b"\0")
    prefix = block[345:500].rstrip(b"\0")
    path = b"/".join([prefix, name] if prefix else [name]).decode("latin-1")
    shown = ascii(path)[1:-1][:200]
    if kind in _KINDS:
        raise ArchiveBad(f"it is {_KINDS[kind]}, and only files are unpacked", shown)
    if path.startswith("/") or {".", ".."} & set(path.split("/")) or "\\" in path:
        raise ArchiveBad("its name leaves the folder", shown)
    digits = block[124:135]
    if _NAME.fullmatch(path) is None or not re.fullmatch(rb"[0-7]{11}", digits):
        raise ArchiveBad("this is no header of a tar that presk writes", shown)
    for mode in MODES:
        member = Member(path, mode, int(digits, 8))
        if header(member) == block:
            return member
    raise ArchiveBad("this is no header of a tar that presk writes", shown)


def _content(file: Readable, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = _exactly(file, min(size, 1 << 20))
        size -= len(piece)
        yield piece


def _exactly(file: Readable, size: int) -> bytes:
    piece = file.read(size)
    if len(piece) != size:
        raise ArchiveBad("it is cut: its end is missing")
    return piece
