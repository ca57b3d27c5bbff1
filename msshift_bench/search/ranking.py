"""Rankings in the order that all systems share: by score, then doc_id, both descending.

A passage and its score are one integer: the bits of the score above the place of its doc_id. To
compare two integers is the whole rule for ties, so that no library's top-k decides a ranking, and
neither do blocks, threads or the order of the passages. `TopK` is the one accumulator: scores go in
block by block, from a matrix (`TopK.add`), vectors (`TopK.add_vectors`) or an inverted index
(`TopK.add_products`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.errors import check_installed, require
from msshift_bench.plumbing import in_parallel, slices

Ranking = dict[str, float]
"""doc_id -> score, best first; equal scores by doc_id, descending."""

BATCH = 128
"""Queries that one thread searches together."""

COMPILE_FROM = 20_000
"""Passages from which on inverted indexes are searched by compiled code. To compile takes seconds
once on a machine, and half a second in each process, in which numpy searches a smaller collection.
"""

_NEEDS = f"searching {COMPILE_FROM:,} passages or more"

_WINDOW = 1 << 16
"""Passages whose scores are added up together: 256 KB, which stay in a processor's cache."""

_CHUNK = 64
"""Scores that are compared with the lowest at once; a processor does so in a few instructions."""

_SPARSE = 4
"""If fewer than one of so many passages of a window hold a term, only these are looked at."""

_QUERIES, _PASSAGES = 1_024, 4_096
"""Queries and passages of a matrix product of one thread: the scores take 16 MB."""

_NONE = np.iinfo(np.int64).min
"""Below every packed passage."""


class PassageIds:
    """The doc_ids of a collection by row, and their place in the order that breaks ties.

    Args:
        doc_ids: the ids, in the collection's order.
        ascending: the rows in ascending order of their doc_ids, if that is known.

    Attributes:
        ids: the doc_ids by row.
        sorted: the rows in ascending order of their doc_ids.
        order: the place of each row in that order.
    """

    def __init__(
        self, doc_ids: Sequence[str] | npt.NDArray[np.str_], ascending: Ints | None = None
    ) -> None:
        self.ids: npt.NDArray[Any] = np.asarray(doc_ids, dtype=np.str_)
        self.sorted: Ints = np.argsort(self.ids) if ascending is None else ascending
        self.order = np.empty_like(self.sorted)
        self.order[self.sorted] = np.arange(len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, doc_ids: Sequence[str]) -> list[int | None]:
        """Return the row of each doc_id, `None` for those that are not in the collection."""
        if not len(doc_ids):
            return []
        places = np.searchsorted(self.ids, np.array(doc_ids, dtype=np.str_), sorter=self.sorted)
        rows = self.sorted[np.minimum(places, len(self) - 1)]
        return [
            int(row) if self.ids[row] == doc_id else None
            for row, doc_id in zip(rows, doc_ids, strict=True)
        ]

    def held(self, doc_ids: Sequence[str]) -> list[str]:
        """Return those of some doc_ids that are in the collection, in their order."""
        rows = self.rows(doc_ids)
        return [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row is not None]


def pack(scores: Vectors, places: Ints) -> Ints:
    """Turn scores, and the places of passages in `PassageIds.order`, into integers that sort alike.

    The bits of a negative number grow as it shrinks, so all but its sign are turned over.
    """
    bits = (scores + np.float32(0)).view(np.int32)  # adding makes -0.0 the same as 0.0
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return (bits.astype(np.int64) << 32) | places


def unpack(keys: Ints) -> tuple[Vectors, Ints]:
    """Return the scores and places that `pack` packed."""
    bits = (keys >> 32).astype(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return bits.view(np.float32), keys & 0xFFFFFFFF


def rankings_of(best: Ints, ids: PassageIds) -> list[Ranking]:
    """Turn what `TopK.keys` holds into a ranking for each query."""
    rankings: list[Ranking] = []
    for keys in np.sort(best, axis=1)[:, ::-1]:
        scores, places = unpack(keys[keys != _NONE])
        doc_ids = ids.ids[ids.sorted[places]].tolist()
        rankings.append(dict(zip(doc_ids, scores.tolist(), strict=True)))
    return rankings


class Sparse(NamedTuple):
    """A sparse matrix by rows, as SciPy's CSR has it, which may stand in its place.

    Attributes:
        data: the values that are not 0.
        indices: the column of each.
        indptr: where each row begins in both, and at the end their number.
    """

    data: Vectors
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]


