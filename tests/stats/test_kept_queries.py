"""What figures change if some test queries are left out."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.errors import UsageError
from msshift_bench.stats import GroupScores, Inference, kept_differences, shift_loss

RANDOM = np.random.default_rng(7)
KEPT = {"a": np.arange(300) % 3 > 0, "b": np.arange(200) % 2 > 0}


def made(queries: int, seeds: int) -> GroupScores:
    leaked = (np.arange(queries) % 3 == 0) * 0.2
    query = RANDOM.random(queries)
    inside = query + leaked + RANDOM.normal(0, 0.1, (seeds, 4, queries))
    return GroupScores(inside, query + RANDOM.normal(0, 0.1, (seeds, queries)) - 0.1)


def restricted(
    scores: GroupScores, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> GroupScores:
    return GroupScores(scores.inside[:, :, kept], scores.out[:, kept])


@pytest.mark.parametrize("average", ["macro", "pooled"])
def test_both_sides_are_the_losses_of_their_queries(average: str) -> None:
    groups = {"a": made(300, 3), "b": made(200, 3)}
    found = kept_differences(groups, KEPT, average=average)
    inference = Inference(average=average)
    whole = shift_loss(groups, inference)
    part = shift_loss({g: restricted(one, KEPT[g]) for g, one in groups.items()}, inference)
    for figure in ("avg_in", "out", "rel_loss"):
        for group, one, other in (
            ("a", whole.groups["a"], part.groups["a"]),
            ("mean", whole, part),
        ):
            values = found[group][figure]
            assert values.everything == pytest.approx(getattr(one, figure))
            assert values.kept == pytest.approx(getattr(other, figure))
            assert values.difference == pytest.approx(values.everything - values.kept)
    assert found["mean"]["out"].queries == 500
    assert found["mean"]["out"].left_out == 200
    assert found["a"]["avg_in"].p is not None
    assert found["a"]["avg_in"].p < 0.01
    assert found["a"]["rel_loss"].interval is not None


def test_the_interval_is_what_other_queries_would_give() -> None:
    scores, kept = made(300, 1), KEPT["a"]
    found = kept_differences({"a": scores}, {"a": kept})["a"]
    inside, out = scores.inside.mean(axis=(0, 1)), scores.out[0]
    drawn = []
    for _ in range(1500):
        rows = RANDOM.integers(0, 300, 300)
        sides = [(inside[one].mean(), out[one].mean()) for one in (rows, rows[kept[rows]])]
        (all_in, all_out), (kept_in, kept_out) = sides
        drawn.append((all_in - kept_in, (1 - all_out / all_in) - (1 - kept_out / kept_in)))
    for figure, values in zip(("avg_in", "rel_loss"), np.array(drawn).T, strict=True):
        interval = found[figure].interval
        assert interval is not None
        width = interval.high - interval.low
        assert width == pytest.approx(2 * 1.968 * values.std(), rel=0.12)


def test_nothing_left_out_changes_nothing() -> None:
    scores = GroupScores.untrained(RANDOM.random(50))
    found = kept_differences({"a": scores}, {"a": np.ones(50, np.bool_)})["a"]
    assert set(found) == {"score"}
    assert (found["score"].difference, found["score"].p) == (pytest.approx(0), 1.0)
    assert found["score"].interval == pytest.approx((0, 0))
    with pytest.raises(UsageError, match="0 of 50 queries of a are kept"):
        kept_differences({"a": scores}, {"a": np.zeros(50, np.bool_)})
