"""Cutting the text of a run into blocks of whole queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from msshift_bench.plumbing import MAX_LINE_BYTES, UTF8_BOM, slices

__all__ = [
    "SCANNED_BYTES",
    "NotTextError",
    "QueryBlock",
    "count_lines",
    "scanned",
    "whole_query_blocks",
]

BLOCK_BYTES = 2 << 20
"""Bytes of text per block; a block grows only if one query needs more."""

SCANNED_BYTES = 1 << 16
"""Bytes of text looked at together; new memory for all of a block costs more than to look at it."""

_NEWLINE = 0x0A


class NotTextError(Exception):
    """From line `line` on the input is no text; readers turn this into a finding."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Consecutive lines of one file that hold whole queries, unless queries are interleaved.

    Attributes:
        first_line: number of the first line, from 1.
        parts: the lines, in pieces of complete lines, each ending in a newline; more than one
            only where one query is longer than a block.
        lines: number of lines.
    """

    first_line: int
    parts: tuple[bytes, ...]
    lines: int

    @property
    def text(self) -> bytes:
        """All lines."""
        return b"".join(self.parts)

    @classmethod
    def of(cls, first_line: int, parts: Sequence[bytes]) -> QueryBlock:
        """Make a block of complete lines."""
        if len(parts) > 1 and sum(map(len, parts)) <= 2 * BLOCK_BYTES:
            parts = (b"".join(parts),)
        return cls(first_line, tuple(parts), sum(map(count_lines, parts)))


def count_lines(text: bytes) -> int:
    """Return how many lines end in `text`; NumPy counts them faster than `bytes.count`."""
    found = np.empty(SCANNED_BYTES, np.bool_)
    total = 0
    for part in scanned(text):
        total += int(np.count_nonzero(np.equal(part, _NEWLINE, out=found[: len(part)])))
    return total


def scanned(text: bytes) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of `text` in pieces, so that what is computed of one stays in the cache."""
    whole = np.frombuffer(text, np.uint8)
    return (whole[piece] for piece in slices(len(whole), SCANNED_BYTES))


def whole_query_blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[QueryBlock]:
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
        # A short chunk is the last one: its last query ends with it.
        cut = _start_of_last_query(chunk) if len(chunk) >= block_bytes else 0
        if cut:
            block = QueryBlock.of(first_line, [*parts, b"".join((tail, memoryview(chunk)[:cut]))])
            first_line += block.lines
            yield block
            parts, tail, chunk = [], b"", chunk[cut:]
        end = chunk.rfind(b"\n") + 1
        if end:
            parts.append(b"".join((tail, memoryview(chunk)[:end])))
            tail = b""
        tail += chunk[end:]
        if len(tail) > MAX_LINE_BYTES:
            raise NotTextError(first_line + sum(map(count_lines, parts)))
        chunk = stream.read(block_bytes)
    parts.append(tail)
    while parts and not (last := parts.pop().rstrip()):
        pass
    if last:
        yield QueryBlock.of(first_line, [*parts, last + b"\n"])


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
