"""Cutting the text of a run into blocks of whole queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from msshift_bench.plumbing import MAX_LINE_BYTES, UTF8_BOM

__all__ = ["NotTextError", "QueryBlock", "line_at", "whole_query_blocks"]

BLOCK_BYTES = 2 << 20
"""Bytes of text per block; a block grows only if one query needs more."""


class NotTextError(Exception):
    """After `offset` bytes the input is no text; readers turn this into a finding."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Consecutive lines of one file that hold whole queries, unless queries are interleaved.

    Attributes:
        parts: the lines, in pieces of complete lines, each ending in a newline; more than one
            only where one query is longer than a block.
    """

    parts: tuple[bytes, ...]

    @property
    def text(self) -> bytes:
        """All lines."""
        return b"".join(self.parts)

    @property
    def lines(self) -> int:
        """The number of lines, which takes a look at every byte."""
        return sum(part.count(b"\n") for part in self.parts)

    @classmethod
    def of(cls, parts: Sequence[bytes]) -> QueryBlock:
        """Make a block of complete lines."""
        if len(parts) > 1 and sum(map(len, parts)) <= 2 * BLOCK_BYTES:
            parts = (b"".join(parts),)
        return cls(tuple(parts))


def whole_query_blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[QueryBlock]:
    """Cut a text run into blocks of lines such that no query lies in two neighbouring blocks.

    A byte order mark and blank lines at the end are left out; a missing last newline is added.

    Args:
        stream: the decompressed run, from its beginning.
        block_bytes: how much to read at a time.

    Raises:
        NotTextError: if a line holds a NUL byte or is longer than a mebibyte.
    """
    parts: list[bytes] = []
    tail, read = b"", 0
    for chunk in _chunks(stream, block_bytes):
        nul = chunk.find(b"\0")
        if nul >= 0:
            raise NotTextError(read + nul)
        long = _long_line(chunk, len(tail) - (tail.rfind(b"\n") + 1))
        if long >= 0:
            raise NotTextError(read + long)
        read += len(chunk)
        # A short chunk is the last one: its last query ends with it.
        cut = _start_of_last_query(chunk) if len(chunk) >= block_bytes else 0
        end = cut or chunk.rfind(b"\n") + 1
        if end == len(chunk) and not tail:
            parts.append(chunk)
        elif end:
            parts.append(b"".join((tail, memoryview(chunk)[:end])))
            tail = chunk[end:]
        else:
            tail += chunk
        if cut:
            yield QueryBlock.of(parts)
            parts = []
    if tail or not (parts and _ends_with_a_line(parts[-1])):
        parts.append(tail)
        while parts and not (last := parts.pop().rstrip()):
            pass
        parts += [last + b"\n"] if last else []
    if parts:
        yield QueryBlock.of(parts)


def line_at(stream: BinaryIO, offset: int) -> int:
    """Return the number of the line, from 1, that an offset of a `NotTextError` lies in.

    Args:
        stream: the decompressed run, from its beginning.
        offset: the offset.
    """
    line = 1
    for chunk in _chunks(stream, BLOCK_BYTES):
        line += chunk.count(b"\n", 0, max(offset, 0))
        offset -= len(chunk)
        if offset <= 0:
            break
    return line


def _chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield what a stream holds after its byte order mark."""
    first = stream.read(max(size, len(UTF8_BOM)))
    chunk = first.removeprefix(UTF8_BOM) or stream.read(size)
    while chunk:
        yield chunk
        chunk = stream.read(size)


def _long_line(text: bytes, before: int) -> int:
    """Return the offset of a line of more than a mebibyte; -1 if there is none.

    Args:
        text: some text, which may begin and end within a line.
        before: bytes of its first line that came before it.
    """
    end = text.find(b"\n")
    if before + (end if end >= 0 else len(text)) > MAX_LINE_BYTES:
        return 0
    # Such a line holds a whole half of a mebibyte, which is looked at only to its first line end.
    half = MAX_LINE_BYTES // 2
    for at in range(0, len(text), half):
        if text.find(b"\n", at, at + half) < 0:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            if (end if end >= 0 else len(text)) - start > MAX_LINE_BYTES:
                return start
    return -1


def _ends_with_a_line(text: bytes) -> bool:
    """Whether a text ends with a newline after something else than white space."""
    return text.endswith(b"\n") and len(text) > 1 and not text[-2:-1].isspace()


def _start_of_last_query(text: bytes) -> int:
    """Return the offset of the first line of the last complete line's query.

    It bisects the lines that begin in `text`; `text` may begin within a line. If the queries are
    interleaved, it returns the offset of some line of that query that follows a line of another. If
    all lines belong to one query, or there is no line, it returns 0.
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
    """Return the first field of the line at `start`, or of the first line after it with text."""
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        if fields := text[start:end].split(None, 1):
            return fields[0]
        start = end
    return b""
