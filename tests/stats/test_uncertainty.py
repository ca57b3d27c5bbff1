"""What queries and seeds add to an estimate, and what would make its interval narrower."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.stats.sums_of_t import Part, half_width
from msshift_bench.stats.uncertainty import Contributions, PooledSeeds, Uncertainty


def test_seeds_that_make_an_interval_wide_are_worth_more_seeds() -> None:
    found = Uncertainty(1e-6, 599, 1e-4, 2)
    more = found.more_seeds_to_halve(3, 0.95)
    assert more is not None
    wide = half_width(0.95, Part(1e-3, 599), Part(1e-2, 2))

    def with_seeds(seeds: int) -> float:
        return half_width(0.95, Part(1e-3, 599), Part(1e-2 * (3 / seeds) ** 0.5, seeds - 1))

    assert with_seeds(3 + more) <= wide / 2 < with_seeds(3 + more - 1)


def test_queries_that_make_an_interval_wide_are_not_mended_by_seeds() -> None:
    assert Uncertainty(1e-4, 599, 1e-5, 2).more_seeds_to_halve(3, 0.95) is None
    assert Uncertainty(1e-4, 599, None, None).more_seeds_to_halve(1, 0.95) is None


def test_shares_add_up() -> None:
    assert Uncertainty(3e-4, 599, 1e-4, 2).seed_share == pytest.approx(0.25)
    assert Uncertainty(3e-4, 599, None, None).seed_share is None
    assert Uncertainty(0.0, 599, 0.0, 2).seed_share is None


def test_both_sources_are_found_again() -> None:
    rng = np.random.default_rng(0)
    seeds, queries = 40, 3000
    parts = 0.3 * rng.standard_normal((seeds, 1)) + 2 * rng.standard_normal(queries)
    parts = parts + rng.standard_normal((seeds, queries))
    found = Contributions.of([parts], 10.0).uncertainty()
    assert found is not None
    assert found.seed_variance == pytest.approx(0.3**2 / seeds, rel=0.4)
    assert found.query_variance == pytest.approx(2**2 / queries, rel=0.1)
    assert (found.seed_df, found.query_df) == (39, 2999)


def test_rounding_is_no_variance() -> None:
    parts = 0.1 + 1e-17 * np.random.default_rng(2).standard_normal((3, 50))
    found = Contributions.of([parts], 1.0).uncertainty()
    assert found is not None
    assert (found.query_variance, found.seed_variance) == (0.0, 0.0)
    assert found.p_value(1e-15) == 1.0
    assert found.p_value(0.1) is None
    assert found.interval(0.1, 0.95) == (0.1, 0.1)


def test_a_difference_has_what_the_differences_of_its_seeds_have() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((4, 200)), rng.random((4, 200))
    found = Contributions.of([a], 1.0).minus(Contributions.of([b], 1.0)).uncertainty()
    assert found is not None
    per_seed = a.mean(axis=1) - b.mean(axis=1)
    assert found.seed_variance == pytest.approx(per_seed.var(ddof=1) / 4)
    assert found.seed_df == 3


def test_unequal_numbers_of_seeds_rest_on_the_smaller() -> None:
    rng = np.random.default_rng(4)
    few, many = rng.standard_normal((2000, 2)), rng.standard_normal((2000, 5))
    variances = []
    for a, b in zip(few, many, strict=True):
        first, second = (
            Contributions.of([np.repeat(one[:, None], 3, axis=1)], 5.0) for one in (a, b)
        )
        difference = first.minus(second)
        assert difference.per_seed.mean() == pytest.approx(a.mean() - b.mean())
        found = difference.uncertainty()
        assert found is not None
        assert found.seed_df == 1
        variances.append(found.seed_variance)
    assert np.mean(np.array(variances, dtype=float)) == pytest.approx(1 / 2 + 1 / 5, rel=0.1)


def test_pooled_variances_are_added_as_welch_does() -> None:
    rng = np.random.default_rng(5)
    first, second = (
        Contributions.of([rng.random((3, 50))], 1.0, PooledSeeds(variance, df))
        for variance, df in ((4.0, 10.0), (1.0, 5.0))
    )
    found = first.minus(second).uncertainty()
    assert found is not None
    assert found.seed_variance == pytest.approx(4 + 1)
    assert found.seed_df == pytest.approx((4 + 1) ** 2 / (4**2 / 10 + 1**2 / 5))
    # BM25 has no seeds: it is the same for each of the other's.
    still = Contributions.of([rng.random((1, 50))], 1.0)
    found = still.repeated(3).minus(still.repeated(4)).uncertainty()
    assert found is not None
    assert (found.seed_variance, found.seed_df) == (0, 2 + 3)


def test_one_query_has_no_noise_and_no_interval() -> None:
    one = Contributions.of([np.array([[0.5], [0.7]])], 1.0)
    assert one.noise == 0
    assert one.per_seed == pytest.approx([0.5, 0.7])
    assert one.uncertainty() is None
