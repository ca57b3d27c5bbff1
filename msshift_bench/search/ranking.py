"""Exact top-k: rankings whose cut does not depend on how a library breaks ties.

A library's top-k keeps arbitrary passages among those that tie with the last one. `rank` asks
for more than it needs, proves from what came back that nothing outside can belong to the ranking,
and asks again, deeper, where the proof fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "EXTRA_PASSAGES",
    "PassageIds",
    "Ranking",
    "Retrieve",
    "ranking_keys",
    "rank",
    "rankings_of",
    "split_keys",
]

EXTRA_PASSAGES = 100
"""Passages to retrieve beyond the depth, so that ties at the cut are usually inside."""

Ranking = dict[str, float]
"""doc_id -> score, best first; equal scores by doc_id, descending."""

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
        self._words: npt.NDArray[np.object_] | None = np.array(doc_ids, dtype=object)[self.sorted]

    @classmethod
    def stored(
        cls,
        ids: npt.NDArray[Any],
        in_order: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
    ) -> PassageIds:
        """Take the three arrays from a file; see the attributes."""
        made = cls.__new__(cls)
        made.ids, made.sorted, made.order, made._words = ids, in_order, order, None
        return made

    def words(self, places: npt.NDArray[np.int64]) -> list[str]:
        """Return the doc_ids at places in their order, as Python strings."""
        # All rankings share the strings if there are any: they take 60 bytes a passage.
        found = self.ids[self.sorted[places]] if self._words is None else self._words[places]
        return found.tolist()  # type: ignore[no-any-return]

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
    return rankings_of(_cut(retrieve, ids, queries, depth, floor), ids, floor=floor)


def rankings_of(
    best: npt.NDArray[np.int64], ids: PassageIds, *, floor: float = -math.inf
) -> list[Ranking]:
    """Turn packed passages and scores into rankings.

    Args:
        best: each query's passages, packed (see `ranking_keys`), of shape ``(queries, depth)``.
        ids: the collection's doc_ids.
        floor: passages that do not score above it are not part of a ranking.
    """
    rankings: list[Ranking] = []
    for row in np.sort(best, axis=1)[:, ::-1]:
        scores, places = split_keys(row)
        kept = np.count_nonzero(scores > floor)
        doc_ids = ids.words(places[:kept])
        rankings.append(dict(zip(doc_ids, scores[:kept].tolist(), strict=True)))
    return rankings


def _cut(
    retrieve: Retrieve, ids: PassageIds, queries: int, depth: int, floor: float
) -> npt.NDArray[np.int64]:
    """Return each query's `depth` best passages, packed, in any order."""
    depth = min(depth, len(ids))
    best = np.empty((queries, depth), np.int64)
    pending = np.arange(queries)
    reach = depth + EXTRA_PASSAGES
    while pending.size:
        reach = min(reach, len(ids))
        scores, rows = retrieve(pending, reach)
        lowest = scores.min(axis=1)
        keys = ranking_keys(scores, ids.order[rows])
        keys.partition(reach - depth, axis=1)
        keys = keys[:, reach - depth :]
        # A passage that was not retrieved scores at most `lowest`. So none belongs to the ranking
        # if the last passage kept scores more, or if `lowest` itself is no score.
        last, _ = split_keys(keys[:, 0])
        proven = (last > lowest) | (lowest <= floor) | (reach == len(ids))
        best[pending[proven]] = keys[proven]
        pending = pending[~proven]
        reach *= 2
    return best


def ranking_keys(
    scores: npt.NDArray[np.float32], places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Turn passages and their scores into integers, which sort several times faster than pairs.

    The upper half holds the bits of the score, the lower half the place of the doc_id. The bits of
    a negative number grow as it shrinks, so all but its sign are turned over. A score above 0 gives
    an integer above 0.

    Args:
        scores: the scores.
        places: the places of the passages in `PassageIds.order`, in the same shape.
    """
    bits = (scores + np.float32(0)).view(np.int32)  # adding makes -0.0 the same as 0.0
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return (bits.astype(np.int64) << 32) | places


def split_keys(
    keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the scores and places that `ranking_keys` packed."""
    bits = (keys >> 32).astype(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    return bits.view(np.float32), keys & 0xFFFFFFFF
