"""What a system loses on a whole shift: averages over groups, their intervals and corrections."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.losses import group_loss, shift_loss
from msshift_bench.stats.significance import adjust
from tests.support.group_scores import scores


def test_macro_averages_count_every_group_alike() -> None:
    groups = {
        "short": GroupScores([[0.8, 0.8, 0.8]], [0.4, 0.4, 0.4]),
        "long": GroupScores([[0.4]], [0.3]),
    }
    result = shift_loss(groups)
    assert result.avg_in == pytest.approx(0.6)
    assert result.out == pytest.approx(0.35)
    assert result.loss == pytest.approx(0.25)
    assert result.rel_loss == pytest.approx((0.5 + 0.25) / 2)
    assert list(result.groups) == ["short", "long"]
    assert result.intervals is None


def test_a_group_gives_the_same_alone_and_within_its_shift() -> None:
    groups = {name: scores(seed, 4, 90) for seed, name in enumerate(["C0", "C1"])}
    whole = shift_loss(groups)
    for name, one in groups.items():
        assert whole.groups[name] == group_loss(one.inside, one.out)


def test_pooled_averages_count_every_query_alike() -> None:
    groups = {
        "short": GroupScores([[0.8, 0.8, 0.8]], [0.4, 0.4, 0.4]),
        "long": GroupScores([[0.4]], [0.3]),
    }
    result = shift_loss(groups, Inference(average="pooled"))
    assert result.average == "pooled"
    assert result.avg_in == pytest.approx(0.7)
    assert result.out == pytest.approx(0.375)
    assert result.rel_loss == pytest.approx(0.325 / 0.7)
    assert result.intervals is not None
    with pytest.raises(UnknownNameError, match="macro"):
        shift_loss(groups, Inference(average="micro"))


def test_a_pooled_average_has_the_interval_of_one_group_with_all_queries() -> None:
    groups = {f"C{i}": scores(i, 3, 4, 50 + 30 * i, loss=0.2) for i in range(5)}
    together = group_loss(
        np.concatenate([one.inside for one in groups.values()], axis=2),
        np.concatenate([one.out for one in groups.values()], axis=1),
    )
    result = shift_loss(groups, Inference(average="pooled"))
    assert result.rel_loss == pytest.approx(together.rel_loss)
    assert result.p == pytest.approx(together.p)
    assert result.intervals is not None
    assert together.intervals is not None
    assert result.intervals.rel_loss == pytest.approx(together.intervals.rel_loss)
    assert result.spread is not None
    assert together.spread is not None
    assert result.spread.rel_loss == pytest.approx(together.spread.rel_loss)


def test_macro_interval_is_narrower_than_a_groups() -> None:
    groups = {f"C{i}": scores(i, 4, 300, loss=0.2) for i in range(5)}
    result = shift_loss(groups)
    assert result.intervals is not None
    assert result.rel_loss is not None
    widths = [np.ptp(one.intervals.loss) for one in result.groups.values() if one.intervals]
    expected = np.sqrt(np.sum(np.square(widths))) / 5
    assert np.ptp(result.intervals.loss) == pytest.approx(expected, rel=0.01)


def test_seeds_whose_effects_on_two_groups_cancel_leave_the_mean_sure() -> None:
    rng = np.random.default_rng(0)
    queries = rng.random((2, 400))
    effect = np.array([-0.1, 0.0, 0.1])[:, None]
    groups = {
        "short": GroupScores(
            np.repeat(queries[:1], 3, 0)[:, None], 0.8 * queries[0] * (1 + effect)
        ),
        "long": GroupScores(np.repeat(queries[1:], 3, 0)[:, None], 0.8 * queries[1] * (1 - effect)),
    }
    result = shift_loss(groups)
    assert result.intervals is not None
    assert result.intervals.rel_loss is not None
    widths = [
        np.ptp(one.intervals.rel_loss)
        for one in result.groups.values()
        if one.intervals is not None and one.intervals.rel_loss is not None
    ]
    assert np.ptp(result.intervals.rel_loss) < 0.1 * min(widths)


def test_a_group_without_rel_loss_leaves_the_shift_without_one() -> None:
    groups = {"short": scores(0, 2, 20), "long": GroupScores(np.zeros((2, 20)), np.zeros(20))}
    result = shift_loss(groups)
    assert result.rel_loss is None
    assert result.intervals is not None
    assert result.intervals.rel_loss is None
    assert result.avg_in == pytest.approx(result.groups["short"].avg_in / 2)


def test_replicates_of_a_shift_spread_the_macro_average() -> None:
    groups = {name: scores(seed, 3, 2, 40) for seed, name in enumerate(["short", "long"])}
    result = shift_loss(groups)
    per_seed = np.mean([one.per_seed()[1] for one in groups.values()], axis=0)
    assert result.seeds == 3
    assert result.spread is not None
    assert result.spread.out == pytest.approx(np.std(per_seed, ddof=1))


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_p_values_are_corrected_across_groups_and_the_correction_is_named(correction: str) -> None:
    groups = {f"C{i}": scores(i, 4, 100, loss=0.1 * i) for i in range(4)}
    groups["C4"] = GroupScores([[0.5]], [0.5])
    result = shift_loss(groups, Inference(correction=correction))
    p = {name: one.p for name, one in result.groups.items() if name != "C4"}
    assert result.correction == correction
    assert result.adjusted_p == adjust(p, correction)


def test_shifts_that_cannot_be_averaged_are_refused() -> None:
    with pytest.raises(UsageError, match="number of seeds"):
        shift_loss({"short": scores(0, 2, 20), "long": scores(0, 3, 2, 20)})
    with pytest.raises(UsageError, match="number of seeds"):
        shift_loss({})
    with pytest.raises(UnknownNameError, match="holm"):
        shift_loss({"short": scores(0, 2, 20)}, Inference(correction="Holm"))
