"""The nearest training queries of test texts that reach a cosine, from a stream of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.plumbing import slices
from msshift_bench.records import Query
from msshift_bench.similarity import CosineSearch, unit_rows

__all__ = ["NearDuplicates", "Neighbour"]

_TESTS = 8192
"""Test texts that pass over a block of training queries together."""
_TRAINING = 4096
"""Training queries per matrix product."""


class Neighbour(NamedTuple):
    """A training query near a test text; in the order of neighbours.

    Attributes:
        distance: the cosine times -1, in 64 bits.
        train_id: the training query.
        text: its text.
    """

    distance: float
    train_id: str
    text: str


class NearDuplicates:
    """The nearest training queries of each test text, of those that reach a cosine.

    Of equally near ones those count whose ids sort first, so that what is found depends neither on
    the size of blocks nor on the order of training queries.

    Args:
        tests: the vectors of the test texts, shape (texts, dimensions).
        least: the cosine from which on training queries count, above 0.
        most: how many of them count for a text.

    Attributes:
        found: the neighbours of each text, nearest first.
    """

    def __init__(self, tests: Vectors, *, least: float, most: int) -> None:
        self.found: list[list[Neighbour]] = [[] for _ in tests]
        self._tests, self._most = tests, most
        # The cosine that a further neighbour must have: the last one's, once there are enough.
        self._least = np.full(len(tests), least, dtype=np.float64)

    def meet(self, train: Sequence[Query], vectors: Vectors, rows: Ints) -> None:
        """Compare with further training queries.

        Args:
            train: the queries.
            vectors: the vectors of their texts, shape (texts, dimensions).
            rows: the row of each query's text, shape (queries,).
        """
        for tests in slices(len(self._tests), _TESTS):
            search = CosineSearch(unit_rows(self._tests[tests]))
            for part in slices(len(train), _TRAINING):
                self._meet(tests, search, train[part], unit_rows(vectors[rows[part]]))

    def _meet(
        self, tests: slice, search: CosineSearch, train: Sequence[Query], exact: Floats
    ) -> None:
        pairs: list[tuple[Ints, Ints, Floats]] = []
        known = self._least[tests]

        def least(part: slice, _: Vectors) -> Floats:
            return known[part]

        def take(queries: Ints, places: Ints, cosines: Floats) -> None:
            enough = np.flatnonzero(cosines >= known[queries])
            if len(enough):
                pairs.append((queries[enough] + tests.start, places[enough], cosines[enough]))

        search.meet(exact, least, take)
        if pairs:
            columns = (np.concatenate(column) for column in zip(*pairs, strict=True))
            self._keep(train, *columns)

    def _keep(self, train: Sequence[Query], queries: Ints, places: Ints, cosines: Floats) -> None:
        """Keep the nearest of what was found in one block; arrays of the shape (pairs,)."""
        by_id = sorted(range(len(train)), key=lambda place: train[place].query_id)
        rank = np.empty(len(train), np.int64)
        rank[by_id] = np.arange(len(train))
        order = np.lexsort((rank[places], -cosines, queries))
        starts = np.flatnonzero(np.diff(queries[order], prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            nearest = order[start : min(end, start + self._most)]
            query = int(queries[nearest[0]])
            found = self.found[query]
            found += [
                Neighbour(-cosine, *train[place])
                for place, cosine in zip(
                    places[nearest].tolist(), cosines[nearest].tolist(), strict=True
                )
            ]
            found.sort()
            del found[self._most :]
            if len(found) == self._most:
                self._least[query] = -found[-1].distance
