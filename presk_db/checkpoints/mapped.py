"""MappedFile: one regular file, memory-mapped for reading, named in errors as the user typed it."""

import hashlib
import mmap
import os
import stat
from collections.abc import Sequence
from typing import Any

import numpy as np

from presk_db.checkpoints.source import Array
from presk_db.errors import CheckpointUnreadable

PathLike = str | os.PathLike[str]


class MappedFile:
    """A regular file's bytes: `shown` is the path as typed, `size` its length, `data` a read-only uint8 array."""

    def __init__(self, path: PathLike) -> None:
        """Maps the file. Errors: CheckpointUnreadable (E1101) if it is missing, not permitted, or no regular file."""
        self.shown = os.fspath(path)
        try:
            # Without O_NONBLOCK the open of a named pipe would wait for a writer.
            descriptor = os.open(self.shown, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            raise CheckpointUnreadable(f"cannot be opened: {reason(error)}", self.shown) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointUnreadable("is not a regular file", self.shown)
            self.size = status.st_size
            self.data: Array = np.zeros(0, dtype=np.uint8)
            if self.size > 0:  # an empty file cannot be mapped
                content = mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ)
                self.data = np.frombuffer(content, dtype=np.uint8)
        except (OSError, ValueError) as error:
            raise CheckpointUnreadable(f"cannot be read: {reason(error)}", self.shown) from error
        finally:
            os.close(descriptor)

    def values(self, offset: int, count: int, dtype: np.dtype[Any]) -> Array:
        """`count` elements of `dtype` from byte `offset`: a view of the file, or a copy where it is not aligned.

        Requires 0 <= offset and offset + count * dtype.itemsize <= size.
        """
        view = self.data[offset : offset + count * dtype.itemsize].view(dtype)
        return view if view.flags.aligned else view.copy()

    def content(self) -> bytes:
        """The whole file as bytes: for small files only."""
        return self.data.tobytes()

    def digest(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        state = hashlib.sha256()
        piece = 1 << 24
        for start in range(0, self.size, piece):
            state.update(self.data[start : start + piece].data)
        return state.hexdigest()


def digest_of_files(files: Sequence[tuple[str, MappedFile]]) -> str:
    """The SHA-256 of one file's content; of several, of the lines `<digest>  <name>` in the order of the names."""
    if len(files) == 1:
        return files[0][1].digest()
    lines = [f"{file.digest()}  {name}\n" for name, file in sorted(files, key=lambda pair: pair[0])]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def reason(error: Exception) -> str:
    """What went wrong, in words, without the path that the place already shows."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
