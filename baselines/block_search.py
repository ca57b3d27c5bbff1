"""Search over blocks of passages, one of them in memory at a time, and reranking."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from msshift_bench.arrays import Vectors
from msshift_bench.baselines.encoded_passages import Arrays, EncodedPassages
from msshift_bench.plumbing import Progress, silent, slices
from msshift_bench.search import Best, PassageIds, Ranking, rankings_of, search_vectors

__all__ = ["BlockScores", "best_of", "search_blocks", "search_dense"]

BlockScores = Callable[[Arrays, slice], Vectors]
"""``(arrays of a block, queries)`` -> the scores of its passages, of shape (queries, passages)."""

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""

_TOLD = 128
"""Rankings that are Python's mappings at the same time."""


def search_blocks(
    score: BlockScores,
    blocks: EncodedPassages,
    queries: int,
    *,
    depth: int,
    progress: Progress = silent,
) -> Iterator[Ranking]:
    """Rank all passages for each query, one block of passages in memory at a time.

    Args:
        score: scores the passages of one block.
        blocks: the passages.
        queries: how many queries there are.
        depth: passages per ranking.
        progress: called with the number of blocks searched.

    Yields:
        A ranking for each query, in their order.
    """
    for part in slices(queries, _QUERIES):
        best = Best(blocks.ids, part.stop - part.start, depth)
        start = 0
        for number, block in enumerate(blocks.blocks, 1):
            best.add(score(block.load(), part), start)
            start += block.size
            progress("search blocks", number, len(blocks.blocks))
        for some in slices(len(best.keys), _TOLD):
            yield from rankings_of(best.keys[some], blocks.ids)


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
