"""Opening run files: compression, standard input, digests, and blocks of whole queries."""

from __future__ import annotations

import hashlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.reading.compression import DamagedInputError, decompressed

__all__ = [
    "MAX_LINE_BYTES",
    "UTF8_BOM",
    "Block",
    "DamagedInputError",
    "FileState",
    "NotTextError",
    "RunFile",
    "count_lines",
    "is_parquet",
    "open_run_files",
    "open_stream",
    "sha256_of_files",
    "whole_query_blocks",
]

BLOCK_BYTES = 2 << 20
"""How much text is worked on at a time; a block grows only where one query needs more."""

MAX_LINE_BYTES = 1 << 20
"""No line of a run or of qrels is longer: what is, is no text."""

_NEWLINE = 0x0A
UTF8_BOM = b"\xef\xbb\xbf"


class NotTextError(Exception):
    """The input holds no lines of text from line `line` on; readers turn this into a finding."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class FileState(NamedTuple):
    """What shows that a file was written to, or replaced, while it was read.

    Attributes:
        inode: which file it is.
        size: in bytes.
        modified_ns: when it was written to, in nanoseconds since 1970.
    """

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: str | PathLike[str]) -> FileState | None:
        """The state of a regular file; `None` for whatever else is there, or for nothing."""
        try:
            found = Path(path).stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file of a run.

    Attributes:
        name: what its user knows it by.
        path: where it can be read, more than once.
        lasting: whether it can still be read there after the run has been.
        state: of the file when it was first opened.
    """

    name: str
    path: Path
    lasting: bool
    state: FileState | None

    @property
    def has_changed(self) -> bool:
        """Whether the file was written to, replaced or removed since it was first opened."""
        return FileState.of(self.path) != self.state


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of one file that hold whole queries, unless queries are interleaved.

    Attributes:
        first_line: number of the first line, from 1.
        parts: the lines, in pieces of complete lines, each ending in a newline; more than one
            only where one query is longer than a block.
        lines: how many they are.
    """

    first_line: int
    parts: tuple[bytes, ...]
    lines: int

    @property
    def text(self) -> bytes:
        """All lines."""
        return b"".join(self.parts)

    @classmethod
    def of(cls, first_line: int, parts: Sequence[bytes]) -> Block:
        """Make a block of complete lines."""
        if len(parts) > 1 and sum(map(len, parts)) <= 2 * BLOCK_BYTES:
            parts = (b"".join(parts),)
        return cls(first_line, tuple(parts), sum(map(count_lines, parts)))


def count_lines(text: bytes) -> int:
    """How many lines end in `text`. NumPy counts them faster than `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _NEWLINE))


@contextmanager
def open_run_files(sources: Sequence[str | PathLike[str]]) -> Iterator[list[RunFile]]:
    """Make every source readable more than once; ``"-"`` is standard input.

    Standard input and other pipes are copied to a temporary folder for as long as the context
    lasts, because a run whose queries turn out to be interleaved is read twice.

    Raises:
        NotFoundError: if there is no such file, or standard input is closed.
        UsageError: if a path is a folder.
    """
    with ExitStack() as stack:
        files = []
        for number, source in enumerate(sources):
            path = Path(source)
            if str(source) == "-":
                if sys.stdin is None:
                    raise NotFoundError("stdin is closed, and a run was to be read from it")
                stream = sys.stdin.buffer
            elif path.is_dir():
                raise UsageError(f"{source} is a folder; a run is a file")
            elif not path.exists():
                raise NotFoundError(f"there is no file {source}")
            elif path.is_file():
                files.append(RunFile(str(source), path, True, FileState.of(path)))
                continue
            else:
                stream = stack.enter_context(path.open("rb"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="msshift-"))
            copy = Path(folder) / str(number)
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            name = "<stdin>" if str(source) == "-" else str(source)
            files.append(RunFile(name, copy, False, FileState.of(copy)))
        yield files


def sha256_of_files(files: Sequence[RunFile]) -> str:
    """Digest of the files' bytes as they are stored, one file after the other.

    For a single file this is what ``sha256sum`` prints.
    """
    digest = hashlib.sha256()
    for run_file in files:
        with _named(run_file.path), run_file.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet files do."""
    with _named(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error of reading say what was read, as one of opening does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


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


def whole_query_blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Cut a text run into blocks of lines such that no query lies in two neighbouring blocks.

    A byte order mark and blank lines at the end are left out; a missing last newline is added.

    Args:
        stream: the decompressed run, from its beginning.
        block_bytes: how much to read at a time.

    Raises:
        NotTextError: if a line holds a NUL byte or is longer than a mebibyte.
    """
    first_line, tail = 1, b""
    parts: list[bytes] = []
    chunk = stream.read(len(UTF8_BOM)).removeprefix(UTF8_BOM) + stream.read(block_bytes)
    while chunk:
        nul = chunk.find(b"\0")
        if nul >= 0:
            raise NotTextError(first_line + sum(map(count_lines, [*parts, chunk[:nul]])))
        cut = _start_of_last_query(chunk)
        if cut:
            block = Block.of(first_line, [*parts, tail + chunk[:cut]])
            first_line += block.lines
            yield block
            parts, tail, chunk = [], b"", chunk[cut:]
        end = chunk.rfind(b"\n") + 1
        if end:
            parts.append(tail + chunk[:end])
            tail = b""
        tail += chunk[end:]
        if len(tail) > MAX_LINE_BYTES:
            raise NotTextError(first_line + sum(map(count_lines, parts)))
        chunk = stream.read(block_bytes)
    parts.append(tail)
    while parts and not (last := parts.pop().rstrip()):
        pass
    if last:
        yield Block.of(first_line, [*parts, last + b"\n"])


def _start_of_last_query(text: bytes) -> int:
    """Offset of the first line of the query that the last complete line belongs to.

    Found by bisection among the lines that begin in `text`, of which the first need not do so at
    its beginning. If the queries are interleaved, it is the offset of some line of that query
    which follows a line of another. If all lines belong to one query, or there is none: 0.
    """
    low, high, query = text.find(b"\n") + 1, len(text), b""
    while low < high and not query:
        high = text.rfind(b"\n", 0, text.rfind(b"\n", 0, high)) + 1
        query = _query_at(text, high)
    if low >= high or _query_at(text, low) == query:
        return 0
    while True:
        middle = (low + high) // 2
        line = text.find(b"\n", middle, high - 1) + 1 or text.rfind(b"\n", low, middle) + 1
        if line <= low:
            return high
        if _query_at(text, line) == query:
            high = line
        else:
            low = line


def _query_at(text: bytes, start: int) -> bytes:
    """The first field of the line at `start`, or of the first one after it that is not blank."""
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        if fields := text[start:end].split(None, 1):
            return fields[0]
        start = end
    return b""
