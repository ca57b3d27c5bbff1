"""Tests, corrections and variances agree with scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from msshift_bench.stats.losses import group_loss
from msshift_bench.stats.significance import CORRECTIONS, holm

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])


def scores(seed: int, queries: int, models: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.choice(RR10, size=(models, queries)), rng.choice(RR10, size=queries)


@pytest.mark.parametrize("queries", [2, 3, 17, 400, 6000])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_t_test_is_scipys(queries: int, higher_is_better: bool) -> None:
    inside, out = scores(queries, queries)
    mine = group_loss(inside, out, higher_is_better=higher_is_better).tests
    pair = (inside.mean(axis=0), out) if higher_is_better else (out, inside.mean(axis=0))
    theirs = scipy.stats.ttest_rel(*pair)
    assert mine.t == pytest.approx(theirs.statistic, rel=1e-10)
    assert mine.t_p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_t_test_far_out_in_the_tail_is_scipys() -> None:
    rng = np.random.default_rng(0)
    out = rng.random(5000)
    inside = out + rng.normal(0.02, 0.1, 5000)
    mine = group_loss([inside], out).tests
    theirs = scipy.stats.ttest_rel(inside, out)
    assert theirs.pvalue < 1e-20
    assert mine.t_p == pytest.approx(theirs.pvalue, rel=1e-6, abs=0)


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


def test_variances_are_statsmodels_two_way_mean_squares() -> None:
    inside, out = scores(3, 40, models=3)
    rng = np.random.default_rng(1)
    seeds = [np.clip(inside + rng.normal(0.02 * n, 0.1, inside.shape), 0, None) for n in range(4)]
    held_out = [np.clip(out + rng.normal(0, 0.1, out.shape), 0, None) for _ in range(4)]
    found = group_loss(seeds, held_out).uncertainty
    assert found is not None
    within = np.mean(seeds, axis=1)
    kept = np.mean(held_out) / np.mean(within)
    parts = (kept * within - np.array(held_out)) / np.mean(within)
    rows = [(seed, query, parts[seed, query]) for seed in range(4) for query in range(40)]
    frame = pd.DataFrame(rows, columns=["seed", "query", "part"])
    table = anova_lm(ols("part ~ C(seed) + C(query)", frame).fit())
    squares = table["mean_sq"]
    assert found.seed_variance == pytest.approx(squares["C(seed)"] / 160, rel=1e-9)
    expected = (squares["C(query)"] - squares["Residual"]) / 160
    assert found.query_variance == pytest.approx(expected, rel=1e-9)


def test_an_interval_over_queries_is_near_scipys_bootstrap_interval() -> None:
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


def test_an_interval_of_one_model_is_scipys_t_interval() -> None:
    _, out = scores(5, 60)
    mine = group_loss([out], out).intervals
    assert mine is not None
    theirs = scipy.stats.ttest_1samp(out, 0).confidence_interval(0.95)
    assert mine.out == pytest.approx((theirs.low, theirs.high), rel=1e-9)
