"""Exact search of inverted indexes in blocks: one accumulator, one pool, one rule for ties.

An inverted index lists, for each term, the passages that hold it and its weight in each. The score
of a passage for a query is the sum, over the terms of the query, of its weights. `Block` is the
inverted index of some passages in a row, few enough for their scores to stay in a processor's
cache; `search_postings` adds up the scores of one block at a time and puts the best into a pool.

A passage and its score are one integer (`ranking.ranking_keys`), so the cut of a full pool to the
depth breaks ties as all rankings do. A small collection is searched by numpy, a larger one by the
same steps, compiled by numba: both add the same numbers in the same order, and give the same bits.
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
"""Scores that are compared with the lowest at once; a processor does so in a few instructions."""

_SPARSE = 4
"""If fewer than one of so many passages of a block hold a term of a query, only these are read."""

_POOL = 2
"""The size of a query's pool, in depths."""

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
    depth = min(depth, len(ids))
    pools = _Pools(
        np.zeros((queries, _POOL * depth), np.int64),
        np.zeros(queries, np.int64),
        np.ones(queries, np.int32),
        depth,
    )
    start = 0
    for block, spans in blocks:
        order = ids.order[start : start + block.size]
        start += block.size
        work = partial(_search_part, add_block, block, spans, order, pools)
        for _ in for_each(work, slices(queries, BATCH)):
            pass
    return pools.best()


@dataclass(frozen=True, slots=True)
class _Pools:
    """The best passages of each query so far, and others that have not been thrown out yet.

    Attributes:
        keys: packed passages and scores, of shape ``(queries, _POOL * depth)``.
        filled: how many passages each pool holds.
        lowest: the bits of the score below which a passage is of no use to each query.
        depth: passages per query.
    """

    keys: npt.NDArray[np.int64]
    filled: npt.NDArray[np.int64]
    lowest: npt.NDArray[np.int32]
    depth: int

    def part(self, queries: slice) -> _Pools:
        """Return the pools of some of the queries."""
        return _Pools(self.keys[queries], self.filled[queries], self.lowest[queries], self.depth)

    def best(self) -> npt.NDArray[np.int64]:
        """Return what `search_postings` does; the pools are of no use afterwards."""
        for pool, size in zip(self.keys, self.filled, strict=True):
            pool[size:] = 0
        cut = self.keys.shape[1] - self.depth
        self.keys.partition(cut, axis=1)
        return self.keys[:, cut:]


def _search_part(
    add_block: Callable[[Block, Spans, npt.NDArray[np.int64], _Pools], None],
    block: Block,
    spans: Spans,
    order: npt.NDArray[np.int64],
    pools: _Pools,
    part: slice,
) -> None:
    add_block(block, spans.part(part), order, pools.part(part))


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


def _by_numpy(block: Block, spans: Spans, order: npt.NDArray[np.int64], pools: _Pools) -> None:
    """Do what `_into_pools` does, without a compiler."""
    for query, pool in enumerate(pools.keys):
        scores = np.zeros(block.size, np.float32)
        add_postings(block, spans, query, scores)
        found = np.flatnonzero(scores > 0)
        keys = np.concatenate(
            [pool[: pools.filled[query]], ranking_keys(scores[found], order[found])]
        )
        if len(keys) > pools.depth:
            keys = np.partition(keys, len(keys) - pools.depth)[-pools.depth :]
        pool[: len(keys)] = keys
        pools.filled[query] = len(keys)


def _compiled(block: Block, spans: Spans, order: npt.NDArray[np.int64], pools: _Pools) -> None:
    """Call `_into_pools`, compiled."""
    terms = (spans.starts, spans.ends, spans.factors, spans.queries)
    scores = np.zeros(block.size, np.float32)
    kept = (pools.keys, pools.filled, pools.lowest, pools.depth)
    _compile()(block.rows, block.weights, *terms, order, scores, *kept)


def _into_pools(
    rows: npt.NDArray[Any],
    weights: npt.NDArray[np.float32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float32],
    queries: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float32],
    pools: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.int32],
    depth: int,
) -> None:
    """Add a block's passages to each query's pool, and cut a full pool to the depth.

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
        pools: see `_Pools`.
        filled: see `_Pools`.
        lowest: see `_Pools`.
        depth: see `_Pools`.
    """
    bits = scores.view(np.int32)
    found = np.empty(len(bits), np.int64)
    size = pools.shape[1]
    for query in range(len(queries) - 1):
        pool, held, low = pools[query], filled[query], lowest[query]
        postings = 0
        for term in range(queries[query], queries[query + 1]):
            postings += ends[term] - starts[term]
            holders = rows[starts[term] : ends[term]]
            added = weights[starts[term] : ends[term]]
            for place in range(len(holders)):
                scores[holders[place]] += factors[term] * added[place]
        count = 0
        if postings * _SPARSE < len(scores):
            for term in range(queries[query], queries[query + 1]):
                for row in rows[starts[term] : ends[term]]:
                    if bits[row] >= low:
                        found[count] = (np.int64(bits[row]) << 32) | order[row]
                        count += 1
                    bits[row] = 0  # A passage of several terms is found once.
        else:
            for begin in range(0, len(bits), _CHUNK):
                chunk = bits[begin : begin + _CHUNK]
                above = 0
                for place in range(len(chunk)):
                    above += chunk[place] >= low
                if above:
                    for place in range(len(chunk)):
                        if chunk[place] >= low:
                            found[count] = (np.int64(chunk[place]) << 32) | order[begin + place]
                            count += 1
                chunk[:] = 0
        for key in found[:count]:
            if np.int32(key >> 32) >= low:
                pool[held] = key
                held += 1
                if held == size:
                    pool[:depth] = np.partition(pool, size - depth)[size - depth :]
                    held = depth
                    low = np.int32(pool[0] >> 32)
        filled[query], lowest[query] = held, low


@cache
def _compile() -> Callable[..., None]:
    """Return `_into_pools`, compiled."""
    return compiled(_into_pools, "bm25")


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
