"""What few groups and few clusters show: lines, ranks, slopes, shares and agreement."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from msshift_bench.errors import UsageError
from msshift_bench.stats import (
    Claim,
    Figure,
    Inference,
    Slope,
    annotator_agreement,
    clustered_share,
    correlate_ranks,
    fit_line,
    fit_parallel_lines,
    infer,
    rank_correlation,
    slope_inside_groups,
)
from tests.support.lanes import with_first
from tests.support.refusals import check_refusals

X = np.array([0.263, 0.322, 0.333, 0.369, 0.470])
Y = np.array([0.18, 0.115, 0.083, 0.09, 0.086])
"""Similarities of five groups, and their losses."""


def known(slope: Slope) -> Figure:
    """Return a slope with its interval and its p-value."""
    (figure,) = infer([Claim(Figure("slope"), slope, "alone")], Inference())
    return figure


def test_a_line_is_the_one_of_statsmodels() -> None:
    import statsmodels.api as sm

    line, expected = fit_line(X, Y), sm.OLS(Y, sm.add_constant(X)).fit()
    assert (line.intercept, line.slope.value) == pytest.approx(expected.params)
    slope = known(line.slope)
    assert slope.interval == pytest.approx(expected.conf_int()[1])
    assert (slope.p, line.r_squared) == pytest.approx((expected.pvalues[1], expected.rsquared))
    assert (slope.counts, slope.mark) == ("groups", "")
    at = expected.get_prediction([[1.0, 0.4]]).summary_frame(alpha=0.05).iloc[0]
    assert line.interval(0.4) == pytest.approx((at.mean_ci_lower, at.mean_ci_upper))
    one_more = line.interval([0.4], of_a_group=True)
    assert np.ravel(one_more) == pytest.approx((at.obs_ci_lower, at.obs_ci_upper))
    assert line.groups == 5
    assert line.at([0.0, 1.0]) == pytest.approx([line.intercept, sum(expected.params)])


def test_points_on_a_line_leave_nothing_to_test() -> None:
    line = fit_line([0.1, 0.2, 0.4], [0.3, 0.2, 0.0])
    assert line.slope.value == pytest.approx(-1)
    assert (known(line.slope).p, line.slope.error, line.r_squared) == (None, 0, 1)
    for loss in np.linspace(0.01, 0.99, 50):  # the mean of some is one rounding away from them
        flat = fit_line(X, np.full(5, loss))
        assert (flat.r_squared, known(flat.slope).p) == (None, 1)


def test_what_has_no_line_or_correlation_is_refused() -> None:
    refusals = {
        "two groups: DataError 3 2": partial(fit_line, [0.1, 0.2], [0.1, 0.2]),
        "DataError 3 0.3": partial(fit_line, [0.3, 0.3, 0.3], [0.1, 0.2, 0.3]),
        "UsageError finite": partial(fit_line, [0.1, 0.2, 0.3], [0.1, np.nan, 0.3]),
        "UsageError (3,) (2,)": partial(fit_line, [0.1, 0.2, 0.3], [0.1, 0.2]),
        "an unknown correlation: UnknownNameError 'spearmen' 'spearman'": partial(
            rank_correlation, "spearmen", X, X
        ),
        "an unknown correlation of both: UnknownNameError 'spearmen' 'spearman'": partial(
            correlate_ranks, "spearmen", X, X
        ),
        "ranks of two: DataError 3 2": partial(rank_correlation, "kendall", X[:2], X[:2]),
    }
    check_refusals(refusals)
    assert rank_correlation("spearman", X, [0.1] * 5) == (None, None)


def test_parallel_lines_are_those_of_statsmodels() -> None:
    import statsmodels.api as sm

    shifts = ["a", "a", "a", "b", "b"]
    heights = [[float(shift == name) for shift in shifts] for name in "ab"]
    expected = sm.OLS(Y, np.column_stack([X, *heights])).fit()
    slope = fit_parallel_lines(X, Y, shifts)
    assert (slope.value, slope.error) == pytest.approx((expected.params[0], expected.bse[0]))
    assert slope.df == expected.df_resid == 2
    assert fit_parallel_lines(X[:3], Y[:3], ["a", "a", "b"]) is None
    assert fit_parallel_lines([0.1, 0.1, 0.1, 0.2, 0.2], Y, shifts) is None


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
@pytest.mark.parametrize("size", with_first([4, 6, 12], [4, 12]))
def test_rank_correlations_are_those_of_scipy_with_exact_p_values(kind: str, size: int) -> None:
    theirs = {"spearman": stats.spearmanr, "kendall": stats.kendalltau}[kind]
    rng = np.random.default_rng(size)
    for decimals in (1, 9):  # with ties, and without
        x, y = rng.random((2, size)).round(decimals)
        value, p = rank_correlation(kind, x, y)
        expected = theirs(x, y)
        assert value == pytest.approx(expected.statistic)
        if size > 8:
            assert p == pytest.approx(expected.pvalue)
        else:
            orders = [theirs(x, order).statistic for order in permutations(y)]
            share = np.mean(np.abs(orders) >= abs(expected.statistic) - 1e-9)
            assert p == pytest.approx(share)


def test_slopes_inside_groups_are_tested_on_as_many_witnesses_as_there_are_groups() -> None:
    rng = np.random.default_rng(5)
    indicator = {f"C{g}": rng.random(50) for g in range(5)}
    slopes = [-0.3, -0.1, 0.05, -0.2, -0.25]
    losses = {
        group: slope * indicator[group] + place
        for place, (group, slope) in enumerate(zip(indicator, slopes, strict=True))
    }
    slope = slope_inside_groups(losses, indicator)
    expected = stats.ttest_1samp(slopes, 0)
    assert (slope.value, slope.df) == (pytest.approx(np.mean(slopes)), 4)
    assert known(slope).p == pytest.approx(expected.pvalue)
    assert known(slope).interval == pytest.approx(expected.confidence_interval())
    alike = dict.fromkeys(["C0", "C1", "C2"], np.ones(50))
    assert slope_inside_groups(losses, indicator | alike) is None


def test_queries_that_lose_alike_show_no_slope_of_rounding() -> None:
    """Their mean may be one rounding away from each of them; 1 in 75 of such links was shown."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        indicator = {f"C{g}": rng.random(int(rng.integers(20, 200))) for g in range(5)}
        loss = 1 - 1 / 7 / rng.random()
        alike = {g: np.full(len(x), loss) for g, x in indicator.items()}
        assert slope_inside_groups(alike, indicator) == (0, 0, 4)


