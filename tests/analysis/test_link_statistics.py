"""Lines, rank correlations and slopes of few groups: against statsmodels, scipy and simulation."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from msshift_bench.analysis.line_fits import fit_line
from msshift_bench.analysis.mixed_models import fit_mixed_model
from msshift_bench.analysis.plans import detectable_losses
from msshift_bench.analysis.rank_correlations import (
    correlate_ranks,
    rank_correlation,
    rank_reach,
)
from msshift_bench.analysis.slope_tests import slope_test
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.output import plain
from msshift_bench.stats import GroupScores, Interval, shift_loss

X = np.array([0.263, 0.322, 0.333, 0.369, 0.470])
"""Similarities of five groups."""


@pytest.mark.slow
def test_a_line_is_the_one_of_statsmodels() -> None:
    import statsmodels.api as sm

    y = np.array([0.18, 0.115, 0.083, 0.09, 0.086])
    line, expected = fit_line(X, y), sm.OLS(y, sm.add_constant(X)).fit()
    assert (line.intercept, line.slope) == pytest.approx(expected.params)
    assert line.slope_interval == pytest.approx(expected.conf_int()[1])
    assert (line.p, line.r_squared) == pytest.approx((expected.pvalues[1], expected.rsquared))
    at = expected.get_prediction([[1.0, 0.4]]).summary_frame(alpha=0.05).iloc[0]
    assert line.interval(0.4) == pytest.approx((at.mean_ci_lower, at.mean_ci_upper))
    assert line.prediction(0.4) == pytest.approx((at.obs_ci_lower, at.obs_ci_upper))
    band = line.band(3)
    assert band.fitted == pytest.approx([line.at(x) for x in band.similarity])
    assert (line.holds(0.263), line.holds(0.47), line.holds(0.5)) == (True, True, False)


def test_points_on_a_line_leave_nothing_to_test() -> None:
    line = fit_line([0.1, 0.2, 0.4], [0.3, 0.2, 0.0])
    assert line.slope == pytest.approx(-1)
    assert (line.p, line.deviation, line.r_squared) == (None, 0, 1)
    for loss in np.linspace(0.01, 0.99, 50):  # the mean of some is one rounding away from them
        assert fit_line(X, np.full(5, loss)).r_squared is None


@pytest.mark.parametrize(
    ("x", "y", "kind", "words"),
    [
        ([0.1, 0.2], [0.1, 0.2], DataError, "at least 3 groups"),
        ([0.3, 0.3, 0.3], [0.1, 0.2, 0.3], DataError, "equally similar"),
        ([0.1, 0.2, 0.3], [0.1, np.nan, 0.3], UsageError, "finite"),
        ([0.1, 0.2, 0.3], [0.1, 0.2], UsageError, "one similarity per"),
    ],
)
def test_what_has_no_line_is_refused(
    x: list[float], y: list[float], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        fit_line(x, y)


def simulated_losses(slope: float, trials: int) -> tuple[Floats, Floats]:
    """Return the Rel Losses of five groups and of a sixth, ``[trials, 5]`` and ``[trials]``.

    Each is a mean over 40 queries of scores that are 0 or 1, and in-domain models' chances are 0.7.
    The true loss scatters about the line by 0.03.
    """
    rng = np.random.default_rng(16)
    similarities = np.append(X, 0.4)
    true = 0.15 + slope * (similarities - X.mean()) + rng.normal(0, 0.03, (trials, 6))
    drawn = rng.random((trials, 6, 40))
    avg_in = (rng.random((trials, 6, 4, 40)) < 0.7).mean(axis=(2, 3))
    out = (drawn < 0.7 * (1 - true[..., None])).mean(axis=2)
    losses = (avg_in - out) / avg_in
    return losses[:, :5], losses[:, 5]


@pytest.mark.slow
def test_true_nulls_are_rejected_and_intervals_hold_the_truth_as_often_as_they_say() -> None:
    trials = 2000
    rejected, held, foretold = 0, 0, 0
    losses, others = simulated_losses(0.0, trials)
    for of_groups in losses:
        line = fit_line(X, of_groups)
        rejected += line.p is not None and line.p <= 0.05
    losses, others = simulated_losses(-0.5, trials)
    for of_groups, other in zip(losses, others, strict=True):
        line = fit_line(X, of_groups)
        held += line.slope_interval.low <= -0.5 <= line.slope_interval.high
        foretold += line.prediction(0.4).low <= other <= line.prediction(0.4).high
    assert 0.03 <= rejected / trials <= 0.07
    assert 0.93 <= held / trials <= 0.97
    assert 0.93 <= foretold / trials <= 0.97


@pytest.mark.parametrize(
    ("kind", "theirs"), [("spearman", stats.spearmanr), ("kendall", stats.kendalltau)]
)
def test_rank_correlations_are_those_of_scipy(kind: str, theirs: Any) -> None:
    rng = np.random.default_rng(3)
    for size in (5, 7, 12):
        x, y = rng.integers(0, 9, (2, size))
        found = rank_correlation(kind, x, y)
        assert found.value == pytest.approx(theirs(x, y).statistic)
        assert found.interval is not None
        assert -1 <= found.interval.low <= found.value <= found.interval.high <= 1
        if size > 8:
            assert found.p == pytest.approx(theirs(x, y).pvalue)
    exact = stats.kendalltau([1, 2, 3, 4, 5], [5, 3, 1, 4, 2], method="exact").pvalue
    if kind == "kendall":
        assert rank_correlation(kind, [1, 2, 3, 4, 5], [5, 3, 1, 4, 2]).p == pytest.approx(exact)


def test_ranks_that_do_not_vary_have_no_correlation() -> None:
    found = rank_correlation("spearman", X, [0.1] * 5)
    assert (found.value, found.interval, found.p) == (None, None, None)


def test_what_has_no_rank_correlation_is_refused() -> None:
    for correlate in (rank_correlation, correlate_ranks):
        with pytest.raises(UnknownNameError, match=r"'spearmen'.* did you mean 'spearman'"):
            correlate("spearmen", X, X)
    with pytest.raises(DataError, match="takes at least 3 groups, and there are 2"):
        rank_correlation("kendall", X[:2], X[:2])
    with pytest.raises(DataError, match="takes at least 3 groups, and there are 2"):
        rank_reach(2)


def test_intervals_of_rank_correlations_hold_the_truth() -> None:
    """Under every truth, at least 95 of 100 samples give an interval that holds it."""
    rng = np.random.default_rng(4)
    intervals = {
        order: rank_correlation("spearman", range(4), order).interval
        for order in permutations(range(4))
    }
    for rho in (0.0, -0.8):
        truth = 6 / np.pi * np.arcsin(rho / 2)
        first, second = rng.standard_normal((2, 2000, 4))
        first.sort(axis=1)
        orders = np.argsort(np.argsort(rho * first + np.sqrt(1 - rho**2) * second))
        held = 0
        for order in orders:
            low, high = intervals[tuple(order)] or Interval(1, -1)
            held += low <= truth <= high
        assert held / 2000 >= 0.94


def test_few_groups_can_show_only_so_much() -> None:
    four, five, ten = map(rank_reach, (4, 5, 10))
    assert (four.needed, four.detectable) == (None, None)
    assert four.smallest_p == pytest.approx(2 / 24)
    assert (five.needed, five.smallest_p) == (1.0, pytest.approx(2 / 120))
    assert five.detectable is not None
    assert five.detectable > 0.98
    assert ten.needed == pytest.approx(0.648, abs=0.01)  # the printed table's critical value
    json.dumps(plain(five), allow_nan=False)


def test_slopes_inside_groups_are_tested_on_as_many_witnesses_as_there_are_groups() -> None:
    rng = np.random.default_rng(5)
    indicator = {f"C{g}": rng.random(50) for g in range(5)}
    slopes = [-0.3, -0.1, 0.05, -0.2, -0.25]
    losses = {
        group: slope * indicator[group] + place
        for place, (group, slope) in enumerate(zip(indicator, slopes, strict=True))
    }
    found = slope_test(losses, indicator)
    assert found is not None
    expected = stats.ttest_1samp(slopes, 0)
    assert list(found.slopes.values()) == pytest.approx(slopes)
    assert (found.p, found.df) == (pytest.approx(expected.pvalue), 4)
    assert found.interval == pytest.approx(expected.confidence_interval())
    alike = dict.fromkeys(["C0", "C1", "C2"], np.ones(50))
    assert slope_test(losses, indicator | alike) is None


def test_queries_that_lose_alike_show_no_slope_of_rounding() -> None:
    """Their mean may be one rounding away from each of them; 1 in 75 of such links was shown."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        indicator = {f"C{g}": rng.random(int(rng.integers(20, 200))) for g in range(5)}
        loss = 1 - 1 / 7 / rng.random()
        found = slope_test({g: np.full(len(x), loss) for g, x in indicator.items()}, indicator)
        assert found is not None
        assert (found.slope, found.p) == (0, None)


