"""k-means whose result is the same on every machine, for any number of threads and any BLAS.

Two k-means libraries, or one with two thread counts, disagree on some labels because 32-bit sums
depend on their order. Here no rounding that depends on an order decides anything:

- Labels: 64-bit distances decide them; see `nearest`.
- Centroids: rows are added as whole numbers of a fine grid (`_Sums`). Such sums are exact, so that
  they depend neither on their order nor on rows that were added and taken away before.
- Draws: sampled rows and drawn numbers are keyed BLAKE2b hashes of the seed and the keys.

Sources: Lloyd (1982), "Least squares quantization in PCM"; Arthur and Vassilvitskii (2007),
"k-means++: the advantages of careful seeding".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.dataset_builders.nearest import (
    Labels,
    Tracker,
    assign,
    margins_of,
    measure,
    squared_distances,
    two_nearest,
)
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import Progress, in_parallel, silent, slices

__all__ = ["Clusters", "assign", "kmeans"]

_SAMPLE_PER_CLUSTER = 64
_BLOCK = 1024
"""Rows of the sample that a thread weighs at a time."""
_PART = 128
"""Rows per sum, few enough to stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The result of `kmeans`. Clusters are numbered by size, the largest is 0.

    Attributes:
        centroids: shape (k, d).
        labels: shape (n,): the nearest centroid of each row, as `assign` gives it.
        margins: shape (n,), from 0 to 1; see `assign`.
        sizes: shape (k,): the rows of each cluster, at least 1.
        inertia: the sum of the squared distances of all rows to their centroids.
        iterations: how often the centroids were moved.
    """

    centroids: Floats
    labels: Labels
    margins: Floats
    sizes: Ints
    inertia: float
    iterations: int


def kmeans(
    vectors: Vectors,
    keys: Sequence[str],
    *,
    k: int = 100,
    iterations: int = 25,
    seed: int = 0,
    progress: Progress = silent,
) -> Clusters:
    """Cluster the rows of a matrix by Lloyd's algorithm.

    It starts from k-means++ on the 64 k rows whose keys have the smallest keyed hashes (on all, if
    there are fewer), and ends when no label changes or after `iterations` moves of the centroids.
    A cluster that loses all its rows is moved to the row that is farthest from its own centroid.
    Identical vectors always get the same label. Clusters are numbered by size, descending, ties by
    the smallest key; a row exactly half-way between two belongs to the lower number.

    Args:
        vectors: shape (n, d), finite; may be a memory map, it is read in blocks.
        keys: a key for each row, e.g. its query_id, ascending, so that the result does not depend
            on the order in which rows were first listed.
        k: the number of clusters.
        iterations: at most how often the centroids move.
        seed: the seed of the sample and of k-means++.
        progress: called after each iteration; at the end, the total is how many there were.

    Raises:
        UsageError: if the arguments do not fit together, or the keys are not ascending.
        DataError: if the vectors are not finite, or fewer than `k` of those sampled are distinct.
    """
    if not 2 <= k <= len(vectors):
        raise UsageError(f"k-means: k must be from 2 to the number of rows, {len(vectors)}: {k}")
    if iterations < 1:
        raise UsageError(f"k-means: iterations must be at least 1: {iterations}")
    _check_keys(keys, len(vectors))
    norms, peaks = measure(vectors)
    centroids = _first_centroids(vectors, keys, k, seed)
    sums = _Sums(vectors, peaks, k)
    tracker = Tracker(vectors, norms, centroids)
    moves = 0
    while moves < iterations:
        rows, old = tracker.follow(centroids)
        if rows.size == 0:
            break
        sums.move(rows, old, tracker.labels[rows])
        centroids = sums.centroids(centroids)
        centroids = _fill_empty(vectors, centroids, tracker.labels)
        moves += 1
        progress("k-means", moves, iterations)
    if moves < iterations:
        progress("k-means", moves, moves)
    return _finish(vectors, norms, centroids, moves)


class _Sums:
    """The exact sums of the clusters' rows, on a grid.

    A column's grid is the power of two that lets n values of its largest magnitude sum to less
    than 2^53 steps: every partial sum, in any order, is then a whole number that 64-bit floats
    hold exactly. At n = 500,000 a step is 2^-33 of the column's largest magnitude or less, far
    finer than what 32-bit floats resolve there.
    """

    def __init__(self, vectors: Vectors, peaks: Vectors, k: int) -> None:
        _, exponents = np.frexp(peaks.astype(np.float64))
        self._step = np.ldexp(1.0, exponents + len(vectors).bit_length() - 53)
        self._vectors = vectors
        self._sums = np.zeros((k, vectors.shape[1]))
        self._sizes = np.zeros(k, np.int64)

    def move(self, rows: Ints, old: Labels, new: Labels) -> None:
        """Take `rows` from their old clusters (-1 is none) and add them to their new ones."""
        for labels, sign in ((old, -1), (new, 1)):
            order = np.argsort(labels, kind="stable")
            clusters, starts = np.unique(labels[order], return_index=True)
            parts = np.split(rows[order], starts[1:])
            by_cluster = zip(clusters.tolist(), parts, strict=True)
            changes = [(cluster, members, sign) for cluster, members in by_cluster if cluster >= 0]
            in_parallel(self._add, changes)

    def _add(self, item: tuple[int, Ints, int]) -> None:
        cluster, members, sign = item
        for part in slices(len(members), _PART):
            steps = self._vectors[members[part]] / self._step
            self._sums[cluster] += sign * np.rint(steps, out=steps).sum(axis=0)
        self._sizes[cluster] += sign * len(members)

    def centroids(self, previous: Floats) -> Floats:
        """Return the means of the clusters; an empty one keeps its centroid."""
        sizes = self._sizes[:, np.newaxis]
        means = self._sums / np.maximum(sizes, 1) * self._step
        return np.where(sizes > 0, means, previous)


def _fill_empty(vectors: Vectors, centroids: Floats, labels: Labels) -> Floats:
    """Move each empty cluster to a row that is farthest from its own centroid.

    The first empty cluster takes the farthest row, the next the farthest with another vector;
    equally far, the first row. As k vectors at least are distinct, there are enough.
    """
    empty = np.flatnonzero(np.bincount(labels, minlength=len(centroids)) == 0)
    if empty.size == 0:
        return centroids
    squared = squared_distances(vectors, np.arange(len(vectors)), centroids, labels)
    taken: list[Floats] = []
    for row in np.argsort(-squared, kind="stable"):
        vector = vectors[row].astype(np.float64)
        if not any(np.array_equal(vector, other) for other in taken):
            taken.append(vector)
        if len(taken) == len(empty):
            break
    filled = centroids.copy()
    filled[empty] = taken
    return filled


def _finish(vectors: Vectors, norms: Floats, centroids: Floats, moves: int) -> Clusters:
    """Number the clusters, and label all rows by the final centroids.

    Moving an empty cluster lowers the inertia. Numbering by size, and giving the rows that are
    half-way between clusters to the lower number, both lower the sum of size times number. So the
    loop ends.
    """
    k = len(centroids)
    labels, nearest, second = two_nearest(vectors, norms, centroids)
    while True:
        filled = _fill_empty(vectors, centroids, labels)
        if filled is not centroids:
            centroids = filled
            labels, nearest, second = two_nearest(vectors, norms, centroids)
            continue
        sizes = np.bincount(labels, minlength=k)
        first_rows = np.unique(labels, return_index=True)[1]
        order = np.lexsort((first_rows, -sizes))
        if np.array_equal(order, np.arange(k)):
            margins = margins_of(nearest, second)
            inertia = math.fsum(nearest.tolist())
            return Clusters(centroids, labels, margins, sizes, inertia, moves)
        centroids = centroids[order]
        labels = np.argsort(order).astype(np.int32)[labels]
        tied = np.flatnonzero(nearest == second)
        if tied.size:
            labels[tied], _, _ = two_nearest(vectors[tied], norms[tied], centroids)


def _first_centroids(vectors: Vectors, keys: Sequence[str], k: int, seed: int) -> Floats:
    """Choose k rows of a sample by k-means++: each by its squared distance to those before."""
    rows = _sample(keys, _SAMPLE_PER_CLUSTER * k, seed)
    sampled = vectors[rows]
    centroids = np.empty((k, vectors.shape[1]))
    weights = np.ones(len(rows))

    def weigh(part: slice) -> None:
        places = np.arange(part.start, part.stop)
        squared = squared_distances(sampled, places, centroids, np.full_like(places, turn))
        weights[part] = squared if turn == 0 else np.minimum(weights[part], squared)

    for turn in range(k):
        if not weights.any():
            raise DataError(
                f"k-means: {len(rows)} rows hold {turn} distinct vectors, and {k} clusters "
                f"need {k}; embed with another encoder"
            )
        sums = np.cumsum(weights)
        place = np.searchsorted(sums, _uniform(seed, turn) * sums[-1], side="right")
        # the product may round up to the sum itself
        row = min(int(place), int(np.flatnonzero(weights)[-1]))
        centroids[turn] = sampled[row]
        in_parallel(weigh, slices(len(rows), _BLOCK))
    return centroids


def _sample(keys: Sequence[str], count: int, seed: int) -> Ints:
    """Return the rows whose keys have the smallest keyed hashes, ascending; at most `count`."""
    if len(keys) <= count:
        return np.arange(len(keys))
    salt = f"{seed}/k-means/sample".encode()
    hashes = b"".join(
        hashlib.blake2b(key.encode(), digest_size=8, key=salt).digest() for key in keys
    )
    return np.sort(np.argsort(np.frombuffer(hashes, ">u8"), kind="stable")[:count])


def _uniform(seed: int, turn: int) -> float:
    """Return a number from 0 to 1, exclusive, that depends on the seed and the turn alone."""
    key = f"{seed}/k-means/draw".encode()
    digest = hashlib.blake2b(str(turn).encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def _check_keys(keys: Sequence[str], rows: int) -> None:
    if len(keys) != rows:
        raise UsageError(f"k-means: {len(keys)} keys for {rows} rows")
    for place, (key, following) in enumerate(pairwise(keys)):
        if key >= following:
            raise UsageError(
                f"k-means: keys must ascend, but {following!r} (row {place + 1}) follows {key!r}; "
                "sort the rows by key, each key once"
            )
