"""k-means: what must hold of any clusters, on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from msshift_bench.dataset_builders.kmeans import (
    Clusters,
    assign,
    kmeans,
    measure,
    squared_distances,
    two_nearest,
)
from msshift_bench.errors import DataError
from msshift_bench.plumbing import reporting
from tests.support.refusals import check_refusals

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


@pytest.mark.parametrize("centre", [0.0, 3.0, 1000.0])
def test_each_iteration_is_one_of_lloyds(centre: float) -> None:
    """Labels and centroids are those of the textbook."""
    vectors = mixture(3000, 24, centre=centre)
    norms, _ = measure(vectors)
    centroids = vectors[:20].astype(np.float64)
    for _ in range(12):
        expected = nearest_by_brute_force(vectors, centroids).argmin(axis=1)
        labels, _, _ = two_nearest(vectors, norms, centroids, only_labels=True)
        assert labels.tolist() == expected.tolist()
        members = [vectors[expected == cluster].astype(np.float64) for cluster in range(20)]
        centroids = np.array([rows.mean(axis=0) for rows in members])


def test_inertia_is_about_that_of_another_library() -> None:
    vq = pytest.importorskip("scipy.cluster.vq")
    vectors = mixture(4000, 16)
    ours = kmeans(vectors, keys(4000), k=12, iterations=50)
    theirs, labels = vq.kmeans2(vectors.astype(np.float64), 12, iter=50, minit="++", rng=0)
    assert ours.inertia < 1.05 * ((vectors - theirs[labels]) ** 2).sum()


def test_margins_do_not_depend_on_the_scale_and_equal_centroids_tie() -> None:
    centroids = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]])
    vectors = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]], np.float32)
    for scale in (1, 2**10, 2**-10):
        labels, margins = assign(vectors * np.float32(scale), centroids * scale)
        assert labels.tolist() == [0, 0, 0, 1, 1]  # half-way goes to the lower number
        np.testing.assert_allclose(margins, [1, 2 / 3, 0, 2 / 3, 1])
    labels, margins = assign(np.ones((3, 2), np.float32), np.ones((4, 2)))
    assert labels.tolist() == margins.tolist() == [0, 0, 0]


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
        # 2 is half-way: it goes to the lower number, which the larger cluster has in the end.
        ([-1, -1, 0, 0, 0, 2, 3, 5], [4.5, 0], 1, [0, 0, 0, 0, 0, 0, 1, 1], {0, 4}),
    ],
)
def test_empty_clusters_take_the_farthest_rows_and_ties_go_to_the_lower_number(
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
    assert set(clusters.labels.tolist()) == set(range(len(start)))
    assert centroids <= set(clusters.centroids.ravel().tolist())
    if labels is not None:
        groups = [np.flatnonzero(clusters.labels == label).tolist() for label in clusters.labels]
        assert groups == [np.flatnonzero(np.array(labels) == label).tolist() for label in labels]


@pytest.mark.parametrize(("size", "k", "iterations", "ends"), [(500, 5, 3, 3), (50, 2, 25, 0)])
def test_progress_is_told(size: int, k: int, iterations: int, ends: int) -> None:
    told: list[tuple[str, int, int]] = []
    with reporting(lambda *stage: told.append(stage)):
        kmeans(mixture(size, 8), keys(size), k=k, iterations=iterations)
    moves = ends or len(told) - 1
    assert told[:moves] == [("k-means", n + 1, iterations) for n in range(moves)]
    # An early end is told as the whole.
    assert told[moves:] == [("k-means", moves, moves)] * (moves < iterations)


TEN = mixture(10, 3)


def test_bad_input_is_refused() -> None:
    nan, inf, large = (
        np.where(TEN[4, 1] == TEN, np.float32(value), TEN) for value in (np.nan, np.inf, 1e30)
    )
    refusals = {
        "UsageError k 11 10": partial(kmeans, TEN, keys(10), k=11),
        "UsageError iterations 1 0": partial(kmeans, TEN, keys(10), k=2, iterations=0),
        "UsageError 9 10": partial(kmeans, TEN, keys(9), k=2),
        "UsageError 'a' 'b'": partial(kmeans, TEN, ["b", "a", *keys(8)], k=2),
        "UsageError 'a'": partial(kmeans, TEN, ["a", "a", *keys(8)], k=2),
        "UsageError 32-bit float64": partial(kmeans, TEN.astype(np.float64), keys(10), k=2),
        "nan: DataError 1 row 4": partial(kmeans, nan, keys(10), k=2),
        "inf: DataError 1 row 4": partial(kmeans, inf, keys(10), k=2),
        "large: DataError 1 row 4": partial(kmeans, large, keys(10), k=2),
        "DataError 10 1": partial(kmeans, np.ones_like(TEN), keys(10), k=2),
        "UsageError 2 4": partial(assign, TEN, np.ones((2, 4))),
        "DataError 1e+18": partial(assign, TEN, np.full((2, 3), np.nan)),
    }
    check_refusals(refusals)


LATTICE = st.integers(-3, 3).map(float)
ANY = st.floats(-100, 100, width=32)


@st.composite
def vectors(draw: st.DrawFn, rows: int = 40) -> Vectors:
    """Matrices of 2 to 40 rows: on a lattice, where many distances tie, or anywhere."""
    shape = (draw(st.integers(2, rows)), draw(st.integers(1, 6)))
    return draw(arrays(np.float32, shape, elements=draw(st.sampled_from([LATTICE, ANY]))))


@given(vectors(), st.data())
def test_labels_are_the_nearest_centroids(rows: Vectors, data: st.DataObject) -> None:
    """Exactly: on values with few digits 64-bit distances are exact, too."""
    values = st.integers(-64, 64).map(lambda number: number / 8)
    shape = (data.draw(st.integers(2, 8)), rows.shape[1])
    centroids = data.draw(arrays(np.float64, shape, elements=values))
    rounded = (np.rint(rows * 8) / 8).astype(np.float32)
    labels, margins = assign(rounded, centroids)
    squared = ((rounded[:, np.newaxis] - centroids) ** 2).sum(axis=2)
    assert labels.tolist() == squared.argmin(axis=1).tolist()
    two = np.sqrt(np.sort(squared, axis=1)[:, :2])
    apart = two[:, 1] > 0
    assert (margins[~apart] == 0).all()
    np.testing.assert_allclose(
        margins[apart], 1 - two[apart, 0] / two[apart, 1], rtol=0, atol=1e-12
    )


@given(vectors(), st.integers(2, 6), st.integers(0, 3), st.integers(1, 5))
def test_clusters_are_what_they_say(rows: Vectors, k: int, seed: int, iterations: int) -> None:
    distinct = len(np.unique(rows + np.float32(0), axis=0))
    keys = [f"{number:02}" for number in range(len(rows))]
    if distinct < k:
        if k <= len(rows):
            with pytest.raises(DataError, match=f"hold {distinct} distinct"):
                kmeans(rows, keys, k=k, seed=seed)
        return
    clusters = kmeans(rows, keys, k=k, seed=seed, iterations=iterations)
    labels, margins = assign(rows, clusters.centroids)
    assert clusters.labels.tolist() == labels.tolist()
    assert clusters.margins.tolist() == margins.tolist()
    sizes = np.bincount(labels, minlength=k).tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) > 0
    of_vector: dict[bytes, int] = {}
    for row, label in zip(rows + np.float32(0), labels.tolist(), strict=True):
        assert of_vector.setdefault(row.tobytes(), label) == label


_CHILD = """
import hashlib, sys
import numpy as np
from msshift_bench.dataset_builders.kmeans import kmeans
rng = np.random.default_rng(1)
clouds = rng.standard_normal((40, 96))
rows = clouds[rng.integers(40, size=20000)] + rng.standard_normal((20000, 96)) + 2
found = kmeans(rows.astype(np.float32), [f"{n:05}" for n in range(20000)], k=50, iterations=8)
parts = (found.labels, found.centroids, found.margins, np.array(found.inertia))
print(*(hashlib.sha256(part.tobytes()).hexdigest() for part in parts))
"""


@pytest.mark.extended
def test_threads_and_processors_do_not_matter() -> None:
    """OPENBLAS_CORETYPE makes the products of another processor, with another order of sums, and
    NPY_DISABLE_CPU_FEATURES makes numpy's own loops those of an old one.
    """
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[index]
    settings_ = (
        {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"NPY_DISABLE_CPU_FEATURES": " ".join(extensions.get("found", []))},
    )
    found = []
    for variables in settings_:
        given = {"env": {**os.environ, **variables}, "text": True, "timeout": 300}
        found.append(subprocess.check_output([sys.executable, "-c", _CHILD], **given))
    assert len(found[0].split()) == 4
    assert found == [found[0]] * len(found)
