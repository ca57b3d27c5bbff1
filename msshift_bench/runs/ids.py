"""Columns of ids, and finding documents in them by their hashes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.arrays import Ints

__all__ = ["ODD_IDS", "IdColumn", "SortedKeys"]

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), "an integer turned into a decimal number"),
}
"""Code -> a sign that ids have passed through a table of numbers: a pattern, and words for the
message."""

Offsets = NDArray[np.int64] | NDArray[np.int32]

_WORD = 8
_HASHED = 256
"""Bytes of an id that its hash takes: ids that begin alike are compared, as all of one hash are."""

_FEW_LINES = 64
"""With fewer lines per query one large sort takes less time than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


@dataclass(frozen=True, slots=True)
class IdColumn:
    """A column of ids, as bytes and numbers.

    Attributes:
        text: all ids one after the other, and eight bytes of padding.
        starts: the offset of each id, shape ``[ids]``.
        lengths: bytes of each id, shape ``[ids]``.
    """

    text: bytes
    starts: Offsets
    lengths: Offsets

    @classmethod
    def of(cls, column: pa.BinaryArray) -> IdColumn:
        """Return the ids of a column without nulls."""
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, 4 * column.offset)
        text = memoryview(data)[offsets[0] : offsets[-1]] if data else b""
        starts = offsets[:-1] - offsets[0]
        return cls(b"".join((text, bytes(_WORD))), starts, np.diff(offsets))

    @classmethod
    def join(cls, ids: Sequence[bytes]) -> IdColumn:
        """Make a column of UTF-8 ids."""
        lengths = np.array([len(name) for name in ids], dtype=np.int64)
        return cls(b"".join((*ids, bytes(_WORD))), np.cumsum(lengths) - lengths, lengths)

    def hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each id; ids of up to eight bytes without NUL never collide."""
        words = self._words()
        hashes = _scramble(self._firsts(words))
        for done in range(_WORD, _HASHED, _WORD):
            rows = np.flatnonzero(self.lengths > done)
            if not len(rows):
                break
            left = np.minimum(self.lengths[rows] - done, _WORD)
            more = words[self.starts[rows] + done] & _FIRST_BYTES[left]
            hashes[rows] = _scramble(hashes[rows] ^ more)
        return hashes

    def _words(self) -> NDArray[np.uint64]:
        """Return the eight bytes that begin at each byte of the text."""
        return np.ndarray(len(self.text) - _WORD + 1, "<u8", self.text, strides=(1,))

    def _firsts(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return each id's first eight bytes, with zeros behind a shorter id."""
        firsts: NDArray[np.uint64] = words[self.starts]
        firsts &= _FIRST_BYTES.take(self.lengths, mode="clip")
        return firsts

    def equals(self, other: IdColumn) -> NDArray[np.bool_]:
        """Say of each id whether it is that of the other column in the same row."""
        same: NDArray[np.bool_] = self.lengths == other.lengths
        same &= self._firsts(self._words()) == other._firsts(other._words())
        for row in np.flatnonzero(same & (self.lengths > _WORD)).tolist():
            same[row] = self[row] == other[row]
        return same

    def __getitem__(self, row: int) -> bytes:
        start = self.starts[row]
        return self.text[start : start + self.lengths[row]]

    def take(self, rows: Offsets | Sequence[int]) -> IdColumn:
        """The ids of some rows; the text is shared."""
        return IdColumn(self.text, self.starts[rows], self.lengths[rows])

    def odd(self, code: str) -> Ints:
        """Return the rows of ids, none of them empty, that show the sign of the finding `code`."""
        text = np.frombuffer(self.text, np.uint8)
        if code == "id-leading-zeros":
            near = (text[self.starts] == ord("0")) & (self.lengths > 1)
        elif b".0" in self.text:
            near = text[self.starts + np.maximum(self.lengths - 2, 0)] == ord(".")
        else:
            near = np.zeros(len(self.lengths), np.bool_)
        pattern, _ = ODD_IDS[code]
        rows = [row for row in np.flatnonzero(near).tolist() if pattern.fullmatch(self[row])]
        return np.array(rows, np.int64)


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
    """

    def __init__(self, ids: IdColumn, starts: Ints, owner: Ints) -> None:
        self._ids = ids
        self._row_bits = np.uint64(len(owner).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        self._keys = self._cut(ids.hashes(), owner)
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

    def find(self, docs: IdColumn, hashes: NDArray[np.uint64], queries: Ints) -> Ints:
        """Return the row of each document of a query, found by its hash; -1 if there is none."""
        wanted = self._cut(hashes, queries)
        places = np.searchsorted(self._keys, wanted)
        low_bits = self._keys[np.minimum(places, len(self._keys) - 1)] ^ wanted
        likely = low_bits >> self._row_bits == 0
        rows = np.where(likely, low_bits.astype(np.int64), -1)
        at = np.flatnonzero(likely)
        for index in at[~self._ids.take(rows[at]).equals(docs.take(at))].tolist():
            rows[index] = self._look_on(int(places[index]), wanted[index], docs[index])
        return rows

    def _look_on(self, place: int, wanted: np.uint64, doc: bytes) -> int:
        """Return the row of a document among those after `place` with the same key, or -1."""
        for key in self._keys[place + 1 :]:
            low_bits = int(key ^ wanted)
            if low_bits >> int(self._row_bits):
                break
            if self._ids[low_bits] == doc:
                return low_bits
        return -1


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed
