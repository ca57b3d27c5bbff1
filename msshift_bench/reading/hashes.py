"""Looking for documents in columns of ids by their hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.reading.judge import ODD_IDS

__all__ = ["Ids", "SortedKeys"]

_WORD = 8
_FEW_LINES = 64
"""Below so many lines per query one large sort takes less time than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


class SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From its high bits to its low ones a number holds the query, as much of the document's hash as
    there is room for, and the row. Sorting numbers is several times faster than sorting rows by
    hash; what is lost of a hash only makes false candidates more likely, and those are looked at
    again.
    """

    def __init__(
        self, hashes: NDArray[np.uint64], starts: NDArray[np.int64], lines: NDArray[np.int64]
    ) -> None:
        self._row_bits = np.uint64(len(hashes).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        queries = np.repeat(np.arange(len(starts)), lines)
        self._keys = self._cut(hashes, queries) | np.arange(len(hashes), dtype=np.uint64)
        if len(hashes) < _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), (starts + lines).tolist(), strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The numbers without their rows."""
        high = queries.astype(np.uint64) << (np.uint64(64) - self._query_bits)
        low = hashes >> (self._query_bits + self._row_bits) << self._row_bits
        return high | low

    @property
    def repeat(self) -> bool:
        """Whether two documents of a query have the same hash, as equal ones do."""
        without_rows = self._keys >> self._row_bits
        return bool((without_rows[1:] == without_rows[:-1]).any())

    def find(self, hashes: NDArray[np.uint64], queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row that may hold each document of a query; -1 where surely none does."""
        wanted = self._cut(hashes, queries)
        at = np.searchsorted(self._keys, wanted)
        rows = self._keys[np.minimum(at, len(self._keys) - 1)] ^ wanted
        return np.where(rows >> self._row_bits == 0, rows.astype(np.int64), -1)


class Ids(NamedTuple):
    """A column of ids as bytes and numbers.

    Attributes:
        text: all ids one after the other, and eight bytes of padding.
        starts: where each id begins, shape ``[ids]``.
        lengths: bytes of each id, shape ``[ids]``.
    """

    text: bytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.BinaryArray) -> Ids:
        """Take apart a column without nulls."""
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, 4 * column.offset)
        text = bytes(memoryview(data)[offsets[0] : offsets[-1]]) if data else b""
        starts = (offsets[:-1] - offsets[0]).astype(np.int64)
        return cls(text + bytes(_WORD), starts, np.diff(offsets).astype(np.int64))

    @classmethod
    def join(cls, ids: Sequence[bytes]) -> Ids:
        """Make a column of UTF-8 ids."""
        lengths = np.array([len(name) for name in ids], dtype=np.int64)
        return cls(b"".join((*ids, bytes(_WORD))), np.cumsum(lengths) - lengths, lengths)

    def hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each id; ids of up to eight bytes without NUL never collide."""
        words: NDArray[np.uint64] = np.ndarray(
            len(self.text) - _WORD + 1, "<u8", self.text, strides=(1,)
        )
        hashes = _scramble(words[self.starts] & _FIRST_BYTES[np.minimum(self.lengths, _WORD)])
        rows = np.flatnonzero(self.lengths > _WORD)
        done = _WORD
        while len(rows):
            left = np.minimum(self.lengths[rows] - done, _WORD)
            more = words[self.starts[rows] + done] & _FIRST_BYTES[left]
            hashes[rows] = _scramble(hashes[rows] ^ more)
            done += _WORD
            rows = rows[self.lengths[rows] > done]
        return hashes

    def hold(self, code: str) -> bool:
        """Whether one of the ids looks as the finding `code` says."""
        text = np.frombuffer(self.text, np.uint8)
        if code == "id-leading-zeros":
            candidates = (text[self.starts] == ord("0")) & (self.lengths > 1)
        elif b"." not in self.text:
            return False
        else:
            before_last = self.starts + np.maximum(self.lengths - 2, 0)
            candidates = text[before_last] == ord(".")
        pattern = ODD_IDS[code][0]
        for row in np.flatnonzero(candidates).tolist():
            start = self.starts[row]
            if pattern.fullmatch(self.text, start, start + self.lengths[row]):
                return True
        return False


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed
