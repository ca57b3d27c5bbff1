"""Exact search of inverted indexes in blocks: one accumulator, one heap, one rule for ties.

An inverted index lists, for each term, the passages that hold it and its weight in each. The score
of a passage for a query is the sum, over the terms of the query, of its weights. `Block` is the
inverted index of some passages in a row, few enough for their scores to stay in a processor's
cache; `search_postings` adds up the scores of one block at a time and keeps the best in a heap.

A passage and its score are one integer (`ranking.ranking_keys`), so the heap breaks ties as all
rankings do. A small collection is searched by numpy, a larger one by the same steps, compiled by
numba: both add the same numbers in the same order, and give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import check_installed, require
from msshift_bench.plumbing import map_in_threads, slices
from msshift_bench.search.ranking import PassageIds, ranking_keys

__all__ = [
    "BATCH",
    "COMPILE_FROM",
    "Block",
    "Spans",
    "add_postings",
    "check_compiler",
    "compiled",
    "search_postings",
]

COMPILE_FROM = 20_000
"""Passages from which on the search is compiled. That takes seconds once on a machine, and half a
second in each process, in which numpy searches a smaller collection."""

_NEEDS = f"searching {COMPILE_FROM:,} passages or more"

_CHUNK = 64
"""Scores that are compared with the heap at once; a processor does so in a few instructions."""

_SPARSE = 16
"""If fewer than one of so many passages of a block hold a term of a query, only these are read."""

BATCH = 128
"""Queries that one thread searches together."""


@dataclass(frozen=True, slots=True)
class Block:
    """The inverted index of some passages in a row.

    Attributes:
        size: how many passages there are.
        rows: a passage of the block, from 0, for each posting; those of a term in a row, ascending.
        weights: the weight of each posting, not negative.
    """

    size: int
    rows: npt.NDArray[np.unsignedinteger[Any] | np.signedinteger[Any]]
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Spans:
    """Where a block holds the terms of queries.

    Attributes:
        starts: the first posting of each term of each query, in the order in which they are added.
        ends: the posting after the last one; equal to the start if no passage holds the term.
        factors: what the weights of each term are multiplied by.
        queries: the first term of each query, and at the end the number of terms.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    factors: npt.NDArray[np.float32]
    queries: npt.NDArray[np.int64]

    def part(self, queries: slice) -> Spans:
        """Return the terms of some of the queries."""
        bounds = self.queries[queries.start : queries.stop + 1]
        terms = slice(int(bounds[0]), int(bounds[-1]))
        parts = (self.starts[terms], self.ends[terms], self.factors[terms])
        return Spans(*parts, bounds - bounds[0])


def search_postings(
    blocks: Iterable[tuple[Block, Spans]],
    ids: PassageIds,
    queries: int,
    *,
    depth: int,
) -> npt.NDArray[np.int64]:
    """Find the passages that score highest, above 0, by score, then doc_id, both descending.

    Args:
        blocks: the passages in their order, and the terms of the queries in each block.
        ids: the collection's doc_ids.
        queries: how many queries there are.
        depth: passages per query, at least 1.

    Returns:
        Passages and their scores, packed (see `ranking.ranking_keys`), of shape
        ``(queries, min(depth, passages))``, in any order; 0 where a query matches fewer passages.

    Raises:
        MissingExtraError: if numba is needed and not installed.
    """
    is_large = len(ids) >= COMPILE_FROM
    add_block, for_each = (_compiled, map_in_threads) if is_large else (_by_numpy, map)
    best = np.zeros((queries, min(depth, len(ids))), np.int64)
    filled = np.zeros(queries, np.int64)
    start = 0
    for block, spans in blocks:
        order = ids.order[start : start + block.size]
        start += block.size
        work = partial(_search_part, add_block, block, spans, order, best, filled)
        for _ in for_each(work, slices(queries, BATCH)):
            pass
    return best


def _search_part(
    add_block: Callable[..., None],
    block: Block,
    spans: Spans,
    order: npt.NDArray[np.int64],
    best: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
    part: slice,
) -> None:
    add_block(block, spans.part(part), order, best[part], filled[part])


def add_postings(block: Block, spans: Spans, query: int, scores: npt.NDArray[np.float32]) -> None:
    """Add the weights of a query's terms to the scores of a block's passages.

    Args:
        block: the block.
        spans: the terms of queries in the block.
        query: the query, from 0.
        scores: the scores, one per passage of the block.
    """
    for term in range(spans.queries[query], spans.queries[query + 1]):
        held = slice(spans.starts[term], spans.ends[term])
        scores[block.rows[held]] += spans.factors[term] * block.weights[held]