class TopK:
    """The best passages of some queries so far.

    Args:
        ids: the collection's doc_ids.
        queries: how many queries there are.
        depth: passages per query, at least 1.
        floor: passages that do not score above it are not ranked.

    Attributes:
        keys: passages and their scores, packed, of shape ``(queries, min(depth, passages))``; the
            lowest of a query stands first, the rest in any order. Where a query has fewer, the
            integer is below all others.
    """

    def __init__(self, ids: PassageIds, queries: int, depth: int, floor: float = -math.inf) -> None:
        self.ids = ids
        self._keys = np.full((queries, min(depth, len(ids))), _NONE, np.int64)
        self._waiting: list[list[Ints]] = [[] for _ in range(queries)]
        self._lowest = np.full(queries, floor, np.float32)
        if floor > -math.inf:
            self._lowest = np.nextafter(self._lowest, np.float32(np.inf))

    @property
    def keys(self) -> Ints:
        """All that was added, as `TopK` says."""
        for query, waiting in enumerate(self._waiting):
            if waiting:
                self._merge(query)
        return self._keys

    def add(self, scores: Vectors, start: int, queries: slice = slice(None)) -> None:
        """Add the scores of passages in a row; threads may add to queries of their own.

        Args:
            scores: of shape ``(queries, passages)``; what is no number is not ranked.
            start: the row of the first passage.
            queries: the queries that the scores are of; all, by default.
        """
        order = self.ids.order[start : start + scores.shape[1]]
        for query, values in zip(range(len(self._keys))[queries], scores, strict=True):
            self._add(query, values, order)

    def add_some(self, query: int, scores: Vectors, rows: Ints) -> None:
        """Add the scores that some passages have for one query.

        Args:
            query: the query.
            scores: of shape ``(passages,)``; what is no number is not ranked.
            rows: the row of each passage; none is added twice.
        """
        self._add(query, scores, self.ids.order[rows])

    def add_vectors(
        self, asked: Vectors, vectors: npt.NDArray[np.float16 | np.float32], start: int
    ) -> None:
        """Add the dot products of all queries with passages in a row, on all threads.

        Neither the number of threads nor that of blocks changes a bit of them. Vectors of 16 bits
        are widened, so that sums have 32.

        Args:
            asked: the vectors of the queries, of shape ``(queries, dimensions)``.
            vectors: those of the passages, of shape ``(passages, dimensions)``.
            start: the row of the first passage.
        """

        def search(part: slice) -> None:
            # A library adds the products in an order that may depend on a matrix's shape, and on
            # the place in it. So all have one shape, and a passage has the same place in each.
            tile = np.zeros((_PASSAGES, vectors.shape[1]), np.float32)
            for first in range(start - start % _PASSAGES, end, _PASSAGES):
                rows = slice(max(first, start), min(first + _PASSAGES, end))
                places = slice(rows.start - first, rows.stop - first)
                tile[places] = vectors[rows.start - start : rows.stop - start]
                self.add((asked[part] @ tile.T)[:, places], rows.start, part)

        end = start + len(vectors)
        in_parallel(search, slices(len(asked), _QUERIES))

    def _add(self, query: int, scores: Vectors, order: Ints) -> None:
        rows = np.flatnonzero(scores >= self._lowest[query])
        if not len(rows):
            return
        self._waiting[query].append(pack(scores[rows], order[rows]))
        # To cut at every call would take most of the time.
        if sum(map(len, self._waiting[query])) >= self._keys.shape[1]:
            self._merge(query)

    def _merge(self, query: int) -> None:
        keys = np.concatenate([self._keys[query], *self._waiting[query]])
        self._waiting[query].clear()
        cut = len(keys) - self._keys.shape[1]
        self._keys[query] = np.partition(keys, cut)[cut:]
        if self._keys[query, 0] != _NONE:
            self._lowest[query] = unpack(self._keys[query, :1])[0][0]

    def add_products(
        self, asked: Sparse, postings: Sparse, start: int, size: int, queries: slice = slice(None)
    ) -> None:
        """Add the passages whose product with a query is above 0, which must be the floor.

        A score is the sum of the products of the query's terms, term by term in the order of its
        row. A small collection is searched by numpy, a larger one by the same steps, compiled: the
        same numbers are added in the same order, and give the same bits.

        Args:
            asked: the matrix of queries and terms.
            postings: the matrix of terms and passages, an inverted index: the passages of each term
                are ascending, and no product is negative.
            start: the row of the first passage.
            size: how many passages there are.
            queries: the queries to search for; all, by default. Threads may add to queries of their
                own.

        Raises:
            MissingExtraError: if numba is needed and not installed.
        """
        order = self.ids.order[start : start + size]
        chosen = range(len(self._keys))[queries]
        if len(self.ids) >= COMPILE_FROM:
            bounds = asked.indptr[chosen.start : chosen.stop + 1]
            inverted = (postings.data, postings.indices, postings.indptr)
            _compiled()(asked.data, asked.indices, bounds, *inverted, order, self._keys[queries])
            return
        for query in chosen:
            row = slice(asked.indptr[query], asked.indptr[query + 1])
            terms = asked.indices[row]
            ends = postings.indptr[terms + 1]
            counts = ends - postings.indptr[terms]
            places = np.arange(counts.sum()) + np.repeat(ends - counts.cumsum(), counts)
            scores = np.zeros(size, np.float32)
            products = np.repeat(asked.data[row], counts) * postings.data[places]
            np.add.at(scores, postings.indices[places], products)  # one after the other
            self._add(query, scores, order)


