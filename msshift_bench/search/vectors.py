"""Exact search of vectors by dot product, in blocks: one pool per query, one rule for ties.

Blocks pass by one at a time, in 32 or 16 bits; 16 bits are widened into one buffer, so that sums
have 32 bits. Each query keeps a pool of four times the depth. What scores at least as much as the
depth-th best so far goes in, and a full pool is cut to the depth: a passage and its score are one
integer (`ranking.ranking_keys`), so the cut breaks ties as all rankings do. A small collection is
searched by numpy, a larger one by the same steps, compiled by numba, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.plumbing import in_parallel, slices
from msshift_bench.search.postings import COMPILE_FROM, compiled
from msshift_bench.search.ranking import PassageIds, ranking_keys, split_keys

__all__ = ["search_vectors"]

_QUERIES, _PASSAGES = 1_024, 4_096
"""Queries and passages of a matrix product of one thread: the scores take 16 MB."""

_POOL = 4
"""The size of a query's pool, in depths."""

_CHUNK = 64
"""Scores that are compared at once; a processor does so in a few instructions."""

_NONE = np.iinfo(np.int64).min
"""Below every packed passage; as a score it is no number."""

_Floats = npt.NDArray[np.float32]
_Keys = npt.NDArray[np.int64]
_Keep = Callable[[_Floats, _Keys, _Keys, _Keys, _Floats, int], None]


def search_vectors(
    blocks: Iterable[npt.NDArray[np.float16 | np.float32]],
    queries: _Floats,
    ids: PassageIds,
    *,
    depth: int,
) -> _Keys:
    """Find the passages with the highest dot products, by score, then doc_id, both descending.

    The scores do not depend on the number of threads.

    Args:
        blocks: the vectors of passages in their order, each block of shape (passages, dimensions).
        queries: vectors of shape (queries, dimensions).
        ids: the collection's doc_ids.
        depth: passages per query, at least 1.

    Returns:
        Passages and their scores, packed (see `ranking.ranking_keys`), of shape
        ``(queries, min(depth, passages))``, in any order.

    Raises:
        MissingExtraError: if numba is needed and not installed.
    """
    depth = min(depth, len(ids))
    keep = _compile() if len(ids) >= COMPILE_FROM else _by_numpy
    pools = np.full((len(queries), _POOL * depth), _NONE, np.int64)
    filled = np.zeros(len(queries), np.int64)
    lowest = np.full(len(queries), -np.inf, np.float32)
    buffer = np.empty((0, queries.shape[1]), np.float32)
    start = 0
    for block in blocks:
        wide = block
        if block.dtype != np.float32:
            if len(block) > len(buffer):
                buffer = np.empty(block.shape, np.float32)
            wide = buffer[: len(block)]
            wide[:] = block
        order = ids.order[start : start + len(block)]
        start += len(block)
        work = partial(_search_part, keep, wide, order, queries, pools, filled, lowest, depth)
        in_parallel(work, slices(len(queries), _QUERIES))
    for pool, size in zip(pools, filled, strict=True):
        pool[size:] = _NONE
    pools.partition(pools.shape[1] - depth, axis=1)
    return pools[:, pools.shape[1] - depth :]


def _search_part(
    keep: _Keep,
    block: Any,
    order: _Keys,
    queries: _Floats,
    pools: _Keys,
    filled: _Keys,
    lowest: _Floats,
    depth: int,
    part: slice,
) -> None:
    asked = queries[part]
    room = np.empty(len(asked) * min(_PASSAGES, len(block)), np.float32)
    for rows in slices(len(block), _PASSAGES):
        passages = block[rows]
        scores = room[: len(asked) * len(passages)].reshape(len(asked), len(passages))
        np.matmul(asked, passages.T, out=scores)
        keep(scores, order[rows], pools[part], filled[part], lowest[part], depth)


def _by_numpy(
    scores: _Floats, order: _Keys, pools: _Keys, filled: _Keys, lowest: _Floats, depth: int
) -> None:
    """Do what `_into_pools` does, without a compiler."""
    for row, pool in enumerate(pools):
        found = np.flatnonzero(scores[row] >= lowest[row])
        keys = np.concatenate([pool[: filled[row]], ranking_keys(scores[row, found], order[found])])
        if len(keys) > depth:
            keys = np.partition(keys, len(keys) - depth)[len(keys) - depth :]
            lowest[row] = split_keys(keys[:1])[0][0]
        pool[: len(keys)] = keys
        filled[row] = len(keys)


def _into_pools(
    scores: _Floats, order: _Keys, pools: _Keys, filled: _Keys, lowest: _Floats, depth: int
) -> None:
    """Add the passages of a matrix product to the queries' pools.

    Args:
        scores: of shape (queries, passages).
        order: the place of each passage's doc_id in their order.
        pools: the queries' pools.
        filled: how many passages each pool holds.
        lowest: the score below which a passage is of no use to each query.
        depth: passages per query.
    """
    bits = scores.view(np.int32)
    sign, others = np.int32(31), np.int32(0x7FFFFFFF)
    zero, negative_zero = np.int32(0), np.int32(-0x80000000)
    size = pools.shape[1]
    for query in range(len(scores)):
        row, pool = scores[query], pools[query]
        held, low = filled[query], lowest[query]
        for begin in range(0, len(row), _CHUNK):
            chunk = row[begin : begin + _CHUNK]
            above = 0
            for place in range(len(chunk)):
                above += chunk[place] >= low
            if not above:
                continue
            for place in range(begin, begin + len(chunk)):
                if row[place] >= low:
                    number = bits[query, place]
                    number = zero if number == negative_zero else number
                    number ^= (number >> sign) & others
                    pool[held] = (np.int64(number) << 32) | order[place]
                    held += 1
                    if held == size:
                        pool[:depth] = np.partition(pool, size - depth)[size - depth :]
                        held = depth
                        number = np.int32(pool[0] >> 32)
                        number ^= (number >> sign) & others
                        low = np.array([number], np.int32).view(np.float32)[0]
        filled[query], lowest[query] = held, low


@cache
def _compile() -> _Keep:
    """Return `_into_pools`, compiled, and kept on disk for other processes where possible."""
    return compiled(_into_pools, "neural")
