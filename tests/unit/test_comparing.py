"""Comparing two systems, and ranking many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msshift_bench.comparing import compare_losses, compare_pairs, compare_shifts, rank_bands
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.resampling import GroupScores
from msshift_bench.significance import adjust
from msshift_bench.statistics import shift_loss

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])


def system(loss: float, noise: int, queries: int = 400, level: float = 1.0) -> GroupScores:
    """A system that loses about `loss` on queries that all systems share."""
    difficulty = np.random.default_rng(0).choice(RR10, size=queries)
    rng = np.random.default_rng([1, noise])
    inside = level * difficulty + rng.normal(0, 0.1, size=(4, queries))
    return GroupScores(inside, level * (1 - loss) * difficulty + rng.normal(0, 0.1, size=queries))


def shift(loss: float, noise: int, **settings: Any) -> dict[str, GroupScores]:
    return {g: system(loss, 10 * noise + i, **settings) for i, g in enumerate(["C0", "C1"])}


def test_the_system_that_loses_less_is_found() -> None:
    result = compare_losses(system(0.05, 1), system(0.25, 2))
    assert result.difference is not None
    assert result.interval is not None
    assert result.rel_loss_a is not None
    assert result.rel_loss_b is not None
    assert result.difference == result.rel_loss_a - result.rel_loss_b
    assert result.interval.low < result.difference < result.interval.high < 0
    assert result.p_value == 2 / 10_001


def test_a_weak_and_a_strong_system_that_lose_the_same_share_are_not_told_apart() -> None:
    strong, weak = system(0.1, 3), system(0.1, 4, level=0.3)
    result = compare_losses(strong, weak)
    assert result.p_value is not None
    assert result.p_value > 0.05


def test_a_system_does_not_differ_from_itself() -> None:
    one = system(0.1, 1)
    result = compare_losses(one, one, resamples=200)
    assert (result.difference, result.interval, result.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_where_lower_is_better_the_signs_turn() -> None:
    a, b = system(-0.05, 1), system(-0.25, 2)
    result = compare_losses(a, b, higher_is_better=False, resamples=500)
    assert result.rel_loss_a == pytest.approx(0.05, abs=0.05)
    assert result.rel_loss_b == pytest.approx(0.25, abs=0.05)
    assert result.interval is not None
    assert result.interval.high < 0


def test_systems_may_differ_in_models_and_seeds() -> None:
    three_seeds = GroupScores(
        np.stack([system(0.2, i).inside[0, :2] for i in range(3)]),
        np.stack([system(0.2, i).out[0] for i in range(3)]),
    )
    result = compare_losses(system(0.2, 9), three_seeds, resamples=500)
    assert result.interval is not None
    assert result.interval.low < 0 < result.interval.high


def test_undefined_losses_have_no_p_value() -> None:
    nothing = GroupScores(np.zeros((2, 400)), np.zeros(400))
    result = compare_losses(system(0.1, 1), nothing, resamples=100)
    assert result.rel_loss_a is not None
    assert (result.rel_loss_b, result.difference) == (None, None)
    assert (result.interval, result.p_value) == (None, None)


def test_one_query_gives_a_difference_without_an_interval() -> None:
    a, b = GroupScores([[1.0]], [0.5]), GroupScores([[1.0]], [1.0])
    result = compare_losses(a, b)
    assert (result.difference, result.interval, result.p_value) == (0.5, None, None)


def test_impossible_comparisons_are_refused() -> None:
    a = system(0.1, 1)
    with pytest.raises(UsageError, match="same queries"):
        compare_losses(a, system(0.1, 1, queries=399))
    with pytest.raises(UsageError, match="different names"):
        compare_losses(a, a, names=("bm25", "bm25"))
    with pytest.raises(UsageError, match="resamples"):
        compare_losses(a, a, resamples=0)
    with pytest.raises(UsageError, match="same groups"):
        compare_shifts({"C0": a}, {"C1": a})
    with pytest.raises(UsageError, match="same groups"):
        compare_shifts({}, {})
    with pytest.raises(UnknownNameError, match="holm"):
        compare_shifts({"C0": a}, {"C0": a}, correction="holms", resamples=10)


def test_a_shift_is_compared_by_group_and_as_a_whole() -> None:
    a, b = shift(0.05, 1), shift(0.2, 2)
    result = compare_shifts(a, b, resamples=1000)
    assert result.adjusted_p == adjust({g: one.p_value for g, one in result.groups.items()}, "holm")
    for group, one in result.groups.items():
        assert one == compare_losses(a[group], b[group], group=group, resamples=1000)
    differences = [one.difference for one in result.groups.values()]
    assert result.overall.difference == pytest.approx(np.mean(np.array(differences, dtype=float)))
    assert result.overall.interval is not None
    assert result.overall.interval.high < 0


def test_a_shift_with_an_undefined_group_is_not_compared_as_a_whole() -> None:
    a, b = shift(0.05, 1), shift(0.2, 2)
    b["C1"] = GroupScores(np.zeros((4, 400)), np.zeros(400))
    result = compare_shifts(a, b, resamples=200)
    assert (result.overall.difference, result.overall.p_value) == (None, None)
    assert list(result.adjusted_p) == ["C0"]


def test_many_pairs_give_what_each_pair_gives_alone() -> None:
    systems = {"a": shift(0.1, 1), "b": shift(0.2, 2), "c": shift(0.3, 3)}
    compared = compare_pairs(systems, resamples=500)
    assert list(compared) == [("a", "b"), ("a", "c"), ("b", "c")]
    for (a, b), found in compared.items():
        assert found == compare_shifts(systems[a], systems[b], resamples=500, names=(a, b))


def test_systems_are_ranked_as_far_as_they_are_told_apart() -> None:
    systems = {
        "colbert": shift(0.02, 1),
        "monobert": shift(0.021, 2),
        "splade": shift(0.2, 3),
        "bi-encoder": shift(0.4, 4),
    }
    ranking = rank_bands(systems)
    by_name = {one.system: one for one in ranking.systems}
    assert [one.rank for one in ranking.systems] == [1, 1, 3, 4]
    assert {one.system for one in ranking.systems[:2]} == {"colbert", "monobert"}
    assert (by_name["splade"].best_rank, by_name["splade"].worst_rank) == (3, 3)
    assert (by_name["colbert"].best_rank, by_name["colbert"].worst_rank) == (1, 2)
    assert len(ranking.pairs) == 6
    for name, groups in systems.items():
        whole = shift_loss(groups, system=name)
        assert whole.intervals is not None
        assert by_name[name].rel_loss == pytest.approx(whole.rel_loss)
        assert by_name[name].interval == whole.intervals.rel_loss


def test_every_rank_of_a_chain_lies_in_its_range() -> None:
    # Neighbours overlap, the ends do not: "not told apart" is not transitive.
    systems = {"a": shift(0.1, 0), "b": shift(0.09, 1), "c": shift(0.14, 2)}
    ranking = rank_bands(systems)
    assert [pair for pair, p in ranking.adjusted_p.items() if p <= 0.05] == [("a", "c")]
    assert [one.rank for one in ranking.systems] == [1, 1, 2]
    assert [one.best_rank for one in ranking.systems] == [1, 1, 2]
    assert [one.worst_rank for one in ranking.systems] == [2, 3, 3]


def test_the_order_in_which_systems_are_named_does_not_matter() -> None:
    systems = {"x": shift(0.1, 1), "y": shift(0.3, 2), "z": shift(0.1, 1)}
    ranking = rank_bands(systems, resamples=2000)
    assert ranking == rank_bands(dict(reversed(systems.items())), resamples=2000)
    assert [(one.system, one.rank) for one in ranking.systems] == [("x", 1), ("z", 1), ("y", 3)]


def test_a_single_system_ranks_first() -> None:
    (only,) = rank_bands({"bm25": shift(0.1, 1)}, resamples=100).systems
    assert (only.rank, only.best_rank, only.worst_rank) == (1, 1, 1)


def test_impossible_rankings_are_refused() -> None:
    many = {f"system-{i}": shift(0.1, i, queries=10) for i in range(12)}
    with pytest.raises(UsageError, match="at least 2640"):
        rank_bands(many, resamples=2000)
    with pytest.raises(UsageError, match="bm25 cannot be ranked"):
        rank_bands({"bm25": {"C0": GroupScores(np.zeros((2, 9)), np.zeros(9))}}, resamples=100)
    with pytest.raises(UsageError, match="same groups"):
        rank_bands({})
