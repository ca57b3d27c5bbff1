from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from msshift_bench.dataset_builders.clusters import pairwise_distances, select_farthest
from msshift_bench.errors import UsageError

Floats = NDArray[np.float64]


def total(distances: Floats, subset: tuple[int, ...]) -> float:
    return float(sum(distances[pair] for pair in combinations(subset, 2)))


def by_brute_force(distances: Floats, count: int) -> tuple[int, ...]:
    """The first of the best subsets in lexicographic order."""
    subsets = combinations(range(len(distances)), count)
    return max(subsets, key=lambda subset: total(distances, subset))


def instances() -> list[tuple[Floats, int]]:
    """Random ones, small: clouds, lattices (many ties), duplicates, points on a line."""
    rng = np.random.default_rng(2022)
    made = []
    for trial in range(200):
        k, d = int(rng.integers(2, 13)), int(rng.integers(1, 9))
        count = int(rng.integers(1, min(k, 6) + 1))
        points = rng.standard_normal((k, d))
        if trial % 4 == 1:
            points = rng.integers(0, 3, (k, d)).astype(np.float64)
        elif trial % 4 == 2:
            points = points[rng.integers(k, size=k)]
        elif trial % 4 == 3:
            points *= 10.0 ** rng.integers(-8, 8)
        made.append((points, count))
    return made


def test_it_equals_brute_force() -> None:
    for points, count in instances():
        distances = pairwise_distances(points)
        chosen = select_farthest(points, count)
        assert chosen == by_brute_force(distances, count)
        # no other subset is better by the distances before they were rounded
        exact = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
        best = max(total(exact, other) for other in combinations(range(len(points)), count))
        assert total(exact, chosen) == pytest.approx(best, rel=1e-11)


def test_sums_of_rounded_distances_are_exact() -> None:
    points = np.random.default_rng(0).standard_normal((90, 5))
    distances = pairwise_distances(points)
    values = distances[np.triu_indices(90, 1)]
    assert values.sum() == values[::-1].sum() == np.sort(values).cumsum()[-1]
    np.testing.assert_allclose(
        distances, np.linalg.norm(points[:, np.newaxis] - points, axis=2), rtol=0, atol=1e-10
    )


def enumerate_all(distances: Floats, count: int) -> float:
    """The best sum of five, all subsets looked at, 75 million of a hundred points."""
    assert count == 5
    k = len(distances)
    best = -np.inf
    upper = np.where(np.tri(k, dtype=bool), -np.inf, distances)
    for first, second, third in combinations(range(k), 3):
        trio = [first, second, third]
        gains = distances[trio].sum(axis=0)[third:]
        inner = distances[first, second] + distances[first, third] + distances[second, third]
        pairs = upper[third:, third:] + gains + gains[:, np.newaxis]
        best = max(best, inner + pairs[1:, 1:].max(initial=-np.inf))
    return float(best)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "columns"), [(100, 3), (60, 768)])
def test_five_of_many(count: int, columns: int) -> None:
    points = np.random.default_rng(7).standard_normal((count, columns))
    distances = pairwise_distances(points)
    chosen = select_farthest(points)
    assert len(set(chosen)) == 5
    assert total(distances, chosen) == enumerate_all(distances, 5)


def test_corner_cases() -> None:
    for points in (np.eye(60), np.zeros((60, 2))):  # all subsets tie
        assert select_farthest(points) == (0, 1, 2, 3, 4)
    line = np.array([[0.0], [1.0], [5.0]])
    assert [select_farthest(line, count) for count in (1, 2, 3)] == [(0,), (0, 2), (0, 1, 2)]
    for count in (0, 4):
        with pytest.raises(UsageError, match=f"cannot choose {count} of 3 clusters"):
            select_farthest(line, count)
    told: list[tuple[str, int, int]] = []
    select_farthest(np.eye(7), 5, lambda *stage: told.append(stage))
    assert told == [("selection", done, 3) for done in (1, 2, 3)]
