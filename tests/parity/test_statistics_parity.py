"""Tests, corrections and draws agree with scipy, statsmodels and plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests

from msshift_bench.resampling import generator, resample_means
from msshift_bench.significance import CORRECTIONS, holm, sign_flip_p_value
from msshift_bench.statistics import group_loss

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])


def scores(seed: int, queries: int, models: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.choice(RR10, size=(models, queries)), rng.choice(RR10, size=queries)


@pytest.mark.parametrize("queries", [2, 3, 17, 400, 6000])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_t_test_is_scipys(queries: int, higher_is_better: bool) -> None:
    inside, out = scores(queries, queries)
    mine = group_loss(inside, out, higher_is_better=higher_is_better, resamples=0).tests
    pair = (inside.mean(axis=0), out) if higher_is_better else (out, inside.mean(axis=0))
    theirs = scipy.stats.ttest_rel(*pair)
    assert mine.t == pytest.approx(theirs.statistic, rel=1e-10)
    assert mine.t_p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_t_test_far_out_in_the_tail_is_scipys() -> None:
    rng = np.random.default_rng(0)
    out = rng.random(5000)
    inside = out + rng.normal(0.02, 0.1, 5000)
    mine = group_loss([inside], out, resamples=0).tests
    theirs = scipy.stats.ttest_rel(inside, out)
    assert theirs.pvalue < 1e-20
    assert mine.t_p == pytest.approx(theirs.pvalue, rel=1e-6, abs=0)


@pytest.mark.parametrize("queries", [2, 5, 10, 12])
def test_exact_sign_flip_is_scipys(queries: int) -> None:
    inside, out = scores(100 + queries, queries)
    differences = inside.mean(axis=0) - out
    p, exact = sign_flip_p_value(differences, 10_000, generator(0))
    theirs = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=10_000
    )
    assert exact
    assert p == pytest.approx(theirs.pvalue, rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.03, 0.06])
def test_drawn_sign_flip_is_scipys_within_monte_carlo_error(shift: float) -> None:
    inside, out = scores(7, 150)
    differences = inside.mean(axis=0) - out
    differences += shift - differences.mean()
    p, exact = sign_flip_p_value(differences, 20_000, generator(0))
    theirs = scipy.stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    assert not exact
    assert p == pytest.approx(theirs.pvalue, abs=5 * np.sqrt(2 * 0.25 / 20_000))


def test_exact_sign_flip_is_the_loop_over_all_signs() -> None:
    differences = np.array([0.5, -0.2, 0.0, 0.3, 0.1, 0.7, -0.1])
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product([1, -1], repeat=7)]
    expected = np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9)
    assert sign_flip_p_value(differences, 10_000, generator(0)) == (expected, True)


@pytest.mark.parametrize(
    ("correction", "method"), [("holm", "holm"), ("benjamini-hochberg", "fdr_bh")]
)
@pytest.mark.parametrize("count", [1, 2, 5, 45])
def test_corrections_are_statsmodels(
    correction: str, method: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It collects garbage at every call, which takes half a second in a process as full as this.
    monkeypatch.setattr("gc.collect", lambda: 0)
    rng = np.random.default_rng(count)
    for _ in range(20):
        p = (rng.random(count) ** 3).round(3)
        theirs = multipletests(p, method=method)[1]
        assert CORRECTIONS[correction](list(p)) == pytest.approx(list(theirs), rel=1e-12)


def test_corrections_keep_ties_and_bounds_as_statsmodels_does() -> None:
    p = [0.0, 0.01, 0.01, 0.5, 1.0, 1.0]
    assert holm(p) == pytest.approx(list(multipletests(p, method="holm")[1]))


def test_bootstrap_means_are_means_of_the_drawn_queries() -> None:
    values = np.random.default_rng(3).random((50, 3))
    drawn = generator(5, "queries", "C1").integers(0, 50, size=(100, 50))
    mine = resample_means(values, 100, generator(5, "queries", "C1"))
    assert mine == pytest.approx(values[drawn].mean(axis=1), abs=1e-12)


def test_intervals_are_scipys_percentile_intervals_within_monte_carlo_error() -> None:
    inside, out = scores(11, 500)
    mine = group_loss(inside, out).intervals
    assert mine is not None
    theirs = scipy.stats.bootstrap(
        (inside.mean(axis=0), out),
        lambda x, y, axis: 1 - y.mean(axis=axis) / x.mean(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert mine.rel_loss == pytest.approx((theirs.low, theirs.high), abs=0.05 * width)
