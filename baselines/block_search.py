"""Search over blocks of passages, one of them in memory at a time, and reranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.encoded_passages import Arrays, EncodedPassages
from msshift_bench.plumbing import Progress, silent, slices
from msshift_bench.search import PassageIds, Ranking, rank, rankings_of, search_vectors

__all__ = ["Top", "best_of", "search_blocks", "search_dense", "top_of"]

Top = Callable[
    [Arrays, npt.NDArray[np.int64], int], tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
]
"""``(arrays of a block, queries, k)`` -> scores and rows in the block, of shape ``(queries, k)``:
``k`` of each query's highest-scoring passages in the block, in any order. ``k`` is at most the
block's size."""

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""

_TOLD = 128
"""Rankings that are Python's mappings at the same time."""


def search_blocks(
    top: Top,
    blocks: EncodedPassages,
    queries: int,
    *,
    depth: int,
    floor: float = -math.inf,
    progress: Progress = silent,
) -> Iterator[Ranking]:
    """Rank all passages for each query, one block of passages in memory at a time.

    Args:
        top: searches one block.
        blocks: the passages.
        queries: how many queries there are.
        depth: passages per ranking.
        floor: passages that do not score above it are not part of a ranking.
        progress: called with the number of blocks searched.

    Yields:
        A ranking for each query, in their order.
    """
    for first in range(0, queries, _QUERIES):
        group = np.arange(first, min(first + _QUERIES, queries))

        def retrieve(
            which: npt.NDArray[np.int64], k: int, group: npt.NDArray[np.int64] = group
        ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
            scores = np.empty((len(which), 0), np.float32)
            rows = np.empty((len(which), 0), np.int64)
            start = 0
            for number, block in enumerate(blocks.blocks, 1):
                block_scores, places = top(block.load(), group[which], min(k, block.size))
                scores = np.concatenate([scores, block_scores], axis=1)
                rows = np.concatenate([rows, places + start], axis=1)
                best = np.argsort(-scores, axis=1)[:, :k]
                scores = np.take_along_axis(scores, best, axis=1)
                rows = np.take_along_axis(rows, best, axis=1)
                start += block.size
                progress("search blocks", number, len(blocks.blocks))
            return scores, rows

        yield from rank(retrieve, blocks.ids, len(group), depth=depth, floor=floor)


def top_of(
    scores: npt.NDArray[np.float32], k: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the `k` highest scores of each row, in any order, and their positions."""
    places = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(scores, places, axis=1), places


def best_of(
    ids: PassageIds, rows: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], depth: int
) -> Ranking:
    """Rank some passages by score, then doc_id, both descending, and cut at `depth`.

    Args:
        ids: the collection's doc_ids.
        rows: the rows of the passages.
        scores: their scores.
        depth: most passages of the ranking.
    """
    best = np.lexsort((-ids.order[rows], -scores))[:depth]
    return dict(zip(ids.ids[rows[best]].tolist(), scores[best].tolist(), strict=True))


def search_dense(
    queries: npt.NDArray[np.float32],
    passages: EncodedPassages,
    *,
    depth: int,
    progress: Progress = silent,
) -> Iterator[Ranking]:
    """Rank all passages for each query by exact dot product, one block in memory at a time.

    Args:
        queries: vectors of shape (queries, dimensions).
        passages: blocks that hold ``vectors``, in 32 or 16 bits.
        depth: passages per ranking.
        progress: called with the number of blocks searched.

    Yields:
        A ranking for each query, in their order.
    """

    def vectors() -> Iterator[npt.NDArray[np.float16 | np.float32]]:
        for number, block in enumerate(passages.blocks, 1):
            yield block.read("vectors")
            progress("search blocks", number, len(passages.blocks))

    for part in slices(len(queries), _QUERIES):
        best = search_vectors(vectors(), queries[part], passages.ids, depth=depth)
        for some in slices(len(best), _TOLD):
            yield from rankings_of(best[some], passages.ids)
