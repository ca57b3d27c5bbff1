"""k-means whose result is the same on every machine, for any number of threads and any BLAS.

Two k-means libraries, or one with two thread counts, disagree on some labels, because 32-bit sums
depend on the order of their terms. In this module no label depends on such an order:

- Labels: a 32-bit matrix product *proposes* the nearest centroid of a row. The proposal counts only
  if its lead over the second-nearest centroid exceeds the rounding error; see `_Proposals`. All
  other rows are *decided* by 64-bit distances, summed in a fixed order; see `squared_distances`.
  The bound covers the error of 64-bit distances, too. So every label equals the label by 64-bit
  distances alone.
- Centroids: rows are added as integer multiples of a small step (`_Sums`). Such sums are exact, so
  they depend neither on the order of rows nor on rows that were added and removed before.
- Draws: sampled rows and drawn numbers are keyed BLAKE2b hashes of the seed and the keys.

Sources: Lloyd (1982), "Least squares quantization in PCM"; Arthur and Vassilvitskii (2007),
"k-means++: the advantages of careful seeding"; Higham (2002), "Accuracy and stability of numerical
algorithms", section 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import in_parallel, report_progress, slices
from msshift_bench.sampling import keyed_hashes, keyed_number

Labels: TypeAlias = NDArray[np.int32]

_SAMPLE_PER_CLUSTER = 64
_SAMPLED = 1024
"""Rows of the sample that a thread weights at a time."""
_PART = 128
"""Rows per sum, and pairs per 64-bit computation; small enough for the processor's cache."""
_BLOCK = 4096
"""Rows per matrix product."""
_LARGEST_NORM = 1e18
"""Largest length of a vector; squares of longer ones could exceed the range of 32-bit floats."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The result of `kmeans`. Clusters are numbered by size; the largest is 0.

    Attributes:
        centroids: shape (k, d).
        labels: shape (n,): the number of each row's nearest centroid; see `assign`.
        margins: shape (n,), from 0 to 1; see `assign`.
        inertia: the sum of the squared distances of all rows to their centroids.
    """

    centroids: Floats
    labels: Labels
    margins: Floats
    inertia: float


def kmeans(
    vectors: Vectors, keys: Sequence[str], *, k: int = 100, iterations: int = 25, seed: int = 0
) -> Clusters:
    """Cluster the rows of a matrix by Lloyd's algorithm.

    It starts with k-means++ on a sample: the 64 x `k` rows whose keys have the smallest keyed
    hashes, or all rows if there are fewer. It ends when no label changes, or after `iterations`
    moves of the centroids. An empty cluster is moved to the row that is farthest from its own
    centroid. Clusters are numbered by size, descending; ties are broken by the smallest key. A row
    half-way between two centroids gets the lower number.

    Args:
        vectors: shape (n, d), finite; may be a memory map, which is read in blocks.
        keys: a key for each row, e.g. its query_id, ascending, so that the result does not depend
            on the original order of the rows.
        k: the number of clusters.
        iterations: the most moves of the centroids.
        seed: the seed of the sample and of k-means++.

    Raises:
        UsageError: if `k` is not from 2 to n, or `iterations` is below 1. Also if the keys do not
            fit the rows or are not ascending, or `vectors` is not a matrix of 32-bit floats.
        DataError: if a vector is not finite or longer than 1e18, or the sample has fewer than `k`
            distinct vectors.
    """
    if not 2 <= k <= len(vectors):
        raise UsageError(
            f"k-means: k must be from 2 to the number of rows, {len(vectors)}, got {k}"
        )
    if iterations < 1:
        raise UsageError(f"k-means: iterations must be at least 1, got {iterations}")
    _check_keys(keys, len(vectors))
    norms, peaks = measure(vectors)
    centroids = _first_centroids(vectors, keys, k, seed)
    sums = _Sums(vectors, peaks, k)
    labels = np.full(len(vectors), -1, np.int32)
    moves = 0
    while moves < iterations:
        before, (labels, *_) = labels, two_nearest(vectors, norms, centroids, only_labels=True)
        moved = np.flatnonzero(labels != before)
        if moved.size == 0:
            break
        sums.move(moved, before[moved], labels[moved])
        centroids = sums.centroids(centroids)
        centroids = _fill_empty(vectors, centroids, labels)
        moves += 1
        report_progress("k-means", moves, iterations)
    if moves < iterations:
        report_progress("k-means", moves, moves)
    return _finish(vectors, norms, centroids)


