"""Rankings in one order for all systems: by score, then by doc_id, both descending.

A passage and its score are packed into one integer: the bits of the score above the place of its
doc_id. So integer order breaks all ties. Rankings do not depend on a library's top-k, on blocks, on
threads, or on the order of the passages. `TopK` collects scores from a matrix (`TopK.add`), vectors
(`TopK.add_vectors`) or an inverted index (`TopK.add_products`).
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
"""Number of queries that one thread searches together."""

COMPILE_FROM = 20_000
"""Minimum number of passages for which compiled code searches an inverted index.

A compilation takes seconds once per machine, and loading takes half a second per process. In that
time NumPy searches a smaller collection.
"""

_NEEDED_FOR = f"searching {COMPILE_FROM:,} passages or more"

_WINDOW = 1 << 16
"""Number of passages whose scores are summed together: 256 KB, which fit into a CPU's cache."""

_CHUNK = 64
"""Number of scores that are compared with the lowest together, in a few CPU instructions."""

_SPARSE = 4
"""If fewer than 1/4 of a window's passages contain a term, only these passages are checked."""

_QUERIES, _PASSAGES = 1_024, 4_096
"""Queries and passages of one matrix product of a thread; its scores take 16 MB."""

_NONE = np.iinfo(np.int64).min
"""Integer for no passage, smaller than every packed passage."""


class PassageIds:
    """The doc_ids of a collection by row (0-based order), and their places when sorted.

    Args:
        doc_ids: the ids, in the collection's order.
        ascending: the rows in ascending order of their doc_ids; by default computed.

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
        """Return the row of each doc_id; `None` if it is not in the collection."""
        if not len(doc_ids):
            return []
        places = np.searchsorted(self.ids, np.array(doc_ids, dtype=np.str_), sorter=self.sorted)
        rows = self.sorted[np.minimum(places, len(self) - 1)]
        return [
            int(row) if self.ids[row] == doc_id else None
            for row, doc_id in zip(rows, doc_ids, strict=True)
        ]

    def held(self, doc_ids: Sequence[str]) -> list[str]:
        """Return the doc_ids that are in the collection, in the given order."""
        rows = self.rows(doc_ids)
        return [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row is not None]


def pack(scores: Vectors, places: Ints) -> Ints:
    """Return integers that sort by score, then place.

    For negative scores, all bits but the sign are flipped, so that integers sort as numbers.

    Args:
        scores: the scores.
        places: the places of the passages in `PassageIds.order`.
    """
    bits = (scores + np.float32(0)).view(np.int32)  # + 0.0 turns -0.0 into 0.0
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return (bits.astype(np.int64) << 32) | places


def unpack(keys: Ints) -> tuple[Vectors, Ints]:
    """Return the arguments of `pack`, the scores and places, from its integers."""
    bits = (keys >> 32).astype(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return bits.view(np.float32), keys & 0xFFFFFFFF


def rankings_of(best: Ints, ids: PassageIds) -> list[Ranking]:
    """Return a ranking for each query; `{}` for a query without passages.

    Args:
        best: packed passages, e.g. `TopK.keys`, of shape ``(queries, depth)``.
        ids: the collection's doc_ids.
    """
    rankings: list[Ranking] = []
    for keys in np.sort(best, axis=1)[:, ::-1]:
        scores, places = unpack(keys[keys != _NONE])
        doc_ids = ids.ids[ids.sorted[places]].tolist()
        rankings.append(dict(zip(doc_ids, scores.tolist(), strict=True)))
    return rankings


class Sparse(NamedTuple):
    """A sparse matrix by rows, with the attributes of a CSR matrix of SciPy.

    Attributes:
        data: the non-zero values.
        indices: the column of each value.
        indptr: the position of each row's first value, and at the end the number of values.
    """

    data: Vectors
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]


class TopK:
    """The passages with the highest scores of each query, updated block by block.

    Args:
        ids: the collection's doc_ids.
        queries: the number of queries.
        depth: passages per query, at least 1.
        floor: passages with this score or a lower score are not ranked; by default all are ranked.
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
        """Packed passages, of shape ``(queries, min(depth, passages))``.

        The lowest of a query is first, the others are in any order. For a query with fewer
        passages, the integer `_NONE` fills the rest.
        """
        for query, waiting in enumerate(self._waiting):
            if waiting:
                self._merge(query)
        return self._keys

    def add(self, scores: Vectors, start: int, queries: slice = slice(None)) -> None:
        """Add the scores of consecutive passages; several threads may add to different queries.

        Args:
            scores: scores of shape ``(queries, passages)``; NaN is not ranked.
            start: the row of the first passage.
            queries: the slice of queries, in the order of the scores; by default all.
        """
        order = self.ids.order[start : start + scores.shape[1]]
        for query, values in zip(range(len(self._keys))[queries], scores, strict=True):
            self._add(query, values, order)

    def add_rows(self, query: int, scores: Vectors, rows: Ints) -> None:
        """Add the scores of some passages for one query.

        Args:
            query: the index of the query, from 0.
            scores: scores of shape ``(passages,)``; NaN is not ranked.
            rows: the row of each passage, without repetition, also over several calls.
        """
        self._add(query, scores, self.ids.order[rows])

    def add_vectors(
        self, queries: Vectors, vectors: npt.NDArray[np.float16 | np.float32], start: int
    ) -> None:
        """Add the dot products of all queries with consecutive passages, on all threads.

        Scores are the same bits for any number of threads and blocks. Vectors of 16 bits are
        converted to 32 bits.

        Args:
            queries: the vectors of the queries, of shape ``(queries, dimensions)``.
            vectors: the vectors of the passages, of shape ``(passages, dimensions)``.
            start: the row of the first passage.
        """

        def search(part: slice) -> None:
            # The order in which a library sums products may depend on a matrix's shape and on the
            # position in it. So all matrices have one shape, and passages have fixed positions.
            tile = np.zeros((_PASSAGES, vectors.shape[1]), np.float32)
            for first in range(start - start % _PASSAGES, end, _PASSAGES):
                rows = slice(max(first, start), min(first + _PASSAGES, end))
                places = slice(rows.start - first, rows.stop - first)
                tile[places] = vectors[rows.start - start : rows.stop - start]
                self.add((queries[part] @ tile.T)[:, places], rows.start, part)

        end = start + len(vectors)
        in_parallel(search, slices(len(queries), _QUERIES))

    def _add(self, query: int, scores: Vectors, order: Ints) -> None:
        rows = np.flatnonzero(scores >= self._lowest[query])
        if not len(rows):
            return
        self._waiting[query].append(pack(scores[rows], order[rows]))
        # A merge at every call would take most of the time.
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
        self,
        query_terms: Sparse,
        postings: Sparse,
        start: int,
        size: int,
        queries: slice = slice(None),
    ) -> None:
        """Add the passages whose product with a query is above 0; `floor` must be 0.

        A score is the sum of the products of the query's terms, in the order of the query's row.
        NumPy searches small collections, and compiled code large ones (`COMPILE_FROM`). Both add
        the same numbers in the same order, so scores are the same bits.

        Args:
            query_terms: the matrix of queries and terms.
            postings: the matrix of terms and passages, an inverted index. Column 0 is the row
                `start`. The passages of each term must be ascending, and no product negative.
            start: the row of the first passage.
            size: the number of passages.
            queries: the slice of queries to search for; by default all. Several threads may add to
                different queries.

        Raises:
            MissingExtraError: if numba is needed and not installed.
        """
        order = self.ids.order[start : start + size]
        chosen = range(len(self._keys))[queries]
        if len(self.ids) >= COMPILE_FROM:
            bounds = query_terms.indptr[chosen.start : chosen.stop + 1]
            inverted = (postings.data, postings.indices, postings.indptr)
            _compiled()(
                query_terms.data, query_terms.indices, bounds, *inverted, order, self._keys[queries]
            )
            return
        for query in chosen:
            row = slice(query_terms.indptr[query], query_terms.indptr[query + 1])
            terms = query_terms.indices[row]
            ends = postings.indptr[terms + 1]
            counts = ends - postings.indptr[terms]
            places = np.arange(counts.sum()) + np.repeat(ends - counts.cumsum(), counts)
            scores = np.zeros(size, np.float32)
            products = np.repeat(query_terms.data[row], counts) * postings.data[places]
            np.add.at(scores, postings.indices[places], products)  # adds in order
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
    """Update `keys` as `TopK.add_products` does, in a form that numba can compile.

    Positive scores compare as the integers with the same bits. A query's passages are collected in
    a pool of twice the depth. A full pool is cut to the depth.
    """
    depth = keys.shape[1]
    pool = np.empty(2 * depth, np.int64)
    scores = np.zeros(min(_WINDOW, len(order)), np.float32)
    bits, candidates = scores.view(np.int32), np.empty(len(scores), np.int64)
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
                            candidates[count] = (np.int64(number) << 32) | order[row]
                            count += 1
                        bits[row - window] = 0  # A passage with several terms is added once.
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
                                candidates[count] = (np.int64(number) << 32) | order[row]
                                count += 1
                    chunk[:] = 0
            begins[:] = stops
            for key in candidates[:count]:
                if np.int32(key >> 32) >= lowest:
                    pool[filled] = key
                    filled += 1
                    if filled == len(pool):
                        pool[:depth] = np.partition(pool, depth)[depth:]
                        filled, lowest = depth, max(lowest, np.int32(pool[0] >> 32))
        keys[query] = np.partition(pool[:filled], filled - depth)[filled - depth :]


