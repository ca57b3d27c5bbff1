"""Columns of ids, and finding documents in them by their hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from msshift_bench.arrays import Ints

__all__ = [
    "ODD_IDS",
    "SortedKeys",
    "digest_of_rankings",
    "flags",
    "hashes_of",
    "id_column",
    "odd_rows",
    "take",
]

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), "an integer turned into a decimal number"),
}
"""Code -> a sign that ids have passed through a table of numbers: a pattern, and words for the
message."""

Offsets = NDArray[np.int32]

_WORD = 8
_HASHED = 256
"""Bytes of an id that its hash takes: ids that begin alike are compared, as all of one hash are."""

_FEW_LINES = 64
"""With fewer lines per query one large sort takes less time than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


def id_column(ids: Sequence[bytes]) -> pa.BinaryArray:
    """Make a column of ids; `pa.array` first imports pandas, to see whether they are its own."""
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(ids))]
    return pa.Array.from_buffers(pa.binary(), len(ids), buffers)


def take(column: pa.BinaryArray, rows: Ints) -> pa.BinaryArray:
    """Return some rows of a column; Arrow's own method first checks whether `rows` is pandas'."""
    return column.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


def flags(column: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return a computed column of truth values; Arrow's `to_numpy` takes 0.2 s to import pandas."""
    bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    return np.unpackbits(bits, count=len(column), bitorder="little").view(np.bool_)


def odd_rows(ids: pa.BinaryArray, codes: Iterable[str] = ODD_IDS) -> dict[str, Ints]:
    """Return finding -> the rows of ids that show its sign, for some findings of `ODD_IDS`."""
    _, offset_buffer, data = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(ids) + 1, 4 * ids.offset)
    content = np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)  # to look at
    odd: dict[str, Ints] = {}
    for code in codes:
        pattern, _ = ODD_IDS[code]
        leading = code == "id-leading-zeros"
        at, sign = (offsets[:-1], b"0") if leading else (offsets[1:] - 2, b".")
        rows = np.flatnonzero(content.take(at, mode="clip") == ord(sign))
        is_odd = [pattern.fullmatch(ids[row].as_py()) is not None for row in rows.tolist()]
        odd[code] = rows[is_odd]
    return odd


def hashes_of(ids: pa.BinaryArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each id; ids of up to eight bytes without NUL never collide."""
    text, starts, lengths = _content(ids)
    # The eight bytes that begin at each byte of the text.
    words = np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))
    hashes = _scramble(words[starts] & _FIRST_BYTES.take(lengths, mode="clip"))
    for done in range(_WORD, _HASHED, _WORD):
        rows = np.flatnonzero(lengths > done)
        if not len(rows):
            break
        more = words[starts[rows] + done] & _FIRST_BYTES.take(lengths[rows] - done, mode="clip")
        hashes[rows] = _scramble(hashes[rows] ^ more)
    return hashes


def _content(ids: pa.BinaryArray) -> tuple[bytes, Offsets, Offsets]:
    """Return ids one after the other, with padding, the offset of each, and their lengths."""
    _, offset_buffer, data = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(ids) + 1, 4 * ids.offset)
    text = memoryview(data)[offsets[0] : offsets[-1]] if data else b""
    return b"".join((text, bytes(_WORD))), offsets[:-1] - offsets[0], np.diff(offsets)


class SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From its high bits to its low ones a number holds the query, as much of the document's hash as
    fits, and the row. Sorting numbers is several times faster than sorting rows by hash. As the
    hash is cut, two documents look the same now and then (twice among three million of one query),
    so the ids themselves are compared wherever it matters.

    Args:
        ids: the documents' ids.
        starts: index of each query's first document, shape ``[queries]``.
        owner: the query that each document belongs to, ascending, shape ``[documents]``.

    Attributes:
        hashes: the documents' hashes, shape ``[documents]``.
    """

    def __init__(self, ids: pa.BinaryArray, starts: Ints, owner: Ints) -> None:
        self._ids = ids
        self._row_bits = np.uint64(len(owner).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        self.hashes = hashes_of(ids)
        self._keys = self._cut(self.hashes, owner)
        self._keys |= np.arange(len(owner), dtype=np.uint64)
        if len(owner) < _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), None], strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: Ints) -> NDArray[np.uint64]:
        """The numbers without their rows."""
        keys = hashes >> (self._query_bits + self._row_bits)
        keys <<= self._row_bits
        high = queries.astype(np.uint64)
        high <<= np.uint64(64) - self._query_bits
        keys |= high
        return keys

    def with_repeats(self) -> list[int]:
        """The queries that have two documents of one key: only they may hold one twice."""
        without_rows = self._keys >> self._row_bits
        alike = self._keys[1:][without_rows[1:] == without_rows[:-1]]
        queries: list[int] = np.unique(alike >> (np.uint64(64) - self._query_bits)).tolist()
        return queries

    def find(self, docs: pa.BinaryArray, hashes: NDArray[np.uint64], queries: Ints) -> Ints:
        """Return the row of each document of a query, found by its hash; -1 if there is none."""
        wanted = self._cut(hashes, queries)
        places = np.searchsorted(self._keys, wanted)
        low_bits = self._keys[np.minimum(places, len(self._keys) - 1)] ^ wanted
        likely = low_bits >> self._row_bits == 0
        rows = np.where(likely, low_bits.astype(np.int64), -1)
        at = np.flatnonzero(likely)
        is_same = flags(pc.equal(take(self._ids, rows[at]), take(docs, at)))
        for index in at[~is_same].tolist():
            alike = self._keys[(self._keys ^ wanted[index]) >> self._row_bits == 0] ^ wanted[index]
            same = [row for row in alike.tolist() if self._ids[row] == docs[index]]
            rows[index] = same[0] if same else -1
        return rows


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed


def digest_of_rankings(
    queries: pa.BinaryArray, starts: Ints, hashes: NDArray[np.uint64], places: Ints
) -> int:
    """Return a number that stands for queries with their rankings.

    The order of queries does not change it: those of several blocks are added, modulo 2**64.

    Args:
        queries: the id of each query.
        starts: index of each query's first document, shape ``[queries]``.
        hashes: the documents' hashes, shape ``[documents]``.
        places: the place of each document in its ranking, shape ``[documents]``.
    """
    placed = hashes * (places + 1).astype(np.uint64)
    rankings = _scramble(np.add.reduceat(placed, starts) ^ hashes_of(queries))
    return int(rankings.sum())
