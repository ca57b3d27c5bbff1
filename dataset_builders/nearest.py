"""The nearest centroid of each row, decided by 64-bit distances, at the speed of 32-bit products.

A 32-bit matrix product *proposes*: it settles a row only if the two best centroids are further
apart than its rounding error can be; see `_Proposals`. All other rows are *decided* by 64-bit
distances, summed in an order that the code spells out; see `squared_distances`. As the bound
covers the error of those, too, every label is the one that 64-bit distances alone would give, for
any BLAS and any number of threads.

Sources: Higham (2002), "Accuracy and stability of numerical algorithms", section 3.1; Hamerly
(2010), "Making k-means even faster".
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import in_parallel, slices

__all__ = [
    "Tracker",
    "assign",
    "margins_of",
    "measure",
    "squared_distances",
    "two_nearest",
]

Labels: TypeAlias = NDArray[np.int32]

_BLOCK = 4096
"""Rows per matrix product."""
_PAIRS = 128
"""Pairs per 64-bit computation, few enough to stay in the processor's cache."""
_LARGEST_NORM = 1e18
"""Squares and products of longer vectors could leave the range of 32-bit floats."""


def assign(vectors: Vectors, centroids: Floats) -> tuple[Labels, Floats]:
    """Give each row its nearest centroid; ties go to the lower index.

    Args:
        vectors: shape (n, d), finite; may be a memory map, it is read in blocks.
        centroids: shape (k, d), finite, k at least 2.

    Returns:
        The labels, shape (n,), and the margins, shape (n,): 1 - d1 / d2 with the Euclidean
        distances to the nearest and the second nearest centroid. 0 is a tie, 1 is on the centroid.
        As a ratio it does not depend on the scale of the encoder.

    Raises:
        UsageError: if the shapes or types do not fit together.
        DataError: if a value is not finite, or beyond 1e18.
    """
    norms, _ = measure(vectors)
    if centroids.ndim != 2 or len(centroids) < 2 or centroids.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"centroids have shape {centroids.shape}; expected at least 2 of {vectors.shape[1]} "
            "columns, like the vectors"
        )
    if not np.linalg.norm(centroids, axis=1).max() < _LARGEST_NORM:
        raise DataError(f"a centroid holds a value that is not finite or beyond {_LARGEST_NORM:g}")
    labels, nearest, second = two_nearest(vectors, norms, centroids)
    return labels, margins_of(nearest, second)


def squared_distances(
    vectors: NDArray[np.floating[Any]],
    rows: Ints,
    centroids: Floats,
    clusters: NDArray[np.integer[Any]],
) -> Floats:
    """Return the squared distance of each pair of a row and a cluster, in 64 bits.

    Every operation is one correctly rounded addition or product of 64-bit floats, in a fixed
    order: the bits are the same on every processor.
    """
    result = np.empty(len(rows))
    for pairs in slices(len(rows), _PAIRS):
        difference = vectors[rows[pairs]] - centroids[clusters[pairs]]
        difference *= difference
        result[pairs] = _sum_by_halves(difference)
    return result


def _sum_by_halves(values: Floats) -> Floats:
    """Sum each row by adding its upper half to its lower half until one is left; overwrites."""
    width = values.shape[1]
    while width > 1:
        half = width // 2
        values[:, :half] += values[:, width - half : width]
        width -= half
    return values[:, 0]


