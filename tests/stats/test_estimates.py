"""Estimates: what figures are worth, what queries and seeds add to their error, and plans."""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings, strategies as st
from scipy.special import stdtr

from msshift_bench.analysis import load_published
from msshift_bench.errors import UsageError
from msshift_bench.stats import (
    FIXED,
    PUBLISHED_LOSS,
    Estimate,
    Part,
    Uncertainty,
    average,
    detectable_loss,
    detectable_rel_loss,
    more_seeds_to_halve,
    queries_to_detect,
    rel_loss,
)
from tests.support.made_scores import losses, sides
from tests.support.refusals import check_refusals


def ends(estimate: Any) -> tuple[float, float]:
    return estimate.uncertainty().interval(estimate.value, 0.95)


def p_of(estimate: Any) -> float | None:
    return estimate.uncertainty().p_value(estimate.value)


def mean_of(*scores: float) -> Estimate:
    return Estimate.mean(np.array([scores]), "a", "short")


# ---- values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sign", "inside", "out", "expected"),
    [(1, (1.0, 0.5, 0.0), (0.5, 0.25, 0.0), 0.5), (-1, (20.0, 20.0), (25.0, 30.0), 0.375)],
)
def test_losses_by_hand(
    sign: int, inside: tuple[float, ...], out: tuple[float, ...], expected: float
) -> None:
    values = {
        name: of.value for name, of in losses(np.array([inside]), np.array([out]), sign).items()
    }
    mean_in, mean_out = np.mean(inside), np.mean(out)
    loss = sign * (mean_in - mean_out)
    assert values == {"avg_in": mean_in, "out": mean_out, "loss": loss, "rel_loss": expected}
    assert rel_loss(mean_of(*inside), mean_of(*out), sign).value == expected


def test_averages_count_every_estimate_alike() -> None:
    terms = [mean_of(0.8, 0.8, 0.8), Estimate.mean(np.array([[0.4]]), "a", "long")]
    mean = average(terms)
    assert mean.value == pytest.approx(0.6)
    assert repr(mean) == "<Estimate: 0.6000, a on short, a on long>"
    assert average([*terms, None]) is average([]) is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong: float) -> None:
    with pytest.raises(UsageError, match="missing"):
        mean_of(0.5, wrong)


# ---- input that leaves something undefined; pytest turns every warning into an error ---------


def test_few_queries_leave_figures_without_certainty() -> None:
    nothing = losses(np.empty((3, 0)), np.empty((3, 0)))
    assert nothing.pop("rel_loss") is None
    assert np.isnan([estimate.value for estimate in nothing.values()]).all()
    one_query = losses(np.array([[0.75], [0.75]]), np.array([[0.5], [0.5]]))
    assert one_query["rel_loss"].value == pytest.approx(1 / 3)
    for estimate in (*nothing.values(), *one_query.values()):
        assert estimate.uncertainty() is None
    zeros = losses(np.zeros((1, 5)), np.zeros((1, 5)))
    assert (zeros["rel_loss"], ends(zeros["avg_in"])) == (None, (0.0, 0.0))


def test_what_does_not_vary_leaves_nothing_to_test_against() -> None:
    inside = np.array([[0.1, 0.7, 0.3, 0.9]])
    loss = losses(inside, 0.7 * inside)["rel_loss"]
    assert (ends(loss), p_of(loss)) == (pytest.approx((0.3, 0.3)), None)
    # 0.1 + 0.2 and 0.3 differ in their last bits only.
    loss = losses(np.array([[0.1 + 0.2, 0.6, 0.9]]), np.array([[0.3, 0.6, 0.9]]))["rel_loss"]
    assert p_of(loss) == 1.0
    rounding = 1e-17 * np.random.default_rng(2).standard_normal((3, 50))
    uncertainty = Estimate.mean(0.1 + rounding, "a", "short").uncertainty()
    assert (uncertainty.queries.scale, uncertainty.trained.scale) == (0.0, 0.0)
    assert uncertainty.seed_share is None


