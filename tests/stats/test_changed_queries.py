"""Whether shift and changed queries compound."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.stats import ON_AVERAGE, GroupScores, compound_losses
from tests.support.group_scores import scores


def changed(one: GroupScores, inside: float, out: float, seed: int) -> GroupScores:
    """Scores of which about the given shares are lost, some queries more than others."""
    rng = np.random.default_rng(seed)
    kept = rng.uniform(0.5, 1.5, size=one.queries)
    return GroupScores(one.inside * (1 - inside) * kept, one.out * (1 - out) * kept)


def test_losses_are_those_of_the_means_and_explain_the_rel_loss() -> None:
    plain = GroupScores([[1.0, 0.5], [0.5, 0.0]], [0.5, 0.5])
    typed = GroupScores([[0.5, 0.5], [0.25, 0.0]], [0.5, 0.0])
    found = compound_losses({"short": (plain, typed)}, 0.95)
    assert list(found) == ["short"]
    one = found["short"]
    assert (one.inside, one.out) == (pytest.approx(1 - 1.25 / 2), pytest.approx(0.5))
    assert one.difference == pytest.approx(one.out - one.inside)
    assert (one.rel_loss, one.rel_loss_changed) == (pytest.approx(0.0), pytest.approx(0.2))
    assert (1 - one.rel_loss_changed) / (1 - one.rel_loss) == pytest.approx(
        (1 - one.out) / (1 - one.inside)
    )


def test_the_interval_is_about_that_of_the_jackknife_over_queries() -> None:
    plain = scores(3, 3, 400, loss=0.2)
    typed = changed(plain, 0.1, 0.25, seed=4)
    one = compound_losses({"C0": (plain, typed)}, 0.95)["C0"]
    assert one.interval is not None
    left_out = []
    for query in range(plain.queries):
        kept = np.delete(np.arange(plain.queries), query)
        parts = [GroupScores(g.inside[:, :, kept], g.out[:, kept]) for g in (plain, typed)]
        left_out.append(compound_losses({"C0": (parts[0], parts[1])}, 0.95)["C0"].difference)
    n = plain.queries
    error = np.sqrt((n - 1) / n * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    half = (one.interval.high - one.interval.low) / 2
    assert half == pytest.approx(1.966 * error, rel=0.02)
    assert one.p is not None
    assert (one.p < 0.05) == (not one.interval.low <= 0 <= one.interval.high)


def test_the_mean_counts_groups_alike_and_seeds_widen_it() -> None:
    plain = {f"C{n}": scores(n, 2, 3, 60 + 40 * n, loss=0.1) for n in range(3)}
    pairs = {group: (one, changed(one, 0.1, 0.3, seed=9)) for group, one in plain.items()}
    found = compound_losses(pairs, 0.95)
    parts = [found[group] for group in plain]
    assert found[ON_AVERAGE].difference == pytest.approx(np.mean([one.difference for one in parts]))
    assert found[ON_AVERAGE].queries == sum(one.queries for one in parts)
    one_seed = {
        group: tuple(GroupScores(g.inside[:1], g.out[:1]) for g in pair)
        for group, pair in pairs.items()
    }
    narrow = compound_losses({g: (a, b) for g, (a, b) in one_seed.items()}, 0.95)[
        ON_AVERAGE
    ].interval
    wide = found[ON_AVERAGE].interval
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > narrow.high - narrow.low


def test_where_a_mean_is_0_there_is_no_loss_and_lower_may_be_better() -> None:
    nothing = GroupScores([[0.0, 0.0]], [0.0, 0.0])
    assert compound_losses({"C0": (nothing, nothing)}, 0.95) == {}
    plain, typed = GroupScores([[1.0, 3.0]], [2.0, 2.0]), GroupScores([[2.0, 3.0]], [3.0, 3.0])
    one = compound_losses({"C0": (plain, typed)}, 0.95, higher_is_better=False)["C0"]
    assert (one.inside, one.out) == (pytest.approx(0.25), pytest.approx(0.5))