class _Proposals:
    """Centroids, prepared for 32-bit proposals, and how far those may be wrong.

    With a fixed centre m and c' = c - m, the squared distance of x and c is

        |x - m|^2 - 2 (x.c' - h),    h = (|c|^2 - |m|^2) / 2,

    so that the nearest centroid has the largest score x.c' - h. With u = 2^-24 and
    g = (d + 4) u / (1 - (d + 4) u), summed in any order and with or without fused multiplication,
    a computed score differs from the exact one by at most

        E = g |x| max|c'| + 3 u max|h| + e (|x| + max|c|)^2 + t

    where the first term covers the rounding of c' to 32 bits and the product (Higham, equation
    3.5), the second the rounding of h and its subtraction; e = (d + 8) 2^-52 covers h itself and
    the 64-bit distances by which the other rows are decided, and t = (d + 2) 2^-126 underflow.
    Scores more than 2 E apart are in the order that 64-bit distances give.

    Attributes:
        centre: m, shape (d,): the closer it is to the centroids, the smaller E.
        longest: max|c|.
        double: e.
    """

    def __init__(self, centroids: Floats, centre: Floats) -> None:
        d = centroids.shape[1]
        squares = (centroids * centroids).sum(axis=1)
        shifted = centroids - centre
        halves = (squares - (centre * centre).sum()) / 2
        self.longest = math.sqrt(squares.max())
        self.double = (d + 8) * 2.0**-52
        self._factors = np.ascontiguousarray(shifted.T, dtype=np.float32)
        self._halves = halves.astype(np.float32)
        rounding = (d + 4) * 2.0**-24
        self._per_norm = rounding / (1 - rounding) * np.linalg.norm(shifted, axis=1).max()
        self._constant = 3 * 2.0**-24 * np.abs(halves).max() + (d + 2) * 2.0**-126

    def scores(self, block: Vectors, norms: Floats) -> tuple[Vectors, Floats]:
        """Return the scores, shape (m, k), and 2 E for each row."""
        scores = block @ self._factors
        scores -= self._halves
        error = self._per_norm * norms + self.double * (norms + self.longest) ** 2
        # 1% makes up for the rounding of the norms, and of this
        return scores, 2.02 * (error + self._constant)


class Tracker:
    """Labels that follow the centroids of k-means from iteration to iteration.

    It computes distances of a row only if its label may have changed. `_room` is a lower bound of
    how much nearer a row is to its centroid than to any other (Hamerly, 2010): it shrinks by as
    much as the centroids move, and as long as it is positive, the label stays. It comes from 32-bit
    scores, less their error; differences between two BLAS change only the time.

    Attributes:
        labels: shape (n,): the nearest of the centroids followed last; -1 before.
    """

    def __init__(self, vectors: Vectors, norms: Floats, centroids: Floats) -> None:
        n = len(vectors)
        self.labels = np.full(n, -1, np.int32)
        self._vectors = vectors
        self._norms = norms
        self._centre = centroids.mean(axis=0)
        self._previous = centroids
        self._room = np.full(n, -np.inf)
        self._radii = np.empty(n)
        centre = self._centre.astype(np.float32)
        rounding = 1e-6 * (norms + np.linalg.norm(centre))
        for rows in slices(n, _BLOCK):
            self._radii[rows] = np.linalg.norm(vectors[rows] - centre, axis=1)
        self._radii = 1.01 * self._radii + rounding

    def follow(self, centroids: Floats) -> tuple[Ints, Labels]:
        """Bring the labels up to date.

        Returns:
            The rows whose label changed, ascending, and the labels that they had.
        """
        moves = (1 + 1e-6) * np.linalg.norm(centroids - self._previous, axis=1)
        others = np.full_like(moves, moves.max())
        others[moves.argmax()] = np.partition(moves, -2)[-2]
        self._room -= (moves + others)[self.labels]
        self._previous = centroids
        before = self.labels.copy()
        table = _Proposals(centroids, self._centre)
        # distances this close may compare either way in 64 bits
        stale = ~(self._room > table.double * (self._norms + table.longest))

        def update(block: slice) -> None:
            rows: slice | Ints = block
            share = stale[block].mean()
            if share < 0.5:  # else copying them takes longer than computing all
                rows = block.start + np.flatnonzero(stale[block])
            if share > 0:
                self._look(rows, table)

        in_parallel(update, slices(len(stale), _BLOCK))
        changed = np.flatnonzero(self.labels != before)
        return changed, before[changed]

    def _look(self, rows: slice | Ints, table: _Proposals) -> None:
        block = self._vectors[rows]
        scores, slack = table.scores(block, self._norms[rows])
        best, first, second = _two_largest(scores)
        gap = first - second - slack
        # "not larger" rather than "smaller": scores that overflowed leave a row undecided, too
        close = np.flatnonzero(~(gap > 0))
        contenders = _at_least(scores[close], first[close] - slack[close])
        best[close], _, _ = _decide(block[close], contenders, self._previous)
        self.labels[rows] = best
        squared = self._radii[rows] ** 2
        farthest = sum(np.sqrt(np.maximum(squared - 2 * s, 0) + slack) for s in (first, second))
        self._room[rows] = 2 * gap / farthest