# ---- what queries add --------------------------------------------------------------------


def test_queries_that_are_left_out_count_as_their_property() -> None:
    rng = np.random.default_rng(7)
    chosen = np.arange(300) % 3 > 0
    inside = rng.random((1, 300)) + 0.2 * ~chosen
    out = inside + rng.normal(0, 0.1, (1, 300)) - 0.1
    of_all, of_kept = (
        [Estimate.mean(scores, "a", "short", mask) for scores in (inside, out)]
        for mask in (None, chosen)
    )
    assert [term.value for term in of_kept] == pytest.approx(
        [scores[:, chosen].mean() for scores in (inside, out)]
    )
    changes = [of_all[0] - of_kept[0], rel_loss(*of_all) - rel_loss(*of_kept)]
    drawn = []
    for _ in range(1500):
        rows = rng.integers(0, 300, 300)
        (all_in, all_out), (kept_in, kept_out) = (
            (inside[0, part].mean(), out[0, part].mean()) for part in (rows, rows[chosen[rows]])
        )
        drawn.append((all_in - kept_in, kept_out / kept_in - all_out / all_in))
    for change, values in zip(changes, np.array(drawn).T, strict=True):
        assert np.ptp(ends(change)) == pytest.approx(2 * 1.968 * values.std(), rel=0.12)
    everything = Estimate.mean(inside, FIXED, "short", np.ones(300, np.bool_))
    nothing = everything - Estimate.mean(inside, FIXED, "short")
    assert (nothing.value, p_of(nothing)) == (pytest.approx(0), 1.0)


def test_samples_of_other_queries_are_independent() -> None:
    groups = [losses(*sides(n, 1, 300, loss=0.2), sample=str(n))["loss"] for n in range(5)]
    mean = average(groups)
    widths = [np.ptp(ends(group)) for group in groups]
    assert np.ptp(ends(mean)) == pytest.approx(np.sqrt(np.sum(np.square(widths))) / 5, rel=0.01)
    assert mean.uncertainty().queries.df == 5 * 299


# ---- what seeds add ----------------------------------------------------------------------


def test_seeds_whose_effects_on_two_groups_cancel_leave_the_mean_sure() -> None:
    queries = np.random.default_rng(0).random((2, 400))
    effect = np.array([-0.1, 0.0, 0.1])[:, None]
    groups = [
        losses(np.repeat(row[None], 3, 0), 0.8 * row * (1 + sign * effect), sample=sample)
        for row, sign, sample in zip(queries, (1, -1), ("short", "long"), strict=True)
    ]
    mean = average(group["rel_loss"] for group in groups)
    assert np.ptp(ends(mean)) < 0.1 * min(np.ptp(ends(group["rel_loss"])) for group in groups)


def test_unequal_numbers_of_seeds_rest_on_the_smaller() -> None:
    rng = np.random.default_rng(4)
    variances = []
    for few, many in zip(
        rng.standard_normal((2000, 2)), rng.standard_normal((2000, 5)), strict=True
    ):
        first, second = (
            Estimate.mean(np.repeat(seeds[:, None], 3, axis=1), name, "short")
            for seeds, name in ((few, "a"), (many, "b"))
        )
        assert (first - second).value == pytest.approx(few.mean() - many.mean())
        there, back = (first - second).uncertainty(), (second - first).uncertainty()
        assert (there.trained.df, there.seeds) == (1, 2)
        assert back.trained.scale == pytest.approx(there.trained.scale)
        variances.append(there.trained.scale**2)
    assert np.mean(variances) == pytest.approx(1 / 2 + 1 / 5, rel=0.1)


