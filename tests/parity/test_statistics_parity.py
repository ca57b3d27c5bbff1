"""Intervals, tests, corrections and variances agree with scipy and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Settings, losses_of
from msshift_bench.libraries import Library
from msshift_bench.stats import Estimate, Uncertainty, adjust
from tests.support.made_scores import losses, made_scores, sides

formulas: Any = Library("statsmodels.formula.api", "dev")
variances: Any = Library("statsmodels.stats.anova", "dev")
corrections: Any = Library("statsmodels.stats.multitest", "dev")

GROUPS = ("short", "long")


def known(estimate: Estimate | None) -> tuple[float, Uncertainty]:
    """Return an estimate's value and its error."""
    assert estimate is not None
    uncertainty = estimate.uncertainty()
    assert uncertainty is not None
    return estimate.value, uncertainty


@pytest.mark.parametrize("queries", [2, 3, 17, 400, 6000])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_loss_over_queries_is_scipys_paired_t_test(queries: int, sign: int) -> None:
    inside, out = sides(queries, 1, queries)
    value, uncertainty = known(losses(inside, out, sign)["loss"])
    theirs = scipy.stats.ttest_rel(*(inside[0], out[0])[::sign])
    assert value / uncertainty.queries.scale == pytest.approx(theirs.statistic, rel=1e-10)
    assert uncertainty.p_value(value) == pytest.approx(theirs.pvalue, rel=1e-9)
    interval = theirs.confidence_interval(0.95)
    assert uncertainty.interval(value, 0.95) == pytest.approx(tuple(interval), rel=1e-9)


def test_a_small_p_value_is_scipys() -> None:
    rng = np.random.default_rng(0)
    out = rng.random((1, 5000))
    inside = out + rng.normal(0.02, 0.1, (1, 5000))
    value, uncertainty = known(losses(inside, out)["loss"])
    theirs = scipy.stats.ttest_rel(inside[0], out[0])
    assert theirs.pvalue < 1e-20
    assert uncertainty.p_value(value) == pytest.approx(theirs.pvalue, rel=1e-6, abs=0)


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
    ties = [0.0, 0.01, 0.01, 0.5, 1.0, 1.0]
    for p in [*((rng.random(count) ** 3).round(3) for _ in range(20)), ties]:
        theirs = corrections.multipletests(p, method=method)[1]
        ours = adjust(dict(enumerate(p)), correction)
        assert list(ours.values()) == pytest.approx(list(theirs), rel=1e-12)


def test_variances_are_statsmodels_two_way_mean_squares() -> None:
    inside, out = sides(3, 1, 40)
    rng = np.random.default_rng(1)
    inside = np.clip(inside + 0.02 * np.arange(4)[:, None] + rng.normal(0, 0.1, (4, 40)), 0, None)
    out = np.clip(out + rng.normal(0, 0.1, (4, 40)), 0, None)
    _, uncertainty = known(losses(inside, out)["rel_loss"])
    parts = (out.mean() / inside.mean() * inside - out) / inside.mean()
    rows = [(seed, query, parts[seed, query]) for seed in range(4) for query in range(40)]
    frame = pd.DataFrame(rows, columns=["seed", "query", "part"])
    squares = variances.anova_lm(formulas.ols("part ~ C(seed) + C(query)", frame).fit())["mean_sq"]
    of_queries = (squares["C(query)"] - squares["Residual"]) / 160
    assert uncertainty.trained.scale**2 == pytest.approx(squares["C(seed)"] / 160, rel=1e-9)
    assert uncertainty.queries.scale**2 == pytest.approx(of_queries, rel=1e-9)


def test_an_interval_over_queries_is_near_scipys_bootstrap_interval() -> None:
    inside, out = sides(11, 1, 500)
    value, uncertainty = known(losses(inside, out)["rel_loss"])
    theirs = scipy.stats.bootstrap(
        (inside[0], out[0]),
        lambda x, y, axis: 1 - y.mean(axis=axis) / x.mean(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    slack = 0.05 * (theirs.high - theirs.low)
    assert uncertainty.interval(value, 0.95) == pytest.approx(tuple(theirs), abs=slack)


def test_the_effect_size_is_t_over_the_root_of_the_number_of_queries() -> None:
    cubes = {group: np.stack(sides(seed, 2, 30), axis=1) for seed, group in enumerate(GROUPS)}
    result = losses_of([made_scores("a", cubes)], DataInfo(), Settings())
    for group, cube in cubes.items():
        inside, out = cube.mean(axis=0)[:: 1 if group == "long" else -1]
        theirs = scipy.stats.ttest_rel(inside, out).statistic / 30**0.5
        row = result.figures.first(figure="effect_size", group=group)
        assert row is not None
        assert row.value == pytest.approx(theirs)
    mean = result.figures.first(figure="effect_size", group="mean")
    assert mean is not None
    assert mean.value is None