class _Sums:
    """The exact sums of the clusters' rows, as integer multiples of a step per column.

    A column's step is a power of two, such that n values of the largest magnitude in the column sum
    to less than 2^53 steps. So every partial sum, in any order, is an integer that a 64-bit float
    represents exactly. At n = 500,000 a step is at most 2^-33 of the column's largest magnitude.
    """

    def __init__(self, vectors: Vectors, peaks: Vectors, k: int) -> None:
        _, exponents = np.frexp(peaks.astype(np.float64))
        self._step = np.ldexp(1.0, exponents + len(vectors).bit_length() - 53)
        self._vectors = vectors
        self._sums = np.zeros((k, vectors.shape[1]))
        self._sizes = np.zeros(k, np.int64)

    def move(self, rows: Ints, old: Labels, new: Labels) -> None:
        """Move rows, by number, from their old clusters (-1 for none) to their new clusters."""
        for labels, sign in ((old, -1), (new, 1)):
            order = np.argsort(labels, kind="stable")
            clusters, starts = np.unique(labels[order], return_index=True)
            by_cluster = zip(clusters.tolist(), np.split(rows[order], starts[1:]), strict=True)
            changes = [(cluster, members, sign) for cluster, members in by_cluster if cluster >= 0]
            in_parallel(self._add, changes)

    def _add(self, item: tuple[int, Ints, int]) -> None:
        cluster, members, sign = item
        for part in slices(len(members), _PART):
            steps = self._vectors[members[part]] / self._step
            self._sums[cluster] += sign * np.rint(steps, out=steps).sum(axis=0)
        self._sizes[cluster] += sign * len(members)

    def centroids(self, previous: Floats) -> Floats:
        """Return the means of the clusters; an empty cluster keeps its previous centroid."""
        sizes = self._sizes[:, np.newaxis]
        return np.where(sizes > 0, self._sums / np.maximum(sizes, 1) * self._step, previous)


def _fill_empty(vectors: Vectors, centroids: Floats, labels: Labels) -> Floats:
    """Return the centroids, with each empty cluster moved to a row far from its own centroid.

    Without empty clusters it is the same array. The first empty cluster gets the farthest row, the
    next the farthest row with another vector; ties go to the first row. At least k vectors are
    distinct, so there are enough rows.
    """
    empty = np.flatnonzero(np.bincount(labels, minlength=len(centroids)) == 0)
    if empty.size == 0:
        return centroids
    squared = squared_distances(vectors, np.arange(len(vectors)), centroids, labels)
    farthest = iter(np.argsort(-squared, kind="stable"))
    taken: list[Floats] = []
    while len(taken) < len(empty):
        vector = vectors[next(farthest)].astype(np.float64)
        if not any(np.array_equal(vector, other) for other in taken):
            taken.append(vector)
    filled = centroids.copy()
    filled[empty] = taken
    return filled


def _finish(vectors: Vectors, norms: Floats, centroids: Floats) -> Clusters:
    """Number the clusters by size, and label all rows by the final centroids.

    The loop ends: moving an empty cluster lowers the inertia. Numbering by size, and giving a row
    half-way between clusters the lower number, both lower the sum of size times number.
    """
    k = len(centroids)
    labels, nearest, second = two_nearest(vectors, norms, centroids)
    while True:
        filled = _fill_empty(vectors, centroids, labels)
        if filled is not centroids:
            centroids = filled
            labels, nearest, second = two_nearest(vectors, norms, centroids)
            continue
        _, first_rows, sizes = np.unique(labels, return_index=True, return_counts=True)
        order = np.lexsort((first_rows, -sizes))
        if np.array_equal(order, np.arange(k)):
            margins = margins_of(nearest, second)
            return Clusters(centroids, labels, margins, math.fsum(nearest.tolist()))
        centroids = centroids[order]
        labels = np.argsort(order).astype(np.int32)[labels]
        tied = np.flatnonzero(nearest == second)
        if tied.size:
            labels[tied], _, _ = two_nearest(vectors[tied], norms[tied], centroids)


def _first_centroids(vectors: Vectors, keys: Sequence[str], k: int, seed: int) -> Floats:
    """Choose k rows of a sample by k-means++: by squared distance to the nearest earlier choice.

    Fewer than k distinct vectors raise DataError.
    """
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
                f"k-means: {len(rows)} rows hold {turn} distinct vectors, expected at least {k}, "
                "one per cluster; use another encoder, or fewer clusters"
            )
        sums = np.cumsum(weights)
        place = np.searchsorted(sums, _uniform(seed, turn) * sums[-1], side="right")
        # The product may round up to the sum itself.
        centroids[turn] = sampled[min(int(place), int(np.flatnonzero(weights)[-1]))]
        in_parallel(weigh, slices(len(rows), _SAMPLED))
    return centroids