def test_a_fixed_ranking_has_no_seeds_and_takes_the_others() -> None:
    _, out = sides(1, 3, 50)
    fixed = Estimate.mean(np.zeros((1, 50)), FIXED, "short")
    trained = Estimate.mean(out, "a", "short")
    assert ends(trained - fixed) == pytest.approx(ends(trained))
    counts = [estimate.uncertainty().counts for estimate in (fixed, trained - fixed)]
    assert counts == ["queries only", "queries and seeds"]


# ---- plans -------------------------------------------------------------------------------


def test_seeds_that_make_an_interval_wide_are_worth_more_seeds() -> None:
    measured = Uncertainty(Part(1e-3, 599), Part(1e-2, 2), 3)
    more = more_seeds_to_halve(measured, 0.95)

    def width(seeds: int) -> float:
        trained = Part(1e-2 * (3 / seeds) ** 0.5, seeds - 1)
        return float(np.ptp(Uncertainty(measured.queries, trained, seeds).interval(0, 0.95)))

    assert width(3 + more) <= width(3) / 2 < width(3 + more - 1)
    # Queries that make an interval wide are not mended by seeds.
    for trained, seeds in ((Part(3e-3, 2), 3), (Part(0.0, 1.0), 1)):
        assert more_seeds_to_halve(Uncertainty(Part(1e-2, 599), trained, seeds), 0.95) is None


@pytest.mark.parametrize(
    ("queries", "deviation", "correlation"), [(100, 1.0, 0.8), (400, 1.5, 0.5), (6200, 1.0, 0.9)]
)
def test_statsmodels_finds_the_same(queries: int, deviation: float, correlation: float) -> None:
    found = detectable_rel_loss(queries, deviation=deviation, correlation=correlation)
    spread = deviation * math.sqrt(2 * (1 - correlation))
    from statsmodels.stats.power import TTestPower

    expected = TTestPower().solve_power(nobs=queries, alpha=0.05, power=0.8) * spread
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("rel_loss", [0.02, 0.083, 0.3, 1.0])
def test_so_many_queries_are_needed_and_no_fewer(rel_loss: float) -> None:
    enough = queries_to_detect(rel_loss)
    assert (detectable_rel_loss(enough) or 2) <= rel_loss
    assert (detectable_rel_loss(enough - 1) or 2) > rel_loss
    assert [detectable_rel_loss(n) for n in (0, 1, 3)] == [None, None, None]
    assert detectable_rel_loss(4) == pytest.approx(0.886, abs=1e-3)


def test_the_published_losses_have_this_median() -> None:
    tables = load_published("ms_shift_v2")
    losses = [row["rel_loss_pct"] for name in ("topics", "wh_and_length") for row in tables[name]]
    assert len(losses) == 40
    assert statistics.median(losses) / 100 == pytest.approx(PUBLISHED_LOSS)


def test_a_plan_of_seeds_finds_its_loss_in_80_of_100_cases() -> None:
    """Queries and seeds move what a system scores; the variances are known, and drawn from."""
    queries, seeds, trials = 100, 3, 500
    of_queries, of_seeds, noise = 0.4, 0.05, 0.3
    typical = Uncertainty(
        Part(of_queries / queries**0.5, queries - 1),
        Part(((of_seeds**2 + noise**2 / queries) / seeds) ** 0.5, seeds - 1),
        seeds,
    )
    loss = detectable_loss(typical)
    rng = np.random.default_rng(11)
    significant = 0
    for _ in range(trials):
        lost = loss + rng.normal(0, of_queries, queries) + rng.normal(0, of_seeds, (seeds, 1))
        lost = lost + rng.normal(0, noise, (seeds, queries))
        significant += p_of(Estimate.mean(lost, "a", "short")) <= 0.05
    # A tenth more or less of the loss moves this share by about 0.08.
    assert significant / trials == pytest.approx(0.8, abs=0.055)


def of_queries_alone(variance: float, df: float) -> Uncertainty:
    return Uncertainty(Part(variance**0.5, df), Part(0.0, 1.0), 1)


