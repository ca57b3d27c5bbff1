"""Shares of items in clusters, and agreement beyond chance: their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from msshift_bench.errors import UsageError
from msshift_bench.stats import annotator_agreement, clustered_share


def test_independent_items_have_the_exact_interval() -> None:
    hits = np.array([1.0] * 30 + [0.0] * 10)
    found = clustered_share(hits, np.ones(40))
    exact = stats.binomtest(30, 40).proportion_ci(method="exact")
    # The variance estimated from 40 clusters has 39 in its denominator.
    assert found.interval == pytest.approx(exact, abs=0.004)
    assert (found.value, found.items) == (0.75, 40)


def test_items_of_one_cluster_are_not_independent() -> None:
    hits, items = np.array([5.0, 5.0, 5.0, 0.0, 5.0, 5.0]), np.full(6, 5.0)
    one = clustered_share(hits, items)
    few = clustered_share(hits / 5, items / 5)
    # Clusters that are all alike inside say no more than one item each, or a little less.
    exact = stats.binomtest(5, 6).proportion_ci(method="exact")
    assert one.interval.low <= exact.low < few.interval.low + 0.2
    assert one.interval.high >= exact.high
    certain = clustered_share(items, items)
    expected = stats.binomtest(6, 6).proportion_ci(method="exact")
    assert certain.interval == pytest.approx((expected.low, 1.0))
    none = clustered_share(items * 0, items)
    assert none.interval == pytest.approx((0.0, 1 - expected.low))


def test_too_little_has_no_interval() -> None:
    assert clustered_share(np.zeros(2), np.zeros(2)) is None
    one = clustered_share(np.array([2.0, 0.0]), np.array([3.0, 0.0]))
    assert (one.value, one.interval) == (pytest.approx(2 / 3), None)
    with pytest.raises(UsageError, match="hits of 1"):
        clustered_share(np.ones(1), np.ones(2))


def kappa(first: list[int], second: list[int]) -> float:
    n = len(first)
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    chance = sum(first.count(x) * second.count(x) for x in set(first)) / n**2
    return (agreed - chance) / (1 - chance)


def test_kappa_and_its_interval_by_hand() -> None:
    first, second, third = [0, 0, 1, 1, 2, 1], [0, 1, 1, 1, 2, 0], [0, 0, 1, 2, 2, 1]
    clusters = ["p", "p", "q", "q", "r", "r"]
    pairs = [(first, second), (first, third), (second, third)]
    found = annotator_agreement([first, second, third], clusters)
    assert found.pairs == pytest.approx([kappa(*pair) for pair in pairs])
    assert found.kappa == pytest.approx(np.mean(found.pairs))

    def without(gone: str, labels: list[int]) -> list[int]:
        return [label for label, c in zip(labels, clusters, strict=True) if c != gone]

    left_out = np.array(
        [
            np.mean([kappa(*(without(gone, one) for one in pair)) for pair in pairs])
            for gone in "pqr"
        ]
    )
    error = math.sqrt(2 / 3 * ((left_out - left_out.mean()) ** 2).sum())
    reach = stats.t.ppf(0.975, 2) * error / (1 - found.kappa**2)
    ends = (np.arctanh(found.kappa) - reach, np.arctanh(found.kappa) + reach)
    assert found.interval == pytest.approx(np.tanh(ends))


def test_no_interval_of_kappa_reaches_beyond_1() -> None:
    once_apart = annotator_agreement([[0, 1, 0, 1, 0], [0, 1, 0, 1, 1]], list("pqrst"))
    assert -1 < once_apart.interval.low < once_apart.kappa < once_apart.interval.high < 1
    perfect = annotator_agreement([[0, 1, 0, 1], [0, 1, 0, 1]], list("pqrs"))
    assert perfect.interval == (1, 1)


def test_agreement_that_chance_makes_certain_is_undefined() -> None:
    found = annotator_agreement([[1, 1], [1, 1]], ["p", "q"])
    assert (found.kappa, found.interval, found.pairs) == (None, None, (None,))
    perfect = annotator_agreement([[0, 1], [0, 1]], ["p", "p"])
    assert (perfect.kappa, perfect.interval) == (1, None)
    for wrong in ([[1, 1]], [[1], [1, 2]], [[], []]):
        with pytest.raises(UsageError, match="two annotators or more"):
            annotator_agreement(wrong, ["p", "q"])