def two_nearest(
    vectors: Vectors, norms: Floats, centroids: Floats
) -> tuple[Labels, Floats, Floats]:
    """Return the nearest centroid of each row, and the two smallest squared distances."""
    table = _Proposals(centroids, centroids.mean(axis=0))
    labels = np.empty(len(vectors), np.int32)
    distances = np.empty((2, len(vectors)))

    def look(rows: slice) -> None:
        block = vectors[rows]
        scores, slack = table.scores(block, norms[rows])
        _, _, second = _two_largest(scores)
        contenders = _at_least(scores, second - slack)
        labels[rows], *distances[:, rows] = _decide(block, contenders, centroids)

    in_parallel(look, slices(len(vectors), _BLOCK))
    return labels, distances[0], distances[1]


def _two_largest(scores: Vectors) -> tuple[Ints, Floats, Floats]:
    """Return where each row is largest, its largest value and its second largest."""
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    first = scores[rows, best]
    scores[rows, best] = -np.inf
    second = scores.max(axis=1)
    scores[rows, best] = first
    return best, first.astype(np.float64), second.astype(np.float64)


def _at_least(scores: Vectors, threshold: Floats) -> NDArray[np.bool_]:
    below = np.nextafter(threshold.astype(np.float32), np.float32(-np.inf))
    return ~(scores < below[:, np.newaxis])


def _decide(
    block: Vectors, contenders: NDArray[np.bool_], centroids: Floats
) -> tuple[Ints, Floats, Floats]:
    """Return each row's nearest contender, and the two smallest squared distances.

    Every row has two contenders at least.
    """
    rows, clusters = np.nonzero(contenders)
    squared = squared_distances(block, rows, centroids, clusters)
    order = np.lexsort((clusters, squared, rows))
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return clusters[order[starts]], squared[order[starts]], squared[order[starts + 1]]


def margins_of(nearest: Floats, second: Floats) -> Floats:
    """Return the margins that belong to the two smallest squared distances; see `assign`."""
    ratio = np.ones_like(nearest)
    np.divide(np.sqrt(nearest), np.sqrt(second), out=ratio, where=second > 0)
    return 1 - ratio


def measure(vectors: Vectors) -> tuple[Floats, Vectors]:
    """Return the length of each row and the largest magnitude in each column.

    Raises:
        UsageError: if it is not a matrix of 32-bit floats.
        DataError: if a value is not finite, or beyond 1e18.
    """
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise UsageError(
            "vectors must be a matrix of 32-bit floats, not of shape "
            f"{vectors.shape} and type {vectors.dtype}"
        )
    norms = np.empty(len(vectors))
    peaks = np.zeros(vectors.shape[1], np.float32)
    for rows in slices(len(vectors), _BLOCK):
        block = vectors[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # errors are reported below
            norms[rows] = np.linalg.norm(block, axis=1)
            np.maximum(peaks, np.abs(block).max(axis=0), out=peaks)
    wrong = np.flatnonzero(~(norms < _LARGEST_NORM))
    if wrong.size:
        raise DataError(
            f"{wrong.size} of {len(vectors)} vectors hold a value that is not finite or beyond "
            f"{_LARGEST_NORM:g}; the first is row {wrong[0]}"
        )
    return norms, peaks