def test_plans_with_more_seeds_or_queries_detect_less() -> None:
    measured = Uncertainty(Part(0.04, 99.0), Part(0.03, 2.0), 3)
    by_seeds = [detectable_loss(measured, planned_seeds=n) or 1.0 for n in (2, 3, 5, 50)]
    assert by_seeds == sorted(by_seeds, reverse=True)
    assert by_seeds[1] == detectable_loss(measured)
    # Without seeds it is the formula of the power of a test over queries.
    alone = detectable_loss(of_queries_alone(0.4 / 300, 299.0))
    assert alone == pytest.approx(detectable_rel_loss(300), rel=0.01)
    assert detectable_loss(of_queries_alone(0.0, 99.0)) == 0
    assert detectable_loss(of_queries_alone(1.0, 99.0)) is None


def test_plans_that_cannot_be_made() -> None:
    plan = partial(detectable_loss, of_queries_alone(0.01, 99.0))
    of_three_seeds = Uncertainty(Part(0.04, 99.0), Part(0.03, 2.0), 3)
    refusals = {
        "UsageError 0 -1": partial(detectable_rel_loss, -1),
        "UsageError 0 0.0": partial(detectable_rel_loss, 10, deviation=0.0),
        "UsageError -1 1 1.0": partial(detectable_rel_loss, 10, correlation=1.0),
        "UsageError 0 1": partial(queries_to_detect, 0),
        "UsageError seed two": partial(plan, planned_seeds=3),
        "UsageError 2 1": partial(detectable_loss, of_three_seeds, planned_seeds=1),
    }  # fmt: skip
    check_refusals(refusals)


# ---- the sum of two scaled t variables, against scipy and known tables ---------------------------


scales = st.floats(1e-6, 1e3)
freedoms = st.sampled_from([1.0, 2.0, 4.0, 7.5, 599.0, 30995.0])
parts = st.builds(Part, scales, freedoms)


def half_width(confidence: float, first: Part, second: Part) -> float:
    return Uncertainty(first, second, 2).interval(0.0, confidence)[1]


def two_sided_p(distance: float, first: Part, second: Part) -> float:
    return Uncertainty(first, second, 2).p_value(distance)


@pytest.mark.parametrize("df", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("distance", [0.1, 2.0, 3.5, 40.0])
def test_probabilities_are_those_of_scipys_integration(
    df: int, scale: float, distance: float
) -> None:
    def beyond(z: float) -> float:
        tails = stdtr(df, (z - distance) / scale) + stdtr(df, (-z - distance) / scale)
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * float(tails)

    near = [end + side * scale for end in (-distance, distance) for side in (-6, 0, 6)]
    expected, _ = scipy.integrate.quad(
        beyond, -14, 14, points=[x for x in near if -14 < x < 14], limit=800, epsabs=1e-15
    )
    found = two_sided_p(distance, Part(1.0, 1e9), Part(scale, df))
    assert found == pytest.approx(expected, rel=1e-7 if expected > 0.01 else 0.025)


@settings(max_examples=60)
@given(parts, parts, st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_the_half_width_has_the_chance_that_is_asked_for(
    first: Part, second: Part, confidence: float
) -> None:
    found = half_width(confidence, first, second)
    assert two_sided_p(found, first, second) == pytest.approx(1 - confidence, rel=1e-9)
    assert half_width(confidence, second, first) == pytest.approx(found, rel=1e-9)
    alone = [half_width(confidence, part, Part(0.0, 1)) for part in (first, second)]
    assert found >= max(alone) * (1 - 1e-9)


def test_nothing_is_as_wide_as_nothing() -> None:
    assert half_width(0.95, Part(0.0, 1), Part(0.0, 5)) == 0.0


def test_far_tails_do_not_vanish() -> None:
    found = two_sided_p(30.0, Part(1.0, 1e9), Part(1e-3, 2))
    assert 0 < found < 1e-5
    assert np.isfinite(found)
