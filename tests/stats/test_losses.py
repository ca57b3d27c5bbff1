"""Point estimates, degenerate input, replicates, intervals, macro averages, published tables."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import UsageError
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.losses import group_loss, shift_loss
from msshift_bench.stats.significance import benjamini_hochberg, holm
from tests.support.group_scores import scores

ROOT = Path(__file__).parents[2]


def published(name: str) -> dict[str, Any]:
    path = ROOT / "msshift_bench" / "analysis" / "published" / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


# Published figures


@pytest.mark.parametrize("group", ["C0", "C1", "C2", "C3", "C4"])
def test_published_splade_matrix_gives_the_published_avg_in_and_rel_loss(group: str) -> None:
    table = published("ms_shift_v1")["splade_topics_matrix"]
    column = table["columns"].index(group)
    out = table["rows"][group][column]
    inside = [[row[column]] for held_out, row in table["rows"].items() if held_out != group]
    result = group_loss(inside, [out])
    # Cells are printed to 0.001, and their mean again.
    assert result.avg_in == pytest.approx(table["avg_in"][column], abs=0.0005 + 1e-9)
    assert result.rel_loss is not None
    rel_loss_pct = table["rel_loss_pct"][column]
    lowest = group_loss(np.array(inside) - 0.0005, [out + 0.0005]).rel_loss
    highest = group_loss(np.array(inside) + 0.0005, [out - 0.0005]).rel_loss
    assert lowest is not None
    assert highest is not None
    assert 100 * lowest - 0.05 <= rel_loss_pct <= 100 * highest + 0.05
    # Rel Loss was computed before the cells were rounded. For C3 that shows: its Out is 0.246 here
    # and 24.5 in the later paper, so about 0.2455, which gives the 6.4% that both papers print.
    if group == "C3":
        assert 100 * (1 - 0.2455 / result.avg_in) == pytest.approx(rel_loss_pct, abs=0.05)
    else:
        assert 100 * result.rel_loss == pytest.approx(rel_loss_pct, abs=0.1)


def published_rows() -> list[Any]:
    tables = published("ms_shift_v2")
    rows = tables["topics"] + tables["wh_and_length"]
    return [pytest.param(row, id=f"{row['system']}-{row['group']}") for row in rows]


@pytest.mark.parametrize("row", published_rows())
def test_published_avg_in_and_out_give_the_published_rel_loss(row: dict[str, Any]) -> None:
    result = group_loss([[row["avg_in"]]], [row["out"]])
    # Both were rounded to 0.1 first, which moves 1 - out / avg_in by at most this much.
    slack = 5 / row["avg_in"] * (1 + row["out"] / row["avg_in"]) + 0.05
    assert result.rel_loss is not None
    assert 100 * result.rel_loss == pytest.approx(row["rel_loss_pct"], abs=slack + 1e-9)


# Point estimates


def test_figures_of_a_small_group_by_hand() -> None:
    result = group_loss([[1.0, 0.5, 0.0], [0.5, 0.5, 0.5]], [0.5, 0.25, 0.0])
    assert (result.avg_in, result.out, result.loss) == (0.5, 0.25, 0.25)
    assert result.rel_loss == 0.5
    assert (result.queries, result.models, result.seeds) == (3, 2, 1)
    assert result.intervals is not None
    assert result.intervals.counts == "queries only"


def test_effect_size_is_the_mean_difference_over_its_standard_deviation() -> None:
    differences = np.array([0.5, 0.25, -0.25, 0.5])
    result = group_loss([differences + 0.5], np.full(4, 0.5))
    assert result.tests.d_z == pytest.approx(0.25 / np.std(differences, ddof=1))


def test_a_measure_where_lower_is_better_loses_by_rising() -> None:
    result = group_loss([[10.0, 20.0], [30.0, 20.0]], [25.0, 30.0], higher_is_better=False)
    assert (result.avg_in, result.out, result.loss) == (20.0, 27.5, 7.5)
    assert result.rel_loss == 0.375
    assert result.tests.t is not None
    assert result.tests.t > 0


@pytest.mark.parametrize(
    ("inside", "out"),
    [
        ([0.5, 0.5], [0.5, 0.5]),
        ([[0.5, 0.5]], [0.5]),
        ([[[0.5, 0.5]]], [0.5, 0.5]),
        ([[0.5, 0.5]], [[0.5, 0.5]]),
        (np.empty((0, 2)), [0.5, 0.5]),
        (np.empty((0, 2, 2)), np.empty((0, 2))),
        ([[0.5, np.nan]], [0.5, 0.5]),
        ([[0.5, 0.5]], [0.5, np.inf]),
    ],
)
def test_malformed_scores_are_refused(inside: Any, out: Any) -> None:
    with pytest.raises(UsageError):
        group_loss(inside, out)


@pytest.mark.parametrize(
    "wrong", [{"confidence": 1.0}, {"confidence": 0.0}, {"seed_variance": "Own"}]
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        group_loss([[1.0, 0.5, 0.2]], [0.5, 0.4, 0.3], Inference(**wrong))


# Degenerate input; pytest turns every warning into an error


def test_no_query_has_no_figures() -> None:
    result = group_loss(np.empty((4, 0)), np.empty(0))
    assert np.isnan([result.avg_in, result.out, result.loss]).all()
    assert result.rel_loss is None
    assert (result.intervals, result.uncertainty, result.p) == (None, None, None)
    assert (result.tests.t, result.tests.t_p, result.tests.d_z) == (None, None, None)


def test_one_query_has_a_loss_and_nothing_to_test_it_with() -> None:
    result = group_loss([[1.0], [0.5]], [0.5])
    assert result.rel_loss == pytest.approx(1 / 3)
    assert (result.intervals, result.uncertainty, result.p) == (None, None, None)
    assert (result.tests.t, result.tests.t_p, result.tests.d_z) == (None, None, None)


def test_equal_differences_have_no_t() -> None:
    # 0.3 - 0.2 and 0.5 - 0.4 differ in their last bits only.
    result = group_loss([[0.3, 0.5, 0.3]], [0.2, 0.4, 0.2])
    assert (result.tests.t, result.tests.t_p, result.tests.d_z) == (None, None, None)


def test_equal_relative_losses_leave_nothing_to_test_against() -> None:
    inside = np.array([0.1, 0.7, 0.3, 0.9])
    result = group_loss([inside], 0.7 * inside)
    assert result.rel_loss == pytest.approx(0.3)
    assert result.p is None
    assert result.intervals is not None
    assert result.intervals.rel_loss == pytest.approx((0.3, 0.3))


def test_differences_of_rounding_count_as_none() -> None:
    inside = np.array([[0.1 + 0.2, 0.6, 0.9]])
    result = group_loss(inside, [0.3, 0.6, 0.9])
    assert result.p == 1.0
    assert result.tests.t is None


def test_avg_in_of_zero_has_no_rel_loss() -> None:
    result = group_loss(np.zeros((2, 5)), np.zeros(5))
    assert (result.avg_in, result.loss, result.rel_loss) == (0.0, 0.0, None)
    assert result.intervals is not None
    assert result.intervals.avg_in == (0.0, 0.0)
    assert (result.intervals.rel_loss, result.uncertainty, result.p) == (None, None, None)


# One inference


def test_p_is_below_5_percent_exactly_where_the_interval_excludes_zero() -> None:
    told = set()
    for seed in range(60):
        group = scores(seed, 1 + seed % 4, 3, 80, loss=0.1)
        result = group_loss(group.inside, group.out)
        assert result.intervals is not None
        assert result.intervals.rel_loss is not None
        assert result.p is not None
        low, high = result.intervals.rel_loss
        assert (result.p <= 0.05) == (not low <= 0 <= high)
        told.add(result.p <= 0.05)
    assert told == {True, False}


def test_a_single_seed_counts_queries_only_and_is_never_significant() -> None:
    group = scores(1, 4, 2000, loss=0.5)
    result = shift_loss({"short": group, "long": group})
    assert result.intervals is not None
    assert result.intervals.counts == "queries only"
    assert result.uncertainty is not None
    assert (result.uncertainty.seed_variance, result.uncertainty.seed_share) == (None, None)
    assert result.adjusted_p["short"] < 1e-6
    assert not result.is_significant("short")
    replicated = shift_loss({"short": scores(1, 3, 4, 2000, loss=0.5)})
    assert replicated.is_significant("short")
    assert replicated.intervals is not None
    assert replicated.intervals.counts == "queries and seeds"


def test_the_variance_from_queries_is_that_of_the_delta_method() -> None:
    group = scores(3, 4, 400, loss=0.2)
    inside, out = group.inside[0].mean(axis=0), group.out[0]
    ratio = out.mean() / inside.mean()
    expected = np.var((ratio * inside - out) / inside.mean(), ddof=1) / 400
    result = group_loss(group.inside, group.out)
    assert result.uncertainty is not None
    assert result.uncertainty.query_variance == pytest.approx(expected, rel=1e-12)
    assert result.uncertainty.query_df == 399


# Replicates


def test_spread_over_seeds_by_hand() -> None:
    inside = [[[0.8, 0.4]], [[0.6, 0.2]]]
    result = group_loss(inside, [[0.3, 0.3], [0.2, 0.2]])
    assert result.seeds == 2
    assert result.avg_in == pytest.approx(0.5)
    assert result.rel_loss == pytest.approx(0.5)
    assert result.spread is not None
    assert result.spread.avg_in == pytest.approx(np.std([0.6, 0.4], ddof=1))
    assert result.spread.out == pytest.approx(np.std([0.3, 0.2], ddof=1))
    assert result.spread.loss == pytest.approx(np.std([0.3, 0.2], ddof=1))
    assert result.spread.rel_loss == pytest.approx(0.0)
    assert result.spread.mean_rel_loss == pytest.approx(0.5)


def test_one_replicate_is_a_single_seed() -> None:
    group = scores(4, 3, 50)
    replicate = group_loss(group.inside, group.out)
    assert replicate == group_loss(group.inside[0], group.out[0])
    assert (replicate.seeds, replicate.spread) == (1, None)


def test_seeds_that_agree_add_no_uncertainty() -> None:
    group = scores(5, 3, 200)
    single = group_loss(group.inside, group.out).intervals
    tripled = [np.repeat(part, 3, axis=0) for part in (group.inside, group.out)]
    replicated = group_loss(tripled[0], tripled[1])
    assert single is not None
    assert replicated.intervals is not None
    assert replicated.intervals.rel_loss == pytest.approx(single.rel_loss, rel=1e-9)
    assert replicated.uncertainty is not None
    assert replicated.uncertainty.seed_variance == 0.0


def test_seeds_that_disagree_widen_the_interval() -> None:
    group = scores(5, 3, 200)
    inside = np.concatenate([group.inside, group.inside])
    agreeing = group_loss(inside, np.concatenate([group.out, group.out])).intervals
    apart = group_loss(inside, np.concatenate([group.out * 0.5, group.out * 1.5])).intervals
    assert agreeing is not None
    assert apart is not None
    assert np.ptp(apart.out) > 1.5 * np.ptp(agreeing.out)


def test_pooled_seeds_rest_on_more_degrees_of_freedom_and_say_so() -> None:
    groups = {f"C{i}": scores(i, 3, 4, 300, loss=0.2) for i in range(5)}
    own, pooled = (shift_loss(groups, Inference(seed_variance=how)) for how in ("own", "pooled"))
    assert (own.seed_variance, pooled.seed_variance) == ("own", "pooled")
    assert own.uncertainty is not None
    assert pooled.uncertainty is not None
    assert (own.uncertainty.seed_df, pooled.uncertainty.seed_df) == (2, 10)
    assert own.uncertainty.query_variance == pooled.uncertainty.query_variance
    found = pooled.groups["C0"].uncertainty
    assert found is not None
    assert found.seed_df == 10
    with pytest.raises(UsageError, match="4 in-domain models"):
        shift_loss({**groups, "C4": scores(4, 3, 3, 300)}, Inference(seed_variance="pooled"))


def test_pooled_seeds_of_a_group_by_hand() -> None:
    group = scores(2, 4, 2, 60)
    result = group_loss(group.inside, group.out, Inference(seed_variance="pooled"))
    means = [*group.inside.mean(axis=2).T, group.out.mean(axis=1)]
    variance = np.mean([np.var(mean, ddof=1) for mean in means])
    kept = result.out / result.avg_in
    expected = variance * (kept**2 / 2 + 1) / result.avg_in**2 / 4
    assert result.uncertainty is not None
    assert result.uncertainty.seed_variance == pytest.approx(expected)
    assert result.uncertainty.seed_df == 9


def test_a_seed_without_any_hit_has_no_rel_loss_to_spread() -> None:
    result = group_loss([[[0.5, 1.0]], [[0.0, 0.0]]], [[0.5, 0.5], [0.0, 0.0]])
    assert result.spread is not None
    assert (result.spread.rel_loss, result.spread.mean_rel_loss) == (None, None)
    assert result.spread.avg_in == pytest.approx(np.std([0.75, 0.0], ddof=1))


# Corrections


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.04, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_corrections_of_nothing_and_of_nonsense(correct: Any) -> None:
    assert correct([]) == []
    for wrong in ([1.1], [-0.1], [float("nan")], [[0.1]]):
        with pytest.raises(UsageError):
            correct(wrong)


# Coverage


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "benchmarks" / "coverage_simulation.py"
    spec = importlib.util.spec_from_file_location("coverage_simulation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_intervals_and_comparisons_hold_over_seeds_as_often_as_they_say(
    simulation: ModuleType, effect: float
) -> None:
    setting = simulation.Setting(groups=2, queries=300, seeds=3, seed_effect=effect)
    held = simulation.coverage(setting, trials=500, variances=["own"])
    # The full simulation asks for 93% and 7%; 500 trials have a standard error of 1.1 points.
    assert min(held["own group"], held["own mean"]) >= 0.91
    assert held["own group"] <= 0.985
    rejected = simulation.false_rejections(setting, trials=500)
    assert max(rejected.values()) <= 0.09


@pytest.mark.slow
def test_one_seed_does_not_hold_over_seeds_and_is_labelled(simulation: ModuleType) -> None:
    setting = simulation.Setting(groups=2, queries=300, seeds=1, seed_effect=0.2)
    assert simulation.coverage(setting, trials=200, variances=["own"])["own group"] < 0.6


@pytest.mark.slow
def test_the_simulations_truth_is_what_many_queries_give(simulation: ModuleType) -> None:
    world = simulation.World(found=0.6, seed_effect=0.3)
    (drawn,) = simulation.simulate([world], 2, 500, 1500, np.random.default_rng(0))
    result = shift_loss(drawn)
    truth = world.truth()
    assert result.avg_in == pytest.approx(truth["avg_in"], abs=0.02)
    assert result.rel_loss == pytest.approx(truth["rel_loss"], abs=0.01)