@cache
def _compiled() -> Callable[..., None]:
    """Return `_into_keys`, compiled, and cached on disk for other processes if possible."""
    fast = require("numba", "bm25", _NEEDED_FOR).njit(nogil=True)(_into_keys)
    with suppress(RuntimeError):
        fast.enable_caching()
    return fast  # type: ignore[no-any-return]


def check_compiler(passages: int) -> None:
    """Check that numba is installed if a search of so many passages needs it.

    Args:
        passages: the number of passages of a collection.

    Raises:
        MissingExtraError: if numba is needed and not installed.
    """
    if passages >= COMPILE_FROM:
        check_installed("numba", "bm25", _NEEDED_FOR)


def search_vectors(
    blocks: Iterable[npt.NDArray[np.float16 | np.float32]],
    queries: Vectors,
    ids: PassageIds,
    *,
    depth: int,
) -> Ints:
    """Return the passages with the highest dot products for each query, as packed integers.

    Args:
        blocks: the vectors of all passages in the collection's order, in blocks of shape
            ``(passages, dimensions)``.
        queries: the vectors of the queries, of shape ``(queries, dimensions)``.
        ids: the collection's doc_ids.
        depth: passages per query, at least 1.

    Returns:
        An argument of `rankings_of`, of shape ``(queries, min(depth, passages))``.
    """
    best = TopK(ids, len(queries), depth)
    start = 0
    for block in blocks:
        best.add_vectors(queries, block, start)
        start += len(block)
    return best.keys
