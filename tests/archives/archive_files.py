"""Archive: an archive's files in memory, changed and written again."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from presk_db.ustar import Member, write_tar


@dataclass(frozen=True)
class Archive:
    """The top folder's name, and the files' contents by their names in it."""

    top: str
    files: dict[str, bytes]

    @staticmethod
    def read(path: Path) -> "Archive":
        """As Python's tarfile reads it."""
        with tarfile.open(path) as tar:
            found = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]  # files
        top = next(iter(found)).partition("/")[0]
        return Archive(top, {name.removeprefix(f"{top}/"): data for name, data in found.items()})

    def changed(self, name: str, change: Callable[[bytes], bytes]) -> "Archive":
        """One file changed."""
        after = change(self.files[name])
        assert after != self.files[name]
        return replace(self, files={**self.files, name: after})

    def listed(self) -> "Archive":
        """With a manifest that says what is there."""
        names = sorted(n for n in self.files if n != "MANIFEST")
        lines = [f"{hashlib.sha256(self.files[n]).hexdigest()}  {n}\n" for n in names]
        return replace(self, files={**self.files, "MANIFEST": "".join(lines).encode()})

    def tar(self) -> bytes:
        """The tar that presk would write."""
        out = io.BytesIO()
        names = sorted(self.files)
        write_tar(out.write, ((self._member(n), io.BytesIO(self.files[n])) for n in names))
        return out.getvalue()

    def _member(self, name: str) -> Member:
        return Member(f"{self.top}/{name}", 0o755 if name.endswith(".sh") else 0o644, len(self.files[name]))

    def write(self, path: Path) -> Path:
        """Writes the .tar.gz file."""
        path.write_bytes(zipped(self.tar()))
        return path

    def unpack(self, folder: Path) -> Path:
        """The files in a folder; the top one."""
        for name, data in self.files.items():
            path = folder / self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder / self.top


def zipped(tar: bytes) -> bytes:
    """The bytes of a .tar.gz."""
    return gzip.compress(tar, 1, mtime=0)


def flipped(at: int, bit: int = 1) -> Callable[[bytes], bytes]:
    """A change of one bit; `at` counts from the end where it is negative."""

    def change(data: bytes) -> bytes:
        found = bytearray(data)
        found[at] ^= bit
        return bytes(found)

    return change
