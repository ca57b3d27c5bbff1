"""Exact top-k: rankings whose cut does not depend on how a library breaks ties.

A library's top-k keeps arbitrary passages among those that tie with the last one. `rank` asks for
more than it needs, proves from what came back that nothing outside can belong to the ranking, and
asks again, deeper, where the proof fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MARGIN", "PassageIds", "Ranking", "Retrieve", "rank"]

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
