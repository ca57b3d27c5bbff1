"""Columns of ids, and looking for queries and documents in them by their hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["ODD_IDS", "IdColumn", "SeenHashes", "SortedKeys"]

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), b"\n0", "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), b".0\n", "an integer turned into a decimal number"),
}
"""Code -> a sign that ids have passed through a table of numbers: a pattern, bytes that a list of
ids holds if one may match, and words for the message."""

Offsets = NDArray[np.int64] | NDArray[np.int32]

_WORD = 8
_LONG = 256
"""Ids of more bytes are digested one by one instead of word by word with the others."""

_FEW_LINES = 64
"""With fewer lines per query one large sort takes less time than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


class SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From its high bits to its low ones a number holds the query, as much of the document's hash as
    fits, and the row. Sorting numbers is several times faster than sorting rows by hash. As the
    hash is cut, two documents look the same now and then (twice among three million of one query),
    so the ids themselves are compared wherever it matters.

    Args:
        ids: the documents' ids.
        starts: index of each query's first document, shape ``[queries]``.
        lines: how many documents each query has, shape ``[queries]``.
    """

    def __init__(self, ids: IdColumn, starts: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
        hashes = ids.hashes()
        self._ids = ids
        self._row_bits = np.uint64(len(hashes).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        queries = np.repeat(np.arange(len(starts), dtype=np.int32), lines)
        self._keys = self._cut(hashes, queries)
        self._keys |= np.arange(len(hashes), dtype=np.uint64)
        if len(hashes) < _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), (starts + lines).tolist(), strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: Offsets) -> NDArray[np.uint64]:
        """The numbers without their rows."""
        keys = hashes >> (self._query_bits + self._row_bits)
        keys <<= self._row_bits
        high = queries.astype(np.uint64)
        high <<= np.uint64(64) - self._query_bits
        keys |= high
        return keys

    @property
    def repeat(self) -> bool:
        """Whether two documents of a query are the same."""
        without_rows = self._keys >> self._row_bits
        alike = np.flatnonzero(without_rows[1:] == without_rows[:-1])
        previous, seen = -1, set()
        for at in alike.tolist():
            if at != previous:
                seen = {self._ids[self._row(at)]}
            doc = self._ids[self._row(at + 1)]
            if doc in seen:
                return True
            seen.add(doc)
            previous = at + 1
        return False

    def _row(self, at: int) -> int:
        return int(self._keys[at] & ((np.uint64(1) << self._row_bits) - np.uint64(1)))

    def find(
        self, docs: IdColumn, hashes: NDArray[np.uint64], queries: Offsets
    ) -> NDArray[np.int64]:
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
        for at in range(place + 1, len(self._keys)):
            if (self._keys[at] ^ wanted) >> self._row_bits:
                break
            if self._ids[self._row(at)] == doc:
                return self._row(at)
        return -1


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
        rows = np.flatnonzero(self.lengths > _LONG)
        hashes[rows] = [_digest(self[row]) for row in rows.tolist()]
        rows = np.flatnonzero((self.lengths > _WORD) & (self.lengths <= _LONG))
        done = _WORD
        while len(rows):
            left = np.minimum(self.lengths[rows] - done, _WORD)
            more = words[self.starts[rows] + done] & _FIRST_BYTES[left]
            hashes[rows] = _scramble(hashes[rows] ^ more)
            done += _WORD
            rows = rows[self.lengths[rows] > done]
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

    def odd(self, code: str) -> Iterator[int]:
        """Yield the rows of ids that show the sign of the finding `code`."""
        text = np.frombuffer(self.text, np.uint8)
        if code == "id-leading-zeros":
            candidates = (text[self.starts] == ord("0")) & (self.lengths > 1)
        elif b"." not in self.text:
            return
        else:
            before_last = self.starts + np.maximum(self.lengths - 2, 0)
            candidates = text[before_last] == ord(".")
        pattern = ODD_IDS[code][0]
        for row in np.flatnonzero(candidates).tolist():
            start = self.starts[row]
            if pattern.fullmatch(self.text, start, start + self.lengths[row]):
                yield row


class SeenHashes:
    """A growing set of 64-bit hashes, in sorted arrays of ever smaller size.

    A hash takes eight bytes, while a set of byte strings takes a hundred and more for each. Equal
    hashes of different ids look like a repeat; this costs only time, because callers then compare
    the ids.
    """

    def __init__(self) -> None:
        self._sorted: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> bool:
        """Add hashes; say whether all of them are new and different."""
        new = np.sort(hashes)
        if (new[1:] == new[:-1]).any():
            return False
        for old in self._sorted:
            at = np.minimum(np.searchsorted(old, new), len(old) - 1)
            if (old[at] == new).any():
                return False
        if len(new):
            self._sorted.append(new)
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            merged = np.concatenate((self._sorted.pop(), self._sorted.pop()))
            merged.sort(kind="stable")
            self._sorted.append(merged)
        return True


def _digest(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=_WORD).digest(), "little")


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed
