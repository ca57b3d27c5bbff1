"""The files of a BM25 index: arrays that are checked before they are used, and mapped, not read.

A folder holds ``index.bin``, the arrays one after the other, and ``index.json``, which says what
the index is of, where each part lies in the other file, and its SHA-256. It has a checksum itself.
A part is the doc_ids, the terms, or one block of postings. To open an index is to map the file and
to check the doc_ids and terms. A block is checked when it is first searched, so that the time to
open does not grow with it, and no byte counts that was not checked.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import IntegrityError
from msshift_bench.plumbing import is_as_written, with_checksum, write_json
from msshift_bench.search.impacts import ImpactBlock
from msshift_bench.search.postings import Block
from msshift_bench.search.ranking import PassageIds

__all__ = ["StoredIndex", "StoredTerms", "write_index"]

_ARRAYS, _CONTENTS = "index.bin", "index.json"

_PIECE = 1 << 20
"""Bytes that are read at once to be checked; read, not mapped, so that they take no memory."""

_REMEMBERED = 1 << 16
"""Terms of queries whose numbers are remembered."""

_Arrays = Sequence[npt.NDArray[Any]]


def write_index(
    folder: Path,
    what: Mapping[str, object],
    ids: PassageIds,
    terms: Mapping[str, int],
    blocks: Iterable[ImpactBlock],
) -> None:
    """Write an index into an empty folder; one block at a time is in memory.

    Args:
        folder: the folder.
        what: what the index is of; JSON values, which `StoredIndex` compares.
        ids: the doc_ids.
        terms: term -> its number.
        blocks: the postings.

    Raises:
        OSError: if it cannot be written.
    """
    encoded = sorted((term.encode("utf-8", "surrogatepass"), terms[term]) for term in terms)
    ends = np.cumsum([len(term) for term, _ in encoded], dtype=np.int64)
    numbers = np.array([number for _, number in encoded], np.int32)
    text = np.frombuffer(b"".join(term for term, _ in encoded), np.uint8)
    del encoded
    parts: list[dict[str, object]] = []
    with (folder / _ARRAYS).open("wb") as file:
        # Items of many bytes come first in every part, so that all are aligned.
        _write_part(file, parts, (ids.sorted, ids.order, ids.ids))
        _write_part(file, parts, (ends, numbers, text))
        for block in blocks:
            postings = block.postings
            arrays = (block.starts, block.terms, postings.weights, postings.rows)
            _write_part(file, parts, arrays, size=postings.size)
        size = file.tell()
        os.fsync(file.fileno())
    write_json(folder / _CONTENTS, with_checksum({**what, "bytes": size, "parts": parts}))


def _write_part(file: Any, parts: list[dict[str, object]], arrays: _Arrays, **facts: int) -> None:
    begin = file.tell()
    digest = hashlib.sha256()
    for array in arrays:
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(stored.data.cast("B") if stored.size else b"")
        file.write(stored.data)
    length = file.tell() - begin
    file.write(bytes(-length % 8))
    shapes = [[array.dtype.newbyteorder("<").str, len(array)] for array in arrays]
    parts.append(
        {**facts, "begin": begin, "bytes": length, "sha256": digest.hexdigest(), "arrays": shapes}
    )


class StoredIndex:
    """An index that `write_index` wrote, opened.

    Args:
        folder: its folder.
        what: what it must be of.

    Attributes:
        ids: the doc_ids, mapped.
        terms: the terms, mapped.
        blocks: the postings; each block is checked when it is first looked at.

    Raises:
        IntegrityError: if it is another index, or was damaged after it was written.
    """

    def __init__(self, folder: Path, what: Mapping[str, object]) -> None:
        self._folder = folder
        parts = self._read_contents(what)
        self._descriptor = os.open(folder / _ARRAYS, os.O_RDONLY | os.O_CLOEXEC)
        # A private map may be written to, so that numba takes it for the same type as an array.
        self._map = mmap.mmap(self._descriptor, 0, mmap.MAP_PRIVATE)
        first, order, ids = self._arrays(parts[0])
        self.ids = PassageIds.stored(ids, first, order)
        self.terms = StoredTerms(*self._arrays(parts[1]))
        self.blocks = _Blocks(self, parts[2:])

    def __del__(self) -> None:
        descriptor = self.__dict__.get("_descriptor")
        if descriptor is not None:
            os.close(descriptor)

    def _read_contents(self, what: Mapping[str, object]) -> list[dict[str, Any]]:
        try:
            contents = json.loads((self._folder / _CONTENTS).read_bytes())
            size = (self._folder / _ARRAYS).stat().st_size
        except (OSError, ValueError) as error:
            raise self._damaged(f"its files cannot be read ({error})") from error
        if not isinstance(contents, dict) or "checksum" not in contents:
            raise self._damaged(f"{_CONTENTS} is not what was written")
        if not is_as_written(contents):
            raise self._damaged(f"{_CONTENTS} was changed")
        for name, value in what.items():
            if contents.get(name) != value:
                found = contents.get(name)
                raise self._damaged(f"{name} is {found!r}, and {value!r} was expected")
        if size != contents["bytes"]:
            raise self._damaged(f"{_ARRAYS} has {size:,} bytes instead of {contents['bytes']:,}")
        parts: list[dict[str, Any]] = contents["parts"]
        return parts

    def _damaged(self, what: str) -> IntegrityError:
        return IntegrityError(
            f"the BM25 index {self._folder} cannot be used: {what}; delete this folder, and the "
            "index is made again"
        )

    def _arrays(self, part: Mapping[str, Any]) -> list[npt.NDArray[Any]]:
        """Check a part, and return its arrays."""
        digest = hashlib.sha256()
        place, end = part["begin"], part["begin"] + part["bytes"]
        while place < end:
            piece = os.pread(self._descriptor, min(_PIECE, end - place), place)
            if not piece:
                break
            digest.update(piece)
            place += len(piece)
        if digest.hexdigest() != part["sha256"]:
            raise self._damaged(f"bytes {part['begin']:,} to {end:,} of {_ARRAYS} were changed")
        arrays = []
        place = part["begin"]
        for kind, count in part["arrays"]:
            array = np.frombuffer(self._map, kind, count, place)
            place += array.nbytes
            arrays.append(array)
        return arrays

    def block(self, part: Mapping[str, Any]) -> ImpactBlock:
        """Check and return a block."""
        starts, terms, weights, rows = self._arrays(part)
        return ImpactBlock(Block(part["size"], rows, weights), terms, starts)


class _Blocks(Sequence[ImpactBlock]):
    """The blocks of a stored index, each checked when it is first looked at."""

    def __init__(self, index: StoredIndex, parts: list[dict[str, Any]]) -> None:
        self._index = index
        self._parts = parts
        self._known: list[ImpactBlock | None] = [None] * len(parts)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, place: int) -> ImpactBlock: ...

    @overload
    def __getitem__(self, place: slice) -> list[ImpactBlock]: ...

    def __getitem__(self, place: int | slice) -> ImpactBlock | list[ImpactBlock]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        block = self._known[place]
        if block is None:
            with self._lock:
                block = self._known[place]
                if block is None:
                    block = self._known[place] = self._index.block(self._parts[place])
        return block


class StoredTerms(Mapping[str, int]):
    """Term -> its number, found by halving in the terms' bytes, which stay in their file.

    Args:
        ends: where each term ends in the text.
        numbers: the number of each term.
        text: the terms in UTF-8, in ascending order, one after the other.
    """

    def __init__(
        self, ends: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], text: npt.NDArray[Any]
    ) -> None:
        self._ends, self._numbers = ends, numbers
        self._text = text.data
        self._place = lru_cache(_REMEMBERED)(self._find)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        for place in range(len(self)):
            yield self._term(place).decode("utf-8", "surrogatepass")

    def __getitem__(self, term: str) -> int:
        place = self._place(term)
        if place is None:
            raise KeyError(term)
        return int(self._numbers[place])

    def _term(self, place: int) -> bytes:
        begin = self._ends[place - 1] if place else 0
        return self._text[begin : self._ends[place]].tobytes()

    def _find(self, term: str) -> int | None:
        sought = term.encode("utf-8", "surrogatepass")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._term(middle) < sought:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._term(low) == sought else None
