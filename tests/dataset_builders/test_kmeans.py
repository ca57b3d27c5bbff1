from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from msshift_bench.dataset_builders.kmeans import (
    Clusters,
    assign,
    kmeans,
    measure,
    nearest_centroids,
    squared_distances,
)
from msshift_bench.errors import DataError, UsageError

Vectors = NDArray[np.float32]


def keys(count: int) -> list[str]:
    return [f"q{number:06d}" for number in range(count)]


def mixture(rows: int, columns: int, *, centre: float = 0.0, seed: int = 1) -> Vectors:
    """Overlapping clouds, so that k-means takes many iterations."""
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((12, columns))
    vectors = clouds[rng.integers(12, size=rows)] + rng.standard_normal((rows, columns)) + centre
    return vectors.astype(np.float32)


def nearest_by_brute_force(vectors: Vectors, centroids: NDArray[np.float64]) -> NDArray[np.float64]:
    """All squared distances, in 64 bits."""
    n, k = len(vectors), len(centroids)
    rows, clusters = np.divmod(np.arange(n * k), k)
    return squared_distances(vectors, rows, centroids, clusters).reshape(n, k)


def same(one: Clusters, other: Clusters) -> bool:
    return (
        one.centroids.tobytes() == other.centroids.tobytes()
        and one.labels.tobytes() == other.labels.tobytes()
        and one.margins.tobytes() == other.margins.tobytes()
        and one.inertia == other.inertia
    )


def test_separate_clouds_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [60, 30, 10])
    vectors = (10 * np.eye(3)[truth] + rng.normal(scale=0.1, size=(100, 3))).astype(np.float32)
    clusters = kmeans(vectors, keys(100), k=3)
    assert clusters.labels.tolist() == truth.tolist()
    assert clusters.sizes.tolist() == [60, 30, 10]
    for cluster in range(3):
        mean = vectors[truth == cluster].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(clusters.centroids[cluster], mean, atol=1e-12)
    assert clusters.iterations < 25
    assert (clusters.margins > 0.9).all()


@pytest.mark.parametrize("centre", [0.0, 3.0, 1000.0])
def test_each_iteration_is_one_of_lloyds(centre: float) -> None:
    """Labels and centroids are those of the textbook."""
    vectors = mixture(3000, 24, centre=centre)
    norms, _ = measure(vectors)
    centroids = vectors[:20].astype(np.float64)
    for _ in range(12):
        expected = nearest_by_brute_force(vectors, centroids).argmin(axis=1)
        assert nearest_centroids(vectors, norms, centroids).tolist() == expected.tolist()
        members = [vectors[expected == cluster].astype(np.float64) for cluster in range(20)]
        centroids = np.array([rows.mean(axis=0) for rows in members])


def test_inertia_is_about_that_of_another_library() -> None:
    vq = pytest.importorskip("scipy.cluster.vq")
    vectors = mixture(4000, 16)
    ours = kmeans(vectors, keys(4000), k=12, iterations=50)
    theirs, labels = vq.kmeans2(vectors.astype(np.float64), 12, iter=50, minit="++", rng=0)
    assert ours.inertia < 1.05 * ((vectors - theirs[labels]) ** 2).sum()


def test_margins_do_not_depend_on_the_scale() -> None:
    centroids = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]])
    vectors = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]], np.float32)
    for scale in (1, 2**10, 2**-10):
        labels, margins = assign(vectors * np.float32(scale), centroids * scale)
        assert labels.tolist() == [0, 0, 0, 1, 1]  # half-way goes to the lower number
        np.testing.assert_allclose(margins, [1, 2 / 3, 0, 2 / 3, 1])


def test_equal_centroids_tie() -> None:
    labels, margins = assign(np.ones((3, 2), np.float32), np.ones((4, 2)))
    assert labels.tolist() == [0, 0, 0]
    assert margins.tolist() == [0, 0, 0]


def test_distances_that_32_bits_cannot_tell_apart_are_decided() -> None:
    """Centroids half a rounding error of a 32-bit product apart, far from the origin."""
    rng = np.random.default_rng(3)
    base = rng.standard_normal(64) + 50
    centroids = base + 1e-7 * rng.standard_normal((40, 64))
    vectors = (base + 1e-3 * rng.standard_normal((500, 64))).astype(np.float32)
    labels, margins = assign(vectors, centroids)
    squared = nearest_by_brute_force(vectors, centroids)
    assert labels.tolist() == squared.argmin(axis=1).tolist()
    two = np.sqrt(np.sort(squared, axis=1)[:, :2])
    assert margins.tolist() == (1 - two[:, 0] / two[:, 1]).tolist()
    by_products = (vectors @ centroids.T.astype(np.float32)) - (
        centroids.astype(np.float32) ** 2
    ).sum(axis=1) / 2
    assert (by_products.argmax(axis=1) != labels).mean() > 0.1  # it was a hard case