# ---- shares of items in clusters, and agreement --------------------------------------------------


def test_independent_items_have_the_exact_interval() -> None:
    hits = np.array([1.0] * 30 + [0.0] * 10)
    share, interval = clustered_share(hits, np.ones(40))
    exact = stats.binomtest(30, 40).proportion_ci(method="exact")
    # The variance estimated from 40 clusters has 39 in its denominator.
    assert interval == pytest.approx(exact, abs=0.004)
    assert share == 0.75


def test_items_of_one_cluster_are_not_independent() -> None:
    hits, items = np.array([5.0, 5.0, 5.0, 0.0, 5.0, 5.0]), np.full(6, 5.0)
    _, (low, high) = clustered_share(hits, items)
    _, (low_of_few, _) = clustered_share(hits / 5, items / 5)
    # Clusters that are all alike inside say no more than one item each, or a little less.
    exact = stats.binomtest(5, 6).proportion_ci(method="exact")
    assert low <= exact.low < low_of_few + 0.2
    assert high >= exact.high
    least = stats.binomtest(6, 6).proportion_ci(method="exact").low
    assert clustered_share(items, items) == (1.0, pytest.approx((least, 1.0)))
    assert clustered_share(items * 0, items) == (0.0, pytest.approx((0.0, 1 - least)))


def test_too_little_has_no_interval() -> None:
    assert clustered_share(np.zeros(2), np.zeros(2)) is None
    one = clustered_share(np.array([2.0, 0.0]), np.array([3.0, 0.0]))
    assert one == (pytest.approx(2 / 3), None)
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
    assert found.kappa == pytest.approx(np.mean([kappa(*pair) for pair in pairs]))

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
    assert -1 < once_apart.interval[0] < once_apart.kappa < once_apart.interval[1] < 1
    perfect = annotator_agreement([[0, 1, 0, 1], [0, 1, 0, 1]], list("pqrs"))
    assert perfect.interval == (1, 1)


def test_agreement_that_chance_makes_certain_is_undefined() -> None:
    found = annotator_agreement([[1, 1], [1, 1]], ["p", "q"])
    assert (found.kappa, found.interval) == (None, None)
    perfect = annotator_agreement([[0, 1], [0, 1]], ["p", "p"])
    assert (perfect.kappa, perfect.interval) == (1, None)
    for wrong in ([[1, 1]], [[1], [1, 2]], [[], []]):
        with pytest.raises(UsageError, match="two"):
            annotator_agreement(wrong, ["p", "q"])