def _sample(keys: Sequence[str], count: int, seed: int) -> Ints:
    """Return the ascending numbers of the `count` rows (or all) with the smallest keyed hashes."""
    if len(keys) <= count:
        return np.arange(len(keys))
    hashes = keyed_hashes(keys, f"{seed}/k-means/sample")
    return np.sort(np.argsort(np.frombuffer(hashes, ">u8"), kind="stable")[:count])


def _uniform(seed: int, turn: int) -> float:
    """Return a number from 0 to below 1 that depends on the seed and the turn alone."""
    return (keyed_number(str(turn), f"{seed}/k-means/draw") >> 11) * 2.0**-53


def _check_keys(keys: Sequence[str], rows: int) -> None:
    if len(keys) != rows:
        raise UsageError(f"k-means: got {len(keys)} keys for {rows} rows; give one key per row")
    for place, (key, following) in enumerate(pairwise(keys)):
        if key >= following:
            raise UsageError(
                f"k-means: keys must ascend, but {following!r} (row {place + 1}) follows {key!r}; "
                "sort the rows by key, each key once"
            )


def assign(vectors: Vectors, centroids: Floats) -> tuple[Labels, Floats]:
    """Return the number of each row's nearest centroid, and how clearly it is the nearest.

    Args:
        vectors: shape (n, d), finite; may be a memory map, which is read in blocks.
        centroids: shape (k, d), finite, k at least 2.

    Returns:
        The labels, shape (n,), where ties go to the lower index, and the margins, shape (n,). A
        margin is 1 - d1 / d2, where d1 and d2 are the Euclidean distances to the nearest and the
        second-nearest centroid. It is 0 for a tie and 1 for a row on the centroid, and does not
        depend on the scale of the encoder.

    Raises:
        UsageError: if there are fewer than 2 centroids, or the shapes or types do not fit together.
        DataError: if a value is not finite, or a vector or centroid is longer than 1e18.
    """
    norms, _ = measure(vectors)
    if centroids.ndim != 2 or len(centroids) < 2 or centroids.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"centroids have shape {centroids.shape}; expected at least 2 rows and "
            f"{vectors.shape[1]} columns, as in the vectors"
        )
    if not np.linalg.norm(centroids, axis=1).max() < _LARGEST_NORM:
        raise DataError(
            f"a centroid has a value that is not finite, or is longer than {_LARGEST_NORM:g}; "
            "cluster the vectors again"
        )
    labels, nearest, second = two_nearest(vectors, norms, centroids)
    return labels, margins_of(nearest, second)


def squared_distances(
    vectors: NDArray[np.floating[Any]],
    rows: Ints,
    centroids: Floats,
    clusters: NDArray[np.integer[Any]],
) -> Floats:
    """Return the squared distance of each pair of a row and a cluster, in 64 bits.

    Pair i is row ``rows[i]`` of `vectors` and row ``clusters[i]`` of `centroids`. Every operation
    is one correctly rounded addition or multiplication of 64-bit floats, in a fixed order. So the
    result is the same on every processor, to the last bit.
    """
    result = np.empty(len(rows))
    for pairs in slices(len(rows), _PART):
        difference = vectors[rows[pairs]] - centroids[clusters[pairs]]
        difference *= difference
        result[pairs] = _sum_by_halves(difference)
    return result


def _sum_by_halves(values: Floats) -> Floats:
    """Sum each row by adding its upper half to its lower half repeatedly; overwrites `values`."""
    width = values.shape[1]
    while width > 1:
        half = width // 2
        values[:, :half] += values[:, width - half : width]
        width -= half
    return values[:, 0]


