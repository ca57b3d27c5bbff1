"""Exact top-k: rankings whose cut does not depend on how a library breaks ties.

A library's top-k keeps arbitrary passages among those that tie with the last one. `rank` asks for
more than it needs, proves from what came back that nothing outside can belong to the ranking, and
asks again, deeper, where the proof fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import require

__all__ = ["MARGIN", "PassageIds", "Ranking", "rank", "search_vectors"]

MARGIN = 100
"""How many passages beyond the depth are retrieved, so that ties at the cut are usually inside."""

Ranking = list[tuple[str, float]]
"""``(doc_id, score)``, best first; equal scores by doc_id, descending."""

Retrieve = Callable[
    [npt.NDArray[np.int64], int], tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
]
"""``(queries, k)`` -> scores and rows, each of shape ``(queries, k)``: for each query ``k`` of its
highest-scoring passages, in any order, ties at the cut broken in any way."""


class PassageIds:
    """The doc_ids of a collection by row, and their place in the order that breaks ties.

    Args:
        doc_ids: the ids, in the collection's order.

    Attributes:
        ids: the doc_ids by row.
        sorted: the rows in ascending order of their doc_ids.
        order: the place of each row in that order.
    """

    def __init__(self, doc_ids: Sequence[str]) -> None:
        self.ids: npt.NDArray[Any] = np.array(doc_ids, dtype=np.str_)
        self.sorted: npt.NDArray[np.int64] = np.argsort(self.ids)
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


def rank(
    retrieve: Retrieve, ids: PassageIds, queries: int, *, depth: int, floor: float = -math.inf
) -> list[Ranking]:
    """Rank passages by score, then doc_id, both descending, and cut exactly at `depth`.

    Args:
        retrieve: the search to ask; its scores for a pair must not depend on ``k``.
        ids: the collection's doc_ids.
        queries: how many queries there are.
        depth: passages per ranking, at least 1.
        floor: passages that do not score above it are not part of a ranking.

    Returns:
        One ranking per query.
    """
    rankings: list[Ranking] = [[] for _ in range(queries)]
    pending = np.arange(queries)
    reach = depth + MARGIN
    while pending.size:
        reach = min(reach, len(ids))
        scores, rows = retrieve(pending, reach)
        best = np.lexsort((-ids.order[rows], -scores))
        scores = np.take_along_axis(scores, best, axis=1)
        rows = np.take_along_axis(rows, best, axis=1)
        lowest = scores[:, -1]
        # What was not retrieved scores at most `lowest`. So nothing outside belongs inside if the
        # last passage kept scores more, or if `lowest` itself is no score at all.
        proven = (scores[:, :depth][:, -1] > lowest) | (lowest <= floor) | (reach == len(ids))
        for place in np.flatnonzero(proven):
            kept = np.flatnonzero(scores[place, :depth] > floor)
            doc_ids = ids.ids[rows[place, kept]].tolist()
            rankings[pending[place]] = list(zip(doc_ids, scores[place, kept].tolist(), strict=True))
        pending = pending[~proven]
        reach *= 2
    return rankings


_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""


def search_vectors(
    queries: npt.NDArray[np.float32], files: Sequence[Path], ids: PassageIds, *, depth: int
) -> Iterator[Ranking]:
    """Rank passages by exact dot product, one block of passages in memory at a time.

    Args:
        queries: vectors of shape (queries, dimensions).
        files: arrays of shape (passages of a block, dimensions), as ``.npy``.
        ids: the passages' doc_ids, in the order of the blocks.
        depth: passages per ranking.

    Yields:
        A ranking for each query, in the order given.
    """
    faiss = require("faiss", "neural", "dense search")

    def retrieve(
        which: npt.NDArray[np.int64], k: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        scores = np.empty((len(which), 0), np.float32)
        rows = np.empty((len(which), 0), np.int64)
        start = 0
        for file in files:
            vectors = np.load(file)
            index = faiss.IndexFlatIP(vectors.shape[1])
            index.add(vectors)
            found, places = index.search(block[which], min(k, len(vectors)))
            scores = np.concatenate([scores, found], axis=1)
            rows = np.concatenate([rows, places + start], axis=1)
            best = np.argsort(-scores, axis=1)[:, :k]
            scores = np.take_along_axis(scores, best, axis=1)
            rows = np.take_along_axis(rows, best, axis=1)
            start += len(vectors)
        return scores, rows

    for first in range(0, len(queries), _QUERIES):
        block = queries[first : first + _QUERIES]
        yield from rank(retrieve, ids, len(block), depth=depth)
