"""What must hold of clusters and topics for any vectors."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from msshift_bench.dataset_builders.clusters import grow, select_farthest
from msshift_bench.dataset_builders.kmeans import assign, kmeans
from msshift_bench.errors import DataError

"""A shared machine may be slow, which says nothing about the clusters."""

Vectors = NDArray[np.float32]

LATTICE = st.integers(-3, 3).map(float)
ANY = st.floats(-100, 100, width=32)


@st.composite
def vectors(draw: st.DrawFn, rows: int = 40) -> Vectors:
    """Matrices of 2 to 40 rows: on a lattice, where many distances tie, or anywhere."""
    shape = (draw(st.integers(2, rows)), draw(st.integers(1, 6)))
    return draw(arrays(np.float32, shape, elements=draw(st.sampled_from([LATTICE, ANY]))))


def by_brute_force(
    rows: Vectors, centroids: NDArray[np.float64]
) -> tuple[list[int], NDArray[np.float64]]:
    """The nearest centroids, the first of several, and the two smallest distances.

    In whole numbers of 2^-200, which lose nothing.
    """

    def scaled(values: NDArray[np.floating]) -> list[list[int]]:
        return [[int(value * 2.0**200) for value in row] for row in values.astype(float).tolist()]

    squared = [
        [
            sum((x - c) ** 2 for x, c in zip(row, centre, strict=True))
            for centre in scaled(centroids)
        ]
        for row in scaled(rows)
    ]
    two = np.array([[float(value) for value in sorted(row)[:2]] for row in squared])
    return [row.index(min(row)) for row in squared], np.sqrt(two)


@given(vectors(), st.data())
def test_labels_are_the_nearest_centroids(rows: Vectors, data: st.DataObject) -> None:
    """Exactly: on values with few digits 64-bit distances are exact, too."""
    values = st.integers(-64, 64).map(lambda number: number / 8)
    shape = (data.draw(st.integers(2, 8)), rows.shape[1])
    centroids = data.draw(arrays(np.float64, shape, elements=values))
    rounded = (np.rint(rows * 8) / 8).astype(np.float32)
    labels, margins = assign(rounded, centroids)
    expected, two = by_brute_force(rounded, centroids)
    assert labels.tolist() == expected
    apart = two[:, 1] > 0
    assert (margins[~apart] == 0).all()
    np.testing.assert_allclose(
        margins[apart], 1 - two[apart, 0] / two[apart, 1], rtol=0, atol=1e-12
    )


@pytest.mark.slow
@given(vectors(), st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    rows: Vectors, k: int, shuffler: np.random.Generator
) -> None:
    """Rows that come in any order, and are sorted by key, give the same clusters."""
    k = min(k, len(np.unique(rows + np.float32(0), axis=0)))
    if k < 2:
        return
    keys = [f"{number:02}" for number in range(len(rows))]
    order = list(range(len(rows)))
    shuffler.shuffle(order)
    shuffled_keys, shuffled_rows = [keys[row] for row in order], rows[order]
    back = np.argsort(shuffled_keys)
    one = kmeans(rows, keys, k=k)
    other = kmeans(shuffled_rows[back], [shuffled_keys[row] for row in back], k=k)
    assert one.labels.tobytes() == other.labels.tobytes()
    assert one.centroids.tobytes() == other.centroids.tobytes()


@pytest.mark.slow
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
    assert clusters.sizes.tolist() == np.bincount(labels, minlength=k).tolist()
    assert clusters.sizes.min() > 0
    assert clusters.sizes.tolist() == sorted(clusters.sizes.tolist(), reverse=True)
    of_vector: dict[bytes, int] = {}
    for row, label in zip(rows + np.float32(0), labels.tolist(), strict=True):
        assert of_vector.setdefault(row.tobytes(), label) == label


@given(
    arrays(np.float64, (12, 3), elements=st.floats(-10, 10)),
    st.lists(st.integers(1, 50), min_size=12, max_size=12),
    st.integers(2, 5),
    st.integers(1, 200),
)
def test_groups_grow_without_overlap(
    centroids: NDArray[np.float64], sizes: list[int], count: int, target: int
) -> None:
    natives = select_farthest(centroids, count)
    try:
        growth = grow(centroids, sizes, natives, target)
    except DataError:
        # every group but one may have outgrown the target by one cluster, no more
        assert sum(sizes) < count * (target + max(sizes))
        return
    taken = [cluster for group in growth for cluster in group]
    assert len(taken) == len(set(taken))
    assert [native for native, *_ in growth] == sorted(natives)
    for group in growth:
        held = np.cumsum([sizes[cluster] for cluster in group])
        assert held[-1] >= target
        assert (held[:-1] < target).all()

    # joined one by one, always by the group that was smallest, always the nearest left
    held_by = [sizes[native] for native, *_ in growth]
    queues = [list(group[1:]) for group in growth]
    free = set(range(12)) - set(natives)
    while any(queues):
        smallest = held_by.index(min(held_by))
        joining = queues[smallest].pop(0)
        away = np.linalg.norm(centroids - centroids[growth[smallest][0]], axis=1)
        assert away[joining] <= min(away[cluster] for cluster in free) + 1e-9
        free.remove(joining)
        held_by[smallest] += sizes[joining]


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


@pytest.mark.slow
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
    found = [
        subprocess.run(
            [sys.executable, "-c", _CHILD],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        for variables in settings_
    ]
    assert len(found[0].split()) == 4
    assert found == [found[0]] * len(found)