class _Proposals:
    """Centroids, prepared for 32-bit proposals, and the bound on the error of the proposals.

    With a fixed centre m and c' = c - m, the squared distance of x and c is

        |x - m|^2 - 2 (x.c' - h),    h = (|c|^2 - |m|^2) / 2,

    so that the nearest centroid has the largest score x.c' - h. Let u = 2^-24 and
    g = (d + 4) u / (1 - (d + 4) u). Summed in any order, with or without fused multiplication, a
    computed score differs from the exact score by at most

        E = g |x| max|c'| + 3 u max|h| + e (|x| + max|c|)^2 + t

    The first term covers the rounding of c' to 32 bits and the product (Higham, equation 3.5). The
    second covers the rounding of h and its subtraction. e = (d + 8) 2^-52 covers h itself and the
    64-bit distances of the decided rows. t = (d + 2) 2^-126 covers underflow. Scores more than 2 E
    apart are in the order of the 64-bit distances.
    """

    def __init__(self, centroids: Floats, centre: Floats) -> None:
        d = centroids.shape[1]
        squares = (centroids * centroids).sum(axis=1)
        shifted = centroids - centre
        halves = (squares - (centre * centre).sum()) / 2
        self._longest = math.sqrt(squares.max())
        self._double = (d + 8) * 2.0**-52
        self._factors = np.ascontiguousarray(shifted.T, dtype=np.float32)
        self._halves = halves.astype(np.float32)
        rounding = (d + 4) * 2.0**-24
        self._per_norm = rounding / (1 - rounding) * np.linalg.norm(shifted, axis=1).max()
        self._constant = 3 * 2.0**-24 * np.abs(halves).max() + (d + 2) * 2.0**-126

    def scores(self, block: Vectors, norms: Floats) -> tuple[Vectors, Floats]:
        """Return the scores, shape (m, k), and 2 E for each row."""
        scores = block @ self._factors
        scores -= self._halves
        error = self._per_norm * norms + self._double * (norms + self._longest) ** 2
        # 1% covers the rounding of the norms, and of this expression.
        return scores, 2.02 * (error + self._constant)


def two_nearest(
    vectors: Vectors, norms: Floats, centroids: Floats, *, only_labels: bool = False
) -> tuple[Labels, Floats, Floats]:
    """Return the number of each row's nearest centroid, and the two smallest squared distances.

    Args:
        vectors: shape (n, d).
        norms: the lengths of the vectors, shape (n,).
        centroids: shape (k, d), k at least 2; ties go to the lower index.
        only_labels: compute 64-bit distances only for rows without a sure proposal. The returned
            distances are then undefined.
    """
    table = _Proposals(centroids, centroids.mean(axis=0))
    labels = np.empty(len(vectors), np.int32)
    distances = np.empty((2, len(vectors)))

    def label(rows: slice) -> None:
        block = vectors[rows]
        scores, slack = table.scores(block, norms[rows])
        best, first, second = _two_largest(scores)
        if only_labels:
            # "not larger" rather than "smaller": a row with overflowed scores is undecided, too.
            open_rows, threshold = np.flatnonzero(~(first - second - slack > 0)), first - slack
        else:
            open_rows, threshold = np.arange(len(block)), second - slack
        contenders = _at_least(scores[open_rows], threshold[open_rows])
        best[open_rows], *squared = _decide(block[open_rows], contenders, centroids)
        labels[rows] = best
        distances[:, rows.start + open_rows] = squared

    in_parallel(label, slices(len(vectors), _BLOCK))
    return labels, distances[0], distances[1]


def _two_largest(scores: Vectors) -> tuple[Ints, Floats, Floats]:
    """Return for each row the column of the largest value, this value, and the second largest."""
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
    """Return the number of each row's nearest centroid, and its two smallest squared distances.

    `contenders` selects the centroids to compare, at least two per row.
    """
    rows, clusters = np.nonzero(contenders)
    squared = squared_distances(block, rows, centroids, clusters)
    order = np.lexsort((clusters, squared, rows))
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return clusters[order[starts]], squared[order[starts]], squared[order[starts + 1]]


def margins_of(nearest: Floats, second: Floats) -> Floats:
    """Return the margins of rows from their two smallest squared distances; 0 if both are 0.

    See `assign`.
    """
    ratio = np.ones_like(nearest)
    np.divide(np.sqrt(nearest), np.sqrt(second), out=ratio, where=second > 0)
    return 1 - ratio


def measure(vectors: Vectors) -> tuple[Floats, Vectors]:
    """Return the length of each row and the largest magnitude in each column.

    Raises:
        UsageError: if `vectors` is not a matrix of 32-bit floats.
        DataError: if a value is not finite, or a row is longer than 1e18.
    """
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise UsageError(
            "vectors must be a matrix of 32-bit floats, got shape "
            f"{vectors.shape} and type {vectors.dtype}"
        )
    norms = np.empty(len(vectors))
    peaks = np.zeros(vectors.shape[1], np.float32)
    for rows in slices(len(vectors), _BLOCK):
        block = vectors[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # Raised below, as a DataError.
            norms[rows] = np.linalg.norm(block, axis=1)
            np.maximum(peaks, np.abs(block).max(axis=0), out=peaks)
    wrong = np.flatnonzero(~(norms < _LARGEST_NORM))
    if wrong.size:
        raise DataError(
            f"{wrong.size} of {len(vectors)} vectors, the first in row {wrong[0]}, have a value "
            f"that is not finite, or are longer than {_LARGEST_NORM:g}; check the encoder's output"
        )
    return norms, peaks
