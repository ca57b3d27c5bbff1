"""Opening text files, compressed or not, and noticing that one changes while it is read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.plumbing.compression import decompressed

__all__ = ["MAX_LINE_BYTES", "UTF8_BOM", "FileState", "open_stream"]

MAX_LINE_BYTES = 1 << 20
"""The longest line of a run or of qrels; a file with a longer one is no text."""

UTF8_BOM = b"\xef\xbb\xbf"


class FileState(NamedTuple):
    """A file's state; it changes if the file is written to, or replaced.

    Attributes:
        inode: the file's inode.
        size: bytes.
        modified_ns: the time of the last write, in nanoseconds since 1970.
    """

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: str | PathLike[str]) -> FileState | None:
        """Return the state of a regular file; `None` if there is no such file."""
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def open_stream(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed; its first bytes decide how.

    A pipe is read as it comes, and only once.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if it is a folder.
        DamagedInputError: in the body, when compressed bytes cannot be read to their end.
    """
    path = Path(path)
    if not path.exists():
        raise NotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file")
    with path.open("rb") as file:
        yield decompressed(file)
