from __future__ import annotations

import math
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


def test_the_result_is_a_fixed_point_of_assign() -> None:
    vectors = mixture(2000, 16)
    clusters = kmeans(vectors, keys(2000), k=15, iterations=4)
    labels, margins = assign(vectors, clusters.centroids)
    assert labels.tobytes() == clusters.labels.tobytes()
    assert margins.tobytes() == clusters.margins.tobytes()
    assert clusters.sizes.tolist() == np.bincount(labels).tolist()
    squared = nearest_by_brute_force(vectors, clusters.centroids)
    assert clusters.inertia == math.fsum(squared.min(axis=1))
    assert clusters.iterations == 4


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


def test_identical_vectors_get_the_same_label() -> None:
    rng = np.random.default_rng(5)
    distinct = rng.standard_normal((300, 33)).astype(np.float32)
    copies = rng.integers(300, size=9001)  # blocks of several sizes
    labels = kmeans(distinct[copies], keys(9001), k=40, iterations=3).labels
    for copy in range(300):
        assert len(set(labels[copies == copy].tolist())) <= 1


def test_a_memory_map_is_as_good(tmp_path: Path) -> None:
    vectors = mixture(500, 8)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert same(kmeans(mapped, keys(500), k=5), kmeans(vectors, keys(500), k=5))


def test_the_seed_decides_where_it_starts() -> None:
    vectors = mixture(2000, 8)
    runs = [kmeans(vectors, keys(2000), k=20, iterations=1, seed=seed) for seed in (0, 0, 1)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_empty_clusters_take_the_farthest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.array([[0], [1], [2], [100], [100], [300]], np.float32)
    # the third and the fourth are nobody's nearest
    start = np.array([[0.0], [5.0], [-1e6], [1e6]])
    monkeypatch.setattr("msshift_bench.dataset_builders.kmeans._first_centroids", lambda *_: start)
    clusters = kmeans(vectors, keys(6), k=4)
    assert sorted(clusters.sizes.tolist()) == [1, 1, 2, 2]
    assert clusters.labels[3] == clusters.labels[4] != clusters.labels[5]


def test_empty_clusters_do_not_take_equal_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.array([[0], [1], [2], [100], [100], [300], [301], [302]], np.float32)
    # The second moves to 220.6, from which both rows of 100 are farther than any other.
    start = np.array([[0.0], [5.0], [-1e6], [1e6]])
    monkeypatch.setattr("msshift_bench.dataset_builders.kmeans._first_centroids", lambda *_: start)
    clusters = kmeans(vectors, keys(8), k=4)
    assert (clusters.sizes > 0).all()
    assert clusters.sizes.sum() == 8
    assert np.flatnonzero(clusters.labels == clusters.labels[3]).tolist() == [3, 4]
    assert 100.0 in clusters.centroids


def test_a_cluster_that_the_last_move_emptied_takes_the_first_of_the_farthest_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = np.array([[2.75], [3], [9], [9.25]], np.float32)
    # The middle one starts with 3 and 9 and moves to their mean; both are then nearer to others.
    start = np.array([[-0.25], [6.0], [12.25]])
    monkeypatch.setattr("msshift_bench.dataset_builders.kmeans._first_centroids", lambda *_: start)
    clusters = kmeans(vectors, keys(4), k=3, iterations=1)
    assert clusters.centroids.tolist() == [[9.25], [2.75], [3.0]]
    assert clusters.labels.tolist() == [1, 2, 0, 0]
    assert clusters.sizes.tolist() == [2, 1, 1]
    assert clusters.inertia == 0.25**2


@pytest.mark.slow
def test_no_cluster_is_empty_even_after_the_last_move() -> None:
    rng = np.random.default_rng(0)
    for trial in range(90):
        vectors = rng.integers(0, 4, (30, 2)).astype(np.float32)
        k = min(len(np.unique(vectors, axis=0)), int(rng.integers(2, 12)))
        clusters = kmeans(vectors, keys(30), k=k, iterations=1 + trial % 3, seed=trial)
        assert (clusters.sizes > 0).all()
        assert clusters.sizes.sum() == 30
        assert clusters.sizes.tolist() == sorted(clusters.sizes.tolist(), reverse=True)
        assert clusters.labels.tolist() == assign(vectors, clusters.centroids)[0].tolist()
        first_rows = np.unique(clusters.labels, return_index=True)[1]
        order = sorted(range(k), key=lambda c: (-clusters.sizes[c], first_rows[c]))
        assert order == list(range(k))


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    kmeans(
        mixture(500, 8),
        keys(500),
        k=5,
        iterations=3,
        progress=lambda *stage: told.append(stage),
    )
    assert told == [("k-means", 1, 3), ("k-means", 2, 3), ("k-means", 3, 3)]


def test_an_early_end_is_told_as_the_whole() -> None:
    told: list[tuple[str, int, int]] = []
    found = kmeans(mixture(50, 2), keys(50), k=2, progress=lambda *stage: told.append(stage))
    moves = found.iterations
    assert moves < 25
    assert told[-2:] == [("k-means", moves, 25), ("k-means", moves, moves)]


def test_bad_input_is_refused() -> None:
    vectors = mixture(10, 3)
    with pytest.raises(UsageError, match="from 2 to the number of rows, 10: 11"):
        kmeans(vectors, keys(10), k=11)
    with pytest.raises(UsageError, match="iterations must be at least 1"):
        kmeans(vectors, keys(10), k=2, iterations=0)
    with pytest.raises(UsageError, match="9 keys for 10 rows"):
        kmeans(vectors, keys(9), k=2)
    with pytest.raises(UsageError, match=r"'a' \(row 1\) follows 'b'"):
        kmeans(vectors, ["b", "a", *keys(8)], k=2)
    with pytest.raises(UsageError, match=r"'a' \(row 1\) follows 'a'"):
        kmeans(vectors, ["a", "a", *keys(8)], k=2)
    with pytest.raises(UsageError, match="32-bit floats"):
        kmeans(vectors.astype(np.float64), keys(10), k=2)  # type: ignore[arg-type]
    for wrong in (np.nan, np.inf, 1e30):
        broken = vectors.copy()
        broken[4, 1] = wrong
        with pytest.raises(DataError, match="the first is row 4"):
            kmeans(broken, keys(10), k=2)
    with pytest.raises(
        DataError, match="10 rows hold 1 distinct vectors, and 2 clusters need 2; embed with"
    ):
        kmeans(np.ones((10, 3), np.float32), keys(10), k=2)
    with pytest.raises(UsageError, match="expected at least 2 of 3 columns"):
        assign(vectors, np.ones((2, 4)))
    with pytest.raises(DataError, match="a centroid holds"):
        assign(vectors, np.full((2, 3), np.nan))