def _into_keys(
    factors: Vectors,
    terms: npt.NDArray[Any],
    bounds: npt.NDArray[Any],
    weights: Vectors,
    rows: npt.NDArray[Any],
    starts: npt.NDArray[Any],
    order: Ints,
    keys: Ints,
) -> None:
    """Do what `TopK.add_products` does, to be compiled.

    Scores above 0 compare as the integers of the same bits do. A query's passages gather in a pool
    of twice the depth, which is cut to the depth when it is full.
    """
    depth = keys.shape[1]
    pool = np.empty(2 * depth, np.int64)
    scores = np.zeros(min(_WINDOW, len(order)), np.float32)
    bits, found = scores.view(np.int32), np.empty(len(scores), np.int64)
    for query in range(len(keys)):
        first, last = bounds[query], bounds[query + 1]
        begins, ends = starts[terms[first:last]], starts[terms[first:last] + 1]
        stops = np.empty_like(begins)
        pool[:depth] = keys[query]
        filled, lowest = depth, max(np.int32(1), np.int32(keys[query, 0] >> 32))
        for window in range(0, len(order), len(scores)):
            postings = 0
            for term in range(last - first):
                begin = begins[term]
                stop = begin + np.searchsorted(rows[begin : ends[term]], window + len(scores))
                for place in range(begin, stop):
                    scores[rows[place] - window] += factors[first + term] * weights[place]
                stops[term] = stop
                postings += stop - begin
            count = 0
            if postings * _SPARSE < len(scores):
                for term in range(last - first):
                    for row in rows[begins[term] : stops[term]]:
                        number = bits[row - window]
                        if number >= lowest:
                            found[count] = (np.int64(number) << 32) | order[row]
                            count += 1
                        bits[row - window] = 0  # A passage of several terms is found once.
            else:
                for begin in range(0, len(bits), _CHUNK):
                    chunk = bits[begin : begin + _CHUNK]
                    above = 0
                    for number in chunk:
                        above += number >= lowest
                    if above:
                        for place, number in enumerate(chunk):
                            if number >= lowest:
                                row = window + begin + place
                                found[count] = (np.int64(number) << 32) | order[row]
                                count += 1
                    chunk[:] = 0
            begins[:] = stops
            for key in found[:count]:
                if np.int32(key >> 32) >= lowest:
                    pool[filled] = key
                    filled += 1
                    if filled == len(pool):
                        pool[:depth] = np.partition(pool, depth)[depth:]
                        filled, lowest = depth, max(lowest, np.int32(pool[0] >> 32))
        keys[query] = np.partition(pool[:filled], filled - depth)[filled - depth :]


@cache
def _compiled() -> Callable[..., None]:
    """Return `_into_keys`, compiled, and kept on disk for other processes where possible."""
    fast = require("numba", "bm25", _NEEDS).njit(nogil=True)(_into_keys)
    with suppress(RuntimeError):
        fast.enable_caching()
    return fast  # type: ignore[no-any-return]


def check_compiler(passages: int) -> None:
    """Check that so many passages can be searched here, before an index of them is made.

    Raises:
        MissingExtraError: if numba is needed and not installed.
    """
    if passages >= COMPILE_FROM:
        check_installed("numba", "bm25", _NEEDS)


def search_vectors(
    blocks: Iterable[npt.NDArray[np.float16 | np.float32]],
    queries: Vectors,
    ids: PassageIds,
    *,
    depth: int,
) -> Ints:
    """Find the passages with the highest dot products, by score, then doc_id, both descending.

    Args:
        blocks: the vectors of passages in their order, each block of shape (passages, dimensions).
        queries: vectors of shape (queries, dimensions).
        ids: the collection's doc_ids.
        depth: passages per query, at least 1.

    Returns:
        What `rankings_of` takes, of shape ``(queries, min(depth, passages))``.
    """
    best = TopK(ids, len(queries), depth)
    start = 0
    for block in blocks:
        best.add_vectors(queries, block, start)
        start += len(block)
    return best.keys
