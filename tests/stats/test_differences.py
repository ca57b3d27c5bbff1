"""Comparing two systems, and ranking many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats.differences import Difference, SystemPair, compare_systems
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.losses import shift_loss
from msshift_bench.stats.significance import adjust

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])


def system(
    loss: float, noise: int, queries: int = 400, level: float = 1.0, seeds: int = 3
) -> GroupScores:
    """A system that loses about `loss` on queries that all systems share."""
    difficulty = np.random.default_rng(0).choice(RR10, size=queries)
    rng = np.random.default_rng([1, noise])
    inside = level * difficulty + rng.normal(0, 0.1, size=(seeds, 4, queries))
    out = level * (1 - loss) * difficulty + rng.normal(0, 0.1, size=(seeds, queries))
    return GroupScores(inside, out)


def shift(loss: float, noise: int, **settings: Any) -> dict[str, GroupScores]:
    return {g: system(loss, 10 * noise + i, **settings) for i, g in enumerate(["C0", "C1"])}


def compare(a: GroupScores, b: GroupScores, **settings: Any) -> Difference:
    return compare_systems({"a": {"C0": a}, "b": {"C0": b}}, **settings).pairs["a", "b"].overall


def compare_two(
    a: dict[str, GroupScores], b: dict[str, GroupScores], **settings: Any
) -> SystemPair:
    return compare_systems({"a": a, "b": b}, **settings).pairs["a", "b"]


def test_the_system_that_loses_less_is_found() -> None:
    result = compare(system(0.05, 1), system(0.25, 2))
    assert result.difference is not None
    assert result.interval is not None
    assert result.value_a is not None
    assert result.value_b is not None
    assert result.difference == result.value_a - result.value_b
    assert result.interval.low < result.difference < result.interval.high < 0
    assert result.p is not None
    assert result.p < 0.01
    assert result.counts == "queries and seeds"


def test_a_weak_and_a_strong_system_that_lose_the_same_share_are_not_told_apart() -> None:
    result = compare(system(0.1, 3), system(0.1, 4, level=0.3))
    assert result.p is not None
    assert result.p > 0.05


def test_a_system_does_not_differ_from_itself() -> None:
    one = system(0.1, 1)
    result = compare(one, one)
    assert (result.difference, result.interval, result.p) == (0.0, (0.0, 0.0), 1.0)


def test_where_lower_is_better_the_signs_turn() -> None:
    result = compare(system(-0.05, 1), system(-0.25, 2), higher_is_better=False)
    assert result.value_a == pytest.approx(0.05, abs=0.05)
    assert result.value_b == pytest.approx(0.25, abs=0.05)
    assert result.interval is not None
    assert result.interval.high < 0


def test_systems_may_differ_in_models_and_seeds() -> None:
    many = system(0.2, 5, seeds=5)
    result = compare(system(0.2, 9), GroupScores(many.inside[:, :2], many.out))
    assert result.interval is not None
    assert result.interval.low < 0 < result.interval.high


def test_unequal_numbers_of_seeds_are_paired_as_scheffe_does() -> None:
    few, many = system(0.1, 1, seeds=2), system(0.3, 2, seeds=5)
    there, back = compare(few, many), compare(many, few)
    assert there.interval is not None
    assert back.interval == pytest.approx((-there.interval.high, -there.interval.low))
    assert there.p == pytest.approx(back.p)


def test_one_seed_is_compared_over_queries_only_and_never_told_apart() -> None:
    systems = {"a": shift(0.05, 1), "b": shift(0.5, 2, seeds=1), "c": shift(0.3, 3)}
    compared = compare_systems(systems)
    found = compared.pairs["a", "b"]
    assert found.overall.counts == "queries only"
    assert found.overall.p is not None
    assert found.overall.p < 1e-6
    assert not found.is_significant()
    assert not found.is_significant("C0")
    assert {one.system: one.rank for one in compared.ranking} == {"a": 1, "c": 2, "b": None}
    assert {one.system: one.counts for one in compared.ranking}["b"] == "queries only"


def test_seeds_that_disagree_keep_systems_from_being_told_apart() -> None:
    # Over queries alone the difference is sure; the seeds of one system differ by more than it.
    steady, shaky = system(0.1, 1, queries=2000), system(0.15, 2, queries=2000)
    moved = GroupScores(shaky.inside, shaky.out * np.array([0.7, 1.0, 1.3])[:, None])
    one_seed = compare(
        GroupScores(steady.inside[:1], steady.out[:1]), GroupScores(moved.inside[:1], moved.out[:1])
    )
    assert one_seed.p is not None
    assert one_seed.p < 1e-6
    result = compare(steady, moved)
    assert result.p is not None
    assert result.p > 0.1


def test_undefined_losses_have_no_p_value() -> None:
    nothing = GroupScores(np.zeros((3, 2, 400)), np.zeros((3, 400)))
    result = compare(system(0.1, 1), nothing)
    assert result.value_a is not None
    assert (result.value_b, result.difference) == (None, None)
    assert (result.interval, result.p) == (None, None)


def test_one_query_gives_a_difference_without_an_interval() -> None:
    a, b = GroupScores([[1.0]], [0.5]), GroupScores([[1.0]], [1.0])
    result = compare(a, b)
    assert (result.difference, result.interval, result.p) == (0.5, None, None)


def test_impossible_comparisons_are_refused() -> None:
    a = system(0.1, 1)
    with pytest.raises(UsageError, match="same queries"):
        compare(a, system(0.1, 1, queries=399))
    with pytest.raises(UsageError, match="same groups"):
        compare_two({"C0": a}, {"C1": a})
    with pytest.raises(UsageError, match="same groups"):
        compare_systems({})
    with pytest.raises(UnknownNameError, match="holm"):
        compare(a, a, inference=Inference(correction="holms"))
    with pytest.raises(UsageError, match="confidence"):
        compare(a, a, inference=Inference(confidence=95))


def test_a_shift_is_compared_by_group_and_as_a_whole() -> None:
    a, b = shift(0.05, 1), shift(0.2, 2)
    result = compare_two(a, b)
    assert result.adjusted_p == adjust({g: one.p for g, one in result.groups.items()}, "holm")
    assert result.adjusted_overall_p == result.overall.p
    for group, one in result.groups.items():
        assert one == compare(a[group], b[group])
    differences = [one.difference for one in result.groups.values()]
    assert result.overall.difference == pytest.approx(np.mean(np.array(differences, dtype=float)))
    assert result.overall.interval is not None
    assert result.overall.interval.high < 0
    assert result.is_significant()


def test_a_shift_with_an_undefined_group_is_not_compared_as_a_whole() -> None:
    a, b = shift(0.05, 1), shift(0.2, 2)
    b["C1"] = GroupScores(np.zeros((3, 4, 400)), np.zeros((3, 400)))
    result = compare_two(a, b)
    assert (result.overall.difference, result.adjusted_overall_p) == (None, None)
    assert list(result.adjusted_p) == ["C0"]
    assert not result.is_significant()


def test_p_values_are_corrected_over_all_pairs() -> None:
    systems = {"a": shift(0.1, 1), "b": shift(0.2, 2), "c": shift(0.3, 3)}
    compared = compare_systems(systems)
    assert list(compared.pairs) == [("a", "b"), ("a", "c"), ("b", "c")]
    whole = adjust({pair: found.overall.p for pair, found in compared.pairs.items()}, "holm")
    groups = adjust(
        {(p, g): one.p for p, found in compared.pairs.items() for g, one in found.groups.items()},
        "holm",
    )
    for pair, found in compared.pairs.items():
        assert found.adjusted_overall_p == whole[pair]
        assert found.adjusted_p == {group: groups[pair, group] for group in found.groups}


def test_what_counts_queries_only_does_not_help_others_through_the_correction() -> None:
    systems = {"a": shift(0.1, 1), "b": shift(0.2, 2)}
    alone = compare_systems(systems).pairs["a", "b"]
    beside = compare_systems({**systems, "c": shift(0.9, 3, seeds=1)}).pairs["a", "b"]
    assert beside == alone


def test_systems_in_ranks() -> None:
    systems = {
        "colbert": shift(0.02, 1),
        "monobert": shift(0.021, 2),
        "splade": shift(0.2, 3),
        "bi-encoder": shift(0.4, 4),
    }
    ranking = compare_systems(systems).ranking
    by_name = {one.system: one for one in ranking}
    assert [one.rank for one in ranking] == [1, 1, 3, 4]
    assert {one.system for one in ranking[:2]} == {"colbert", "monobert"}
    assert (by_name["splade"].best_rank, by_name["splade"].worst_rank) == (3, 3)
    assert (by_name["colbert"].best_rank, by_name["colbert"].worst_rank) == (1, 2)
    for name, groups in systems.items():
        whole = shift_loss(groups)
        assert whole.intervals is not None
        assert by_name[name].value == pytest.approx(whole.rel_loss)
        assert by_name[name].interval == whole.intervals.rel_loss


def test_the_order_in_which_systems_are_named_does_not_matter() -> None:
    systems = {"x": shift(0.1, 1), "y": shift(0.3, 2), "z": shift(0.1, 1)}
    ranking = compare_systems(systems).ranking
    assert ranking == compare_systems(dict(reversed(systems.items()))).ranking
    assert [(one.system, one.rank) for one in ranking] == [("x", 1), ("z", 1), ("y", 3)]


def test_a_single_system_ranks_first() -> None:
    (only,) = compare_systems({"bm25": shift(0.1, 1)}).ranking
    assert (only.rank, only.best_rank, only.worst_rank) == (1, 1, 1)


def test_a_system_without_rel_loss_has_no_place() -> None:
    nothing = {g: GroupScores(np.zeros((3, 2, 400)), np.zeros((3, 400))) for g in ("C0", "C1")}
    compared = compare_systems({"a": shift(0.1, 1), "nothing": nothing})
    assert [one.system for one in compared.ranking] == ["a"]


def untrained(level: float, noise: int) -> dict[str, GroupScores]:
    """A run that is the same whichever group is held out."""
    return {g: GroupScores.untrained(one.out[0]) for g, one in shift(level, noise, seeds=1).items()}


@pytest.mark.parametrize("figure", ["avg_in", "out"])
def test_a_difference_from_a_run_without_training_counts_the_other_systems_seeds(
    figure: str,
) -> None:
    a = shift(0.1, 1)
    nothing = {group: GroupScores.untrained(np.zeros(400)) for group in a}
    found = compare_systems({"a": a, "nothing": nothing}, figure=figure).pairs["a", "nothing"]
    alone = shift_loss(a)
    assert alone.intervals is not None
    # Beside scores that are all 0, the difference is the figure itself.
    assert found.overall.difference == pytest.approx(getattr(alone, figure))
    assert found.overall.interval == pytest.approx(getattr(alone.intervals, figure))
    assert found.overall.counts == "queries and seeds"
    assert found.is_significant()
    assert found.is_significant("C0")


def test_one_training_or_none_counts_queries_only_and_is_never_told_apart() -> None:
    systems = {"one seed": shift(0.1, 1, seeds=1), "bm25": untrained(0.9, 2)}
    systems["other bm25"] = untrained(0.5, 3)
    for (a, b), found in compare_systems(systems, figure="out").pairs.items():
        assert found.overall.counts == "queries only", (a, b)
        assert found.overall.p is not None
        assert found.overall.p < 1e-6
        assert not found.is_significant()
    paired = scipy.stats.ttest_rel(systems["bm25"]["C0"].out[0], systems["other bm25"]["C0"].out[0])
    one = compare_systems(systems, figure="out").pairs["bm25", "other bm25"].groups["C0"]
    assert one.p == pytest.approx(paired.pvalue, rel=1e-6)


def test_with_a_baseline_only_its_pairs_are_tested_and_corrected_for() -> None:
    systems = {"a": shift(0.1, 1), "b": shift(0.2, 2), "c": shift(0.3, 3)}
    every = compare_systems(systems)
    compared = compare_systems(systems, baseline="b")
    assert list(compared.pairs) == [("a", "b"), ("c", "b")]
    assert compared.pairs["a", "b"].overall == every.pairs["a", "b"].overall
    whole = adjust({pair: found.overall.p for pair, found in compared.pairs.items()}, "holm")
    assert {p: f.adjusted_overall_p for p, f in compared.pairs.items()} == whole
    assert [one.rank for one in compared.ranking] == [None, None, None]


def test_the_best_system_stands_first_whatever_the_figure() -> None:
    systems = {"weak": shift(0.1, 1, level=0.4), "strong": shift(0.3, 2)}
    first = {
        figure: compare_systems(systems, figure=figure).ranking[0].system
        for figure in ("avg_in", "out", "rel_loss")
    }
    assert first == {"avg_in": "strong", "out": "strong", "rel_loss": "weak"}
    lower = compare_systems(systems, figure="out", higher_is_better=False)
    assert [one.system for one in lower.ranking] == ["weak", "strong"]


def test_ranks_are_those_of_trained_systems_alone() -> None:
    systems = {"a": shift(0.1, 1), "b": shift(0.3, 2), "bm25": untrained(0.6, 3)}
    ranks = {one.system: one.rank for one in compare_systems(systems, figure="out").ranking}
    assert ranks == {"a": 1, "b": 2, "bm25": None}


def test_what_cannot_be_compared_is_refused() -> None:
    systems = {"a": shift(0.1, 1), "bm25": untrained(0.6, 3)}
    with pytest.raises(UsageError, match=r"not trained per group.*: bm25"):
        compare_systems(systems)
    with pytest.raises(UnknownNameError, match="unknown figure to compare 'loss'"):
        compare_systems(systems, figure="loss")
    with pytest.raises(UnknownNameError, match="unknown baseline 'bm2': did you mean 'bm25'"):
        compare_systems(systems, figure="out", baseline="bm2")