def test_what_difficulty_explains_is_gone_at_equal_difficulty() -> None:
    rng = np.random.default_rng(6)
    difficulty = {f"C{g}": rng.integers(0, 4, 400).astype(float) for g in range(4)}
    indicator = {g: one + rng.normal(0, 0.5, 400) for g, one in difficulty.items()}
    losses = {g: 0.1 * one + rng.normal(0, 0.01, 400) for g, one in difficulty.items()}
    raw, equal = slope_test(losses, indicator), slope_test(losses, indicator, difficulty)
    assert raw is not None
    assert equal is not None
    assert raw.slope > 0.05
    assert abs(equal.slope) < 0.005


def test_the_mixed_model_agrees_with_the_line_where_groups_scatter_beyond_their_noise() -> None:
    rng = np.random.default_rng(7)
    scatter, seeds = rng.normal(0, 0.1, 5), rng.normal(0, 0.05, (3, 1))
    losses = {
        f"C{g}": 0.1 - 0.4 * X[g] + scatter[g] + seeds + rng.normal(0, 0.3, (3, 300))
        for g in range(5)
    }
    model = fit_mixed_model(losses, {f"C{g}": np.full(300, X[g]) for g in range(5)})
    line = fit_line(X, [one.mean() for one in losses.values()])
    assert model is not None
    assert model.converged
    assert (model.slope, model.p) == (pytest.approx(line.slope), pytest.approx(line.p, rel=0.01))
    assert model.wald_p < model.p
    assert model.query_deviation == pytest.approx(0.3, rel=0.1)
    assert model.seed_deviation == pytest.approx(float(seeds.std(ddof=1)), rel=0.3)
    with pytest.raises(DataError, match="at least 3 groups"):
        fit_mixed_model(dict(list(losses.items())[:2]), {"C0": X, "C1": X})
    with pytest.raises(DataError, match=r"all 5 groups are equally similar \(0\.3\), .*; take an"):
        fit_mixed_model(losses, dict.fromkeys(losses, np.full(300, 0.3)))


