"""The clusters that are farthest from each other, exactly.

Source: MS-Shift (ECIR 2023), section 3.1, "Query Topics", step (ii): the five clusters whose
centroids maximise the sum of pairwise Euclidean distances.
"""

from __future__ import annotations

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.dataset_builders.nearest import squared_distances
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import Progress, silent

__all__ = ["pairwise_distances", "select_farthest"]


_MOST = 90
"""The most clusters that can be chosen."""
_HEADROOM = 13
"""Bits that pairwise distances leave free, so that all entries of a 90 x 90 matrix sum exactly."""


def pairwise_distances(centroids: Floats) -> Floats:
    """Return the Euclidean distances between all centroids, shape (k, k), on a grid.

    They are rounded to multiples of a power of two, about 2^-40 of the largest, so that sums of
    distances are exact in any order, and subsets that differ by less count as equally far apart.
    """
    k = len(centroids)
    first, second = np.triu_indices(k, 1)
    distances = np.zeros((k, k))
    distances[first, second] = np.sqrt(squared_distances(centroids, first, centroids, second))
    _, exponent = np.frexp(distances.max())
    step = np.ldexp(1.0, int(exponent) + _HEADROOM - 53)
    rounded: Floats = np.rint(distances / step) * step
    return rounded + rounded.T


def select_farthest(
    centroids: Floats, count: int = 5, progress: Progress = silent
) -> tuple[int, ...]:
    """Find the `count` clusters that maximise the sum of their pairwise distances.

    Depth-first search over ascending subsets, in lexicographic order. Let a prefix S of it have
    the sum b, let g(v) be the sum of the distances from v to S, and let r clusters be missing,
    all of them from the suffix P of clusters after S. Any completion R adds the sum of g over R,
    at most the r largest of g over P, and the r (r - 1) / 2 distances within R, at most as many of
    the largest distances within P. A prefix whose b plus both is below the best sum so far cannot
    lead to the optimum, nor to a tie with it, and is skipped. The last two clusters are found in a
    matrix of all pairs. All sums are exact; see `pairwise_distances`.

    Args:
        centroids: shape (k, d), finite.
        count: how many clusters, at most 90.
        progress: called after each first cluster.

    Returns:
        The clusters, ascending; of several best subsets the lexicographically smallest.

    Raises:
        UsageError: if there are fewer than `count` clusters, or `count` is out of range.
    """
    k = len(centroids)
    if not 1 <= count <= min(k, _MOST):
        raise UsageError(f"cannot choose {count} of {k} clusters; from 1 to {min(k, _MOST)} can be")
    if count == 1:
        return (0,)
    search = _Search(pairwise_distances(centroids), count)
    for first in range(k - count + 1):
        search.extend((first,), 0.0, search.distances[first])
        progress("selection", first + 1, k - count + 1)
    return search.best


class _Search:
    """The state of the search: the best subset so far, and what its bound needs."""

    def __init__(self, distances: Floats, count: int) -> None:
        self.distances = distances
        self.count = count
        self.best = _greedy(distances, count)
        self._best_sum = float(distances[np.ix_(self.best, self.best)].sum() / 2)
        k, within = len(distances), count * (count - 1) // 2
        # pairs in ascending order only
        self._pairs = np.where(np.tri(k, dtype=bool), -np.inf, distances)
        self._largest = [
            np.sort(distances[start:, start:][np.triu_indices(k - start, 1)])[::-1][:within]
            for start in range(k)
        ]

    def extend(self, prefix: tuple[int, ...], base: float, gains: Floats) -> None:
        """Search all subsets that begin with `prefix`.

        Args:
            prefix: ascending clusters.
            base: the sum of their pairwise distances.
            gains: shape (k,): the sum of the distances from each cluster to the prefix.
        """
        missing = self.count - len(prefix)
        start = prefix[-1] + 1
        if missing <= 2:
            self._complete(prefix, base, gains, missing)
            return
        largest_gains = np.sort(gains[start:])[-missing:].sum()
        largest_pairs = self._largest[start][: missing * (missing - 1) // 2].sum()
        if base + largest_gains + largest_pairs < self._best_sum:
            return
        for cluster in range(start, len(gains) - missing + 1):
            self.extend(
                (*prefix, cluster), base + float(gains[cluster]), gains + self.distances[cluster]
            )

    def _complete(self, prefix: tuple[int, ...], base: float, gains: Floats, missing: int) -> None:
        start = prefix[-1] + 1
        last = gains[start:]
        sums = last if missing == 1 else self._pairs[start:, start:] + last + last[:, np.newaxis]
        place = sums.argmax()
        total = base + float(sums.flat[place])
        if total < self._best_sum:
            return
        places = np.unravel_index(place, sums.shape)
        subset = (*prefix, *(start + int(index) for index in places))
        if total > self._best_sum or subset < self.best:
            self.best, self._best_sum = subset, total


def _greedy(distances: Floats, count: int) -> tuple[int, ...]:
    """Return a good subset: the farthest two, then always the one farthest from all so far.

    Then single clusters are exchanged as long as the sum grows.
    """
    chosen = [int(place) for place in np.unravel_index(distances.argmax(), distances.shape)]
    if chosen[0] == chosen[1]:
        return tuple(range(count))
    while len(chosen) < count:
        gains = distances[chosen].sum(axis=0)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
    improved = True
    while improved:
        improved = False
        for place in range(count):
            rest = chosen[:place] + chosen[place + 1 :]
            gains = distances[rest].sum(axis=0)
            gains[rest] = -1
            if gains.max() > gains[chosen[place]]:
                chosen[place] = int(gains.argmax())
                improved = True
    return tuple(sorted(chosen))
