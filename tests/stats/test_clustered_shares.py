"""Shares of items in clusters: their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from msshift_bench.errors import UsageError
from msshift_bench.stats import clustered_share


def test_independent_items_have_the_exact_interval() -> None:
    hits = np.array([1.0] * 30 + [0.0] * 10)
    found = clustered_share(hits, np.ones(40))
    assert found is not None
    assert found.interval is not None
    exact = stats.binomtest(30, 40).proportion_ci(method="exact")
    # The variance estimated from 40 clusters has 39 in its denominator.
    assert found.interval == pytest.approx(exact, abs=0.004)
    assert (found.value, found.items) == (0.75, 40)


def test_items_of_one_cluster_are_not_independent() -> None:
    hits, items = np.array([5.0, 5.0, 5.0, 0.0, 5.0, 5.0]), np.full(6, 5.0)
    one = clustered_share(hits, items)
    few = clustered_share(hits / 5, items / 5)
    assert one is not None
    assert few is not None
    assert one.interval is not None
    assert few.interval is not None
    # Clusters that are all alike inside say no more than one item each, or a little less.
    exact = stats.binomtest(5, 6).proportion_ci(method="exact")
    assert one.interval.low <= exact.low < few.interval.low + 0.2
    assert one.interval.high >= exact.high
    certain = clustered_share(items, items)
    assert certain is not None
    expected = stats.binomtest(6, 6).proportion_ci(method="exact")
    assert certain.interval == pytest.approx((expected.low, 1.0))
    none = clustered_share(items * 0, items)
    assert none is not None
    assert none.interval == pytest.approx((0.0, 1 - expected.low))


def test_too_little_has_no_interval() -> None:
    assert clustered_share(np.zeros(2), np.zeros(2)) is None
    one = clustered_share(np.array([2.0, 0.0]), np.array([3.0, 0.0]))
    assert one is not None
    assert (one.value, one.interval) == (pytest.approx(2 / 3), None)
    with pytest.raises(UsageError, match="hits of 1"):
        clustered_share(np.ones(1), np.ones(2))
