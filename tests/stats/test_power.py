"""The smallest loss that a test set can show: checked against the tests that reports make."""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from msshift_bench.analysis import load_published
from msshift_bench.stats import (
    PUBLISHED_LOSS,
    Estimate,
    Part,
    Uncertainty,
    detectable_loss,
    detectable_rel_loss,
    queries_to_detect,
)
from tests.support.golden import Golden


def is_significant(estimate: Any) -> bool:
    return bool(estimate.uncertainty().p_value(estimate.value) <= 0.05)


@pytest.mark.parametrize(
    ("queries", "deviation", "correlation"), [(100, 1.0, 0.8), (400, 1.5, 0.5), (6200, 1.0, 0.9)]
)
def test_statsmodels_finds_the_same(queries: int, deviation: float, correlation: float) -> None:
    found = detectable_rel_loss(queries, deviation=deviation, correlation=correlation)
    spread = deviation * math.sqrt(2 * (1 - correlation))
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
        significant += is_significant(Estimate.mean(lost, "a", "short"))
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


def test_plans_that_cannot_be_made(golden: Golden) -> None:
    plan = partial(detectable_loss, of_queries_alone(0.01, 99.0))
    wrong = {"queries": -1, "deviation": 0.0, "correlation": 1.0}
    refusals = {
        **{f"{name} {value}": partial(detectable_rel_loss, **{"queries": 10, name: value})
           for name, value in wrong.items()},
        "no loss to detect": partial(queries_to_detect, 0),
        "seeds of one": partial(plan, planned_seeds=3),
    }  # fmt: skip
    golden.check_refusals("no-plans.txt", refusals)