def _by_numpy(
    block: Block,
    spans: Spans,
    order: npt.NDArray[np.int64],
    best: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
) -> None:
    """Do what `_by_heap` does, without a compiler."""
    depth = best.shape[1]
    for query in range(len(best)):
        scores = np.zeros(block.size, np.float32)
        add_postings(block, spans, query, scores)
        found = np.flatnonzero(scores > 0)
        keys = np.concatenate(
            [best[query, : filled[query]], ranking_keys(scores[found], order[found])]
        )
        if len(keys) > depth:
            keys = np.partition(keys, len(keys) - depth)[-depth:]
        best[query, : len(keys)] = keys
        filled[query] = len(keys)


def _compiled(
    block: Block,
    spans: Spans,
    order: npt.NDArray[np.int64],
    best: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
) -> None:
    """Call `_by_heap`, compiled."""
    terms = (spans.starts, spans.ends, spans.factors, spans.queries)
    scores = np.zeros(block.size, np.float32)
    _compile()(block.rows, block.weights, *terms, order, scores, best, filled)


def _by_heap(
    rows: npt.NDArray[Any],
    weights: npt.NDArray[np.float32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float32],
    queries: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float32],
    best: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
) -> None:
    """Add a block's passages to each query's heap, whose root is the last passage of its ranking.

    Scores above 0 compare as the integers of the same bits do, and they alone are above 0.

    Args:
        rows: see `Block`.
        weights: see `Block`.
        starts: see `Spans`.
        ends: see `Spans`.
        factors: see `Spans`.
        queries: see `Spans`.
        order: the place of each passage's doc_id in their order.
        scores: zeros, one per passage; afterwards, too.
        best: the heaps, of shape ``(queries, depth)``.
        filled: how many passages each heap holds.
    """
    bits = scores.view(np.int32)
    one = np.int32(1)
    depth = best.shape[1]
    for query in range(len(queries) - 1):
        heap, size = best[query], filled[query]
        postings = 0
        for term in range(queries[query], queries[query + 1]):
            postings += ends[term] - starts[term]
            held = rows[starts[term] : ends[term]]
            held_weights = weights[starts[term] : ends[term]]
            for place in range(len(held)):
                scores[held[place]] += factors[term] * held_weights[place]
        lowest = np.int32(heap[0] >> 32) if size == depth else one
        # The passages to compare are those of each term, or all, a chunk at a time.
        sparse = postings * _SPARSE < len(scores)
        first = queries[query] if sparse else 0
        last = queries[query + 1] if sparse else (len(scores) + _CHUNK - 1) // _CHUNK
        for part in range(first, last):
            begin = starts[part] if sparse else part * _CHUNK
            end = ends[part] if sparse else min(begin + _CHUNK, len(scores))
            if not sparse:
                above = 0
                chunk = bits[begin:end]
                for row in range(len(chunk)):
                    above += chunk[row] >= lowest
                if not above:
                    continue
            for place in range(begin, end):
                row = rows[place] if sparse else place
                if bits[row] >= lowest:
                    key = (np.int64(bits[row]) << 32) | order[row]
                    if size < depth:
                        hole = size
                        size += 1
                        while hole > 0 and heap[(hole - 1) >> 1] > key:
                            heap[hole] = heap[(hole - 1) >> 1]
                            hole = (hole - 1) >> 1
                        heap[hole] = key
                    elif key > heap[0]:
                        hole, child = 0, 1
                        while child < depth:
                            if child + 1 < depth and heap[child + 1] < heap[child]:
                                child += 1
                            if heap[child] >= key:
                                break
                            heap[hole] = heap[child]
                            hole, child = child, 2 * child + 1
                        heap[hole] = key
                    if size == depth:
                        lowest = np.int32(heap[0] >> 32)
                # A passage of several terms is compared once.
                if sparse:
                    scores[row] = 0
        if not sparse:
            scores[:] = 0
        filled[query] = size


@cache
def _compile() -> Callable[..., None]:
    """Return `_by_heap`, compiled."""
    return compiled(_by_heap, "bm25")


def compiled(function: Callable[..., None], extra: str) -> Callable[..., None]:
    """Compile a function, and keep it on disk for other processes where that is possible.

    Args:
        function: the function.
        extra: the extra that installs numba for who needs the function.

    Raises:
        MissingExtraError: if numba is not installed.
    """
    numba = require("numba", extra, _NEEDS)
    fast = numba.njit(nogil=True)(function)
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