@pytest.mark.parametrize("loss", [0.0, 0.5, X], ids=["nothing", "half", "each group its own"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_there_is_no_mixed_model_of_queries_that_lose_alike(seeds: int, loss: Floats) -> None:
    """The fit gave NaN, or a p-value of 1e-7, or stopped at a singular matrix."""
    lost = np.broadcast_to(np.square(loss), 5)
    losses = {f"C{g}": np.full((seeds, 40), lost[g]) for g in range(5)}
    assert fit_mixed_model(losses, {f"C{g}": np.full(40, X[g]) for g in range(5)}) is None
    assert fit_mixed_model(losses, dict.fromkeys(losses, np.linspace(0, 1, 40))) is None


def test_a_group_of_one_query_says_nothing_of_what_seeds_add() -> None:
    """Its variance is not known; as 0 it promises more than test sets can show."""
    rng = np.random.default_rng(3)
    groups = {
        group: GroupScores(rng.random((3, 2, queries)), rng.random((3, queries)))
        for group, queries in (("C0", 1), ("C1", 200), ("C2", 200))
    }
    of_all = detectable_losses("topics", "dense", "RR@10", shift_loss(groups))
    del groups["C0"]
    assert of_all == detectable_losses("topics", "dense", "RR@10", shift_loss(groups))
