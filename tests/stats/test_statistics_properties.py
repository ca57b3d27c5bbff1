"""What must hold of the statistics for any scores."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from msshift_bench.stats.differences import Difference, compare_systems
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.losses import GroupLoss, group_loss
from msshift_bench.stats.significance import benjamini_hochberg, holm
from msshift_bench.stats.uncertainty import Interval

"""A shared machine may be slow, which says nothing about the statistics."""

RR10 = [0.0, *(1 / rank for rank in range(1, 11))]


@st.composite
def group_scores(draw: st.DrawFn, max_seeds: int = 1) -> GroupScores:
    """RR@10 scores, or any scores from 0 to 100, of 1 to 4 models on 2 to 40 queries."""
    values = draw(st.sampled_from([st.sampled_from(RR10), st.floats(0, 100, width=32)]))
    seeds, models = draw(st.integers(1, max_seeds)), draw(st.integers(1, 4))
    queries = draw(st.integers(2, 40))
    return GroupScores(
        draw(arrays(np.float64, (seeds, models, queries), elements=values)),
        draw(arrays(np.float64, (seeds, queries), elements=values)),
    )


def loss(scores: GroupScores) -> GroupLoss:
    return group_loss(scores.inside, scores.out)


def compare(a: GroupScores, b: GroupScores) -> Difference:
    return compare_systems({"a": {"C0": a}, "b": {"C0": b}}).pairs["a", "b"].overall


@given(group_scores(), st.integers(1, 4))
def test_nothing_is_lost_when_in_equals_out(scores: GroupScores, models: int) -> None:
    result = loss(GroupScores(np.stack([scores.out] * models, axis=1), scores.out))
    assert result.loss == pytest.approx(0, abs=1e-12 * max(1, result.avg_in))
    assert result.rel_loss is None or result.rel_loss == pytest.approx(0, abs=1e-12)
    assert result.tests.t is None
    assert result.p in (None, 1.0)
    assert result.intervals is not None
    assert result.intervals.loss == pytest.approx((0, 0), abs=1e-9)


@given(group_scores(max_seeds=3), st.randoms(use_true_random=False))
def test_point_estimates_do_not_depend_on_the_order_of_queries(
    scores: GroupScores, shuffler: random.Random
) -> None:
    order = list(range(scores.queries))
    shuffler.shuffle(order)
    shuffled = loss(GroupScores(scores.inside[:, :, order], scores.out[:, order]))
    result = loss(scores)
    assert (shuffled.avg_in, shuffled.out) == (result.avg_in, result.out)
    assert (shuffled.rel_loss, shuffled.spread) == (result.rel_loss, result.spread)
    if result.tests.t is None:
        assert shuffled.tests.t is None
    else:
        assert shuffled.tests.t == pytest.approx(result.tests.t, rel=1e-6)


@given(group_scores(), st.integers(-20, 20))
def test_rel_loss_does_not_depend_on_the_scale_of_the_measure(
    scores: GroupScores, power: int
) -> None:
    factor = 2.0**power
    result, scaled = loss(scores), loss(GroupScores(factor * scores.inside, factor * scores.out))
    assert scaled.rel_loss == result.rel_loss
    assert scaled.avg_in == factor * result.avg_in
    assert scaled.tests == result.tests
    assert scaled.p == result.p
    assert scaled.intervals is not None
    assert result.intervals is not None
    assert scaled.intervals.rel_loss == result.intervals.rel_loss


@given(group_scores(), st.floats(0.01, 100))
def test_rel_loss_is_the_same_in_percent(scores: GroupScores, factor: float) -> None:
    result = loss(scores)
    scaled = loss(GroupScores(factor * scores.inside, factor * scores.out))
    if result.rel_loss is None:
        assert scaled.rel_loss is None
    else:
        assert scaled.rel_loss == pytest.approx(result.rel_loss, rel=1e-9, abs=1e-9)


@given(group_scores(max_seeds=3))
def test_intervals_contain_the_point_estimate(scores: GroupScores) -> None:
    result = loss(scores)
    assert result.intervals is not None
    for figure in ("avg_in", "out", "loss", "rel_loss"):
        interval: Interval | None = getattr(result.intervals, figure)
        if interval is not None:
            estimate = getattr(result, figure)
            slack = 1e-9 * max(1, abs(estimate), abs(interval.low), abs(interval.high))
            assert interval.low - slack <= estimate <= interval.high + slack


@given(group_scores(max_seeds=2))
def test_the_direction_of_a_measure_turns_losses_and_nothing_else(scores: GroupScores) -> None:
    higher = group_loss(scores.inside, scores.out)
    lower = group_loss(scores.inside, scores.out, higher_is_better=False)
    assert (lower.avg_in, lower.out, lower.loss) == (higher.avg_in, higher.out, -higher.loss)
    assert lower.tests.t_p == higher.tests.t_p
    assert lower.p == (None if higher.p is None else pytest.approx(higher.p, rel=1e-6))
    assert higher.intervals is not None
    assert lower.intervals is not None
    assert lower.intervals.avg_in == higher.intervals.avg_in
    assert lower.intervals.loss == pytest.approx(
        (-higher.intervals.loss.high, -higher.intervals.loss.low), abs=1e-9
    )


@given(group_scores(), st.data())
def test_comparing_the_other_way_round_turns_the_sign(a: GroupScores, data: st.DataObject) -> None:
    elements = st.sampled_from(RR10)
    b = GroupScores(
        data.draw(arrays(np.float64, a.inside.shape, elements=elements)),
        data.draw(arrays(np.float64, a.out.shape, elements=elements)),
    )
    there, back = compare(a, b), compare(b, a)
    assert there.p == (None if back.p is None else pytest.approx(back.p, rel=1e-9))
    if there.difference is None or back.difference is None:
        assert there.difference == back.difference
    else:
        assert there.difference == -back.difference
    if there.interval is not None:
        assert back.interval == pytest.approx(
            (-there.interval.high, -there.interval.low), rel=1e-9, abs=1e-9
        )


p_value_lists = st.lists(st.floats(0, 1), max_size=12)


@given(p_value_lists)
def test_corrections_only_raise_p_values_and_keep_their_order(p: list[float]) -> None:
    for adjusted in (holm(p), benjamini_hochberg(p)):
        assert max(adjusted, default=0) <= 1
        assert all(after >= before - 1e-15 for before, after in zip(p, adjusted, strict=True))
        order = np.argsort(p, kind="stable")
        assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert all(
        fdr <= fwer + 1e-15 for fdr, fwer in zip(benjamini_hochberg(p), holm(p), strict=True)
    )


@given(p_value_lists, st.randoms(use_true_random=False))
def test_corrections_do_not_depend_on_the_order_of_tests(
    p: list[float], shuffler: random.Random
) -> None:
    order = list(range(len(p)))
    shuffler.shuffle(order)
    for correct in (holm, benjamini_hochberg):
        adjusted = correct(p)
        assert correct([p[i] for i in order]) == [adjusted[i] for i in order]