def test_the_seed_decides_where_it_starts_and_a_memory_map_is_as_good(tmp_path: Path) -> None:
    vectors = mixture(2000, 8)
    runs = [kmeans(vectors, keys(2000), k=20, iterations=1, seed=seed) for seed in (0, 0, 1)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert same(kmeans(mapped, keys(2000), k=20, iterations=1), runs[0])


@pytest.mark.parametrize(
    ("rows", "start", "iterations", "labels", "centroids"),
    [
        # The third and the fourth are nobody's nearest: they take the farthest rows.
        ([0, 1, 2, 100, 100, 300], [0, 5, -1e6, 1e6], 25, [2, 0, 0, 1, 1, 3], {100, 300}),
        # The second moves to 220.6, from which both rows of 100 are farther than any other: equal
        # rows are not taken twice.
        ([0, 1, 2, 100, 100, 300, 301, 302], [0, 5, -1e6, 1e6], 25, None, {100}),
        # The middle one starts with 3 and 9 and moves to their mean; both are then nearer to
        # others: the last move empties it, and it takes the first of the farthest rows.
        ([2.75, 3, 9, 9.25], [-0.25, 6, 12.25], 1, [1, 2, 0, 0], {9.25, 2.75, 3}),
    ],
)
def test_empty_clusters_take_the_farthest_rows(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[float],
    start: list[float],
    iterations: int,
    labels: list[int] | None,
    centroids: set[float],
) -> None:
    first = np.array(start)[:, np.newaxis]
    monkeypatch.setattr("msshift_bench.dataset_builders.kmeans._first_centroids", lambda *_: first)
    vectors = np.array(rows, np.float32)[:, np.newaxis]
    clusters = kmeans(vectors, keys(len(rows)), k=len(start), iterations=iterations)
    assert (clusters.sizes > 0).all()
    assert clusters.sizes.sum() == len(rows)
    assert centroids <= set(clusters.centroids.ravel().tolist())
    if labels is not None:
        groups = [np.flatnonzero(clusters.labels == label).tolist() for label in clusters.labels]
        assert groups == [np.flatnonzero(np.array(labels) == label).tolist() for label in labels]


@pytest.mark.parametrize(("size", "k", "iterations", "moves"), [(500, 5, 3, 3), (50, 2, 25, None)])
def test_progress_is_told(size: int, k: int, iterations: int, moves: int | None) -> None:
    told: list[tuple[str, int, int]] = []
    clusters = kmeans(
        mixture(size, 8),
        keys(size),
        k=k,
        iterations=iterations,
        progress=lambda *stage: told.append(stage),
    )
    assert moves in (None, clusters.iterations)
    assert told[:-1] == [("k-means", n + 1, iterations) for n in range(len(told) - 1)]
    # An early end is told as the whole.
    assert told[-1] == ("k-means", clusters.iterations, clusters.iterations)


TEN = mixture(10, 3)


@pytest.mark.parametrize(
    ("vectors", "names", "options", "message"),
    [
        (TEN, keys(10), {"k": 11}, "from 2 to the number of rows, 10: 11"),
        (TEN, keys(10), {"k": 2, "iterations": 0}, "iterations must be at least 1"),
        (TEN, keys(9), {"k": 2}, "9 keys for 10 rows"),
        (TEN, ["b", "a", *keys(8)], {"k": 2}, r"'a' \(row 1\) follows 'b'"),
        (TEN, ["a", "a", *keys(8)], {"k": 2}, r"'a' \(row 1\) follows 'a'"),
        (TEN.astype(np.float64), keys(10), {"k": 2}, "32-bit floats"),
        (np.where(TEN[4, 1] == TEN, np.float32(np.nan), TEN), keys(10), {"k": 2}, "is row 4"),
        (np.where(TEN[4, 1] == TEN, np.float32(np.inf), TEN), keys(10), {"k": 2}, "is row 4"),
        (np.where(TEN[4, 1] == TEN, np.float32(1e30), TEN), keys(10), {"k": 2}, "is row 4"),
        (np.ones_like(TEN), keys(10), {"k": 2}, "10 rows hold 1 distinct vectors, and 2 clusters"),
    ],
)
def test_bad_input_is_refused(
    vectors: Vectors, names: list[str], options: dict[str, int], message: str
) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        kmeans(vectors, names, **options)


def test_bad_centroids_are_refused() -> None:
    with pytest.raises(UsageError, match="expected at least 2 of 3 columns"):
        assign(TEN, np.ones((2, 4)))
    with pytest.raises(DataError, match="a centroid holds"):
        assign(TEN, np.full((2, 3), np.nan))
