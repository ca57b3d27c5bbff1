"""Which of two systems loses less, and which systems the data cannot tell apart.

Systems are compared by Rel Loss on the same queries. The p-value is that of the bootstrap of the
difference (`two_sided_bootstrap_p`), not of a permutation of system labels per query. Permuting
labels tests whether the two systems are interchangeable altogether, Avg In included: it rejects
for a strong and a weak system that lose the same share, which is exactly what must not count as a
difference here. The bootstrap tests equal Rel Loss alone and agrees with the interval beside it;
``benchmarks/coverage_simulation.py`` measures how often each rejects a true null hypothesis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.errors import UsageError
from msshift_bench.rank_ranges import rank_ranges
from msshift_bench.resampling import (
    GroupScores,
    Interval,
    draw_losses,
    percentile_interval,
    two_sided_bootstrap_p,
)
from msshift_bench.significance import adjust
from msshift_bench.statistics import check_resampling, figures, group_loss

__all__ = [
    "LossDifference",
    "RankedSystem",
    "Ranking",
    "ShiftComparison",
    "compare_losses",
    "compare_pairs",
    "compare_shifts",
    "rank_bands",
]

Shift = Mapping[str, GroupScores]
"""Group -> one system's scores."""


@dataclass(frozen=True, slots=True)
class LossDifference:
    """How much more one system loses than another.

    Attributes:
        rel_loss_a: Rel Loss of the first system; `None` where it is undefined.
        rel_loss_b: of the second.
        difference: `rel_loss_a` - `rel_loss_b`: negative where the first loses less.
        interval: bootstrap percentile interval of `difference`; `None` below 2 queries, or where
            either Rel Loss is undefined in some resample.
        p_value: two-sided, of equal Rel Losses, not corrected; `None` where `interval` is.
    """

    rel_loss_a: float | None
    rel_loss_b: float | None
    difference: float | None
    interval: Interval | None
    p_value: float | None


@dataclass(frozen=True, slots=True)
class ShiftComparison:
    """Two systems on every group of a shift, and on the shift as a whole.

    Attributes:
        groups: group -> difference on that group.
        overall: difference of the mean Rel Losses over groups; one test, so not corrected.
        correction: the name of the correction across groups.
        adjusted_p: group -> corrected p-value, without the groups that have none.
    """

    groups: Mapping[str, LossDifference]
    overall: LossDifference
    correction: str
    adjusted_p: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's place among others.

    Attributes:
        system: its name.
        rel_loss: mean of its Rel Losses over groups.
        interval: bootstrap percentile interval of `rel_loss`.
        rank: 1 + the number of systems known to lose less (`rank_ranges`).
        best_rank: the same: the first of the ranks that it might take.
        worst_rank: the last: the number of systems not known to lose more, itself included.
    """

    system: str
    rel_loss: float
    interval: Interval
    rank: int
    best_rank: int
    worst_rank: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Systems with their ranks, and the comparisons that the ranks rest on.

    Attributes:
        systems: by ascending Rel Loss, then name.
        pairs: (better, worse) by Rel Loss -> their difference over the shift as a whole.
        correction: the name of the correction across all pairs.
        adjusted_p: corrected p-value of each pair.
        level: a pair is told apart where its corrected p-value is at most this.
    """

    systems: tuple[RankedSystem, ...]
    pairs: Mapping[tuple[str, str], LossDifference]
    correction: str
    adjusted_p: Mapping[tuple[str, str], float]
    level: float


class _Sampled(NamedTuple):
    """One system's Rel Loss, observed and resampled; `None` where it is undefined."""

    rel_loss: float | None
    draws: NDArray[np.float64] | None


def _sample(
    systems: Shift, *, group: str, higher_is_better: bool, resamples: int, seed: int
) -> dict[str, _Sampled]:
    """Return the Rel Loss of each system on one group, all on the same resamples of queries."""
    draws: dict[str, NDArray[np.float64]] = {}
    if min(scores.queries for scores in systems.values()) > 1:
        drawn = draw_losses(systems, group=group, resamples=resamples, seed=seed)
        sign = 1 if higher_is_better else -1
        rel_losses = {name: figures(*one, sign).rel_loss for name, one in drawn.items()}
        draws = {name: values for name, values in rel_losses.items() if not np.isnan(values).any()}
    return {
        name: _Sampled(
            group_loss(
                scores.inside, scores.out, higher_is_better=higher_is_better, resamples=0
            ).rel_loss,
            draws.get(name),
        )
        for name, scores in systems.items()
    }


def _macro(groups: Sequence[_Sampled]) -> _Sampled:
    observed = [one.rel_loss for one in groups if one.rel_loss is not None]
    draws = [one.draws for one in groups if one.draws is not None]
    return _Sampled(
        math.fsum(observed) / len(groups) if len(observed) == len(groups) else None,
        np.mean(np.stack(draws), axis=0) if len(draws) == len(groups) else None,
    )


def _difference(a: _Sampled, b: _Sampled, confidence: float) -> LossDifference:
    observed = None
    if a.rel_loss is not None and b.rel_loss is not None:
        observed = a.rel_loss - b.rel_loss
    if a.draws is None or b.draws is None:
        return LossDifference(a.rel_loss, b.rel_loss, observed, None, None)
    draws = a.draws - b.draws
    interval = percentile_interval(draws, confidence)
    return LossDifference(a.rel_loss, b.rel_loss, observed, interval, two_sided_bootstrap_p(draws))


def _check(resamples: int, confidence: float, names: Sequence[str]) -> None:
    check_resampling(resamples, confidence)
    if not resamples:
        raise UsageError("comparing systems needs resamples: the p-value comes from them")
    if len(set(names)) < len(names):
        raise UsageError(f"systems that are compared have different names; got {list(names)}")


def _groups(systems: Mapping[str, Shift]) -> list[str]:
    """Return the groups that all systems were evaluated on.

    Raises:
        UsageError: if there is none, or systems differ in their groups.
    """
    per_system = {name: list(groups) for name, groups in systems.items()}
    first = next(iter(per_system.values()), [])
    if not first or any(set(groups) != set(first) for groups in per_system.values()):
        raise UsageError(f"systems are compared on the same groups; got {per_system}")
    return first


def compare_losses(
    a: GroupScores,
    b: GroupScores,
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    group: str = "",
    names: tuple[str, str] = ("a", "b"),
) -> LossDifference:
    """Compare what two systems lose on one group, paired on the same resampled queries.

    Seeds of the two systems have nothing to do with each other and are resampled independently.

    Args:
        a: the first system's scores.
        b: the second's, on the same queries in the same order; its number of models and seeds may
            differ.
        higher_is_better: false for ASL and the like.
        resamples: bootstrap resamples, at least 1; p is at least 2 / (resamples + 1).
        seed: of the resampling.
        confidence: of the interval.
        group: the group's name, part of the seeding.
        names: the systems' names, part of the seeding of resampled seeds.

    Raises:
        UsageError: if the systems were given different numbers of queries or equal names, or on
            arguments that `group_loss` refuses.
    """
    _check(resamples, confidence, names)
    sampled = _sample(
        dict(zip(names, (a, b), strict=True)),
        group=group,
        higher_is_better=higher_is_better,
        resamples=resamples,
        seed=seed,
    )
    return _difference(sampled[names[0]], sampled[names[1]], confidence)


def compare_shifts(
    a: Shift,
    b: Shift,
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    correction: str = "holm",
    names: tuple[str, str] = ("a", "b"),
) -> ShiftComparison:
    """Compare what two systems lose on each group of a shift and on the whole.

    Args:
        a: group -> the first system's scores.
        b: group -> the second's, as for `compare_losses`.
        higher_is_better: see there, like the next three.
        resamples: see there.
        seed: see there.
        confidence: see there.
        correction: across the groups, a key of `msshift_bench.significance.CORRECTIONS`.
        names: see `compare_losses`.

    Raises:
        UsageError: if the systems differ in their groups, and as for `compare_losses`.
        UnknownNameError: if there is no such correction.
    """
    systems = dict(zip(names, (a, b), strict=True))
    return compare_pairs(
        systems,
        higher_is_better=higher_is_better,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
        correction=correction,
    )[names]


def compare_pairs(
    systems: Mapping[str, Shift],
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    correction: str = "holm",
) -> dict[tuple[str, str], ShiftComparison]:
    """Compare every two of several systems; each pair gives what `compare_shifts` gives for it.

    Queries are resampled once for all systems, so that many pairs cost little more than one.

    Args:
        systems: name -> group -> scores, as for `compare_shifts`.
        higher_is_better: see there, like the others.
        resamples: see there.
        seed: see there.
        confidence: see there.
        correction: see there; pairs are not corrected for each other.

    Returns:
        (A, B) -> their comparison, A given before B.

    Raises:
        UsageError: as for `compare_shifts`.
        UnknownNameError: if there is no such correction.
    """
    _check(resamples, confidence, list(systems))
    sampled = _sample_groups(systems, higher_is_better, resamples, seed)
    macro = {name: _macro([one[name] for one in sampled.values()]) for name in systems}
    compared = {}
    for a, b in itertools.combinations(systems, 2):
        differences = {
            group: _difference(one[a], one[b], confidence) for group, one in sampled.items()
        }
        p_values = {group: one.p_value for group, one in differences.items()}
        compared[a, b] = ShiftComparison(
            differences,
            _difference(macro[a], macro[b], confidence),
            correction,
            adjust(p_values, correction),
        )
    return compared


def _sample_groups(
    systems: Mapping[str, Shift], higher_is_better: bool, resamples: int, seed: int
) -> dict[str, dict[str, _Sampled]]:
    """Return group -> system -> Rel Loss, observed and resampled."""
    return {
        group: _sample(
            {name: groups[group] for name, groups in systems.items()},
            group=group,
            higher_is_better=higher_is_better,
            resamples=resamples,
            seed=seed,
        )
        for group in _groups(systems)
    }


def rank_bands(
    systems: Mapping[str, Shift],
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    level: float = 0.05,
    correction: str = "holm",
) -> Ranking:
    """Rank systems by Rel Loss over a shift, as far as they can be told apart.

    All pairs are tested on the shift as a whole and the p-values corrected as one family; ranks
    and their ranges follow from the pairs told apart (`rank_ranges`).

    Args:
        systems: name -> group -> scores, as for `compare_shifts`.
        higher_is_better: false for ASL and the like.
        resamples: bootstrap resamples; enough of them for the smallest p-value they can give to
            survive Bonferroni's correction over all pairs.
        seed: of the resampling.
        confidence: of the intervals.
        level: a pair is told apart where its corrected p-value is at most this.
        correction: across the pairs, a key of `msshift_bench.significance.CORRECTIONS`.

    Raises:
        UsageError: if there is no system, a system's Rel Loss is undefined (Avg In is 0), or
            `resamples` are too few for this many systems; and as for `compare_shifts`.
        UnknownNameError: if there is no such correction.
    """
    _check(resamples, confidence, list(systems))
    needed = math.ceil(len(systems) * (len(systems) - 1) / level)
    if resamples < needed:
        raise UsageError(
            f"{resamples} resamples cannot tell {len(systems)} systems apart at level {level}: "
            f"ask for at least {needed}"
        )
    sampled = _sample_groups(systems, higher_is_better, resamples, seed)
    macro = {name: _macro([one[name] for one in sampled.values()]) for name in systems}
    rel_losses, intervals = {}, {}
    for name, one in macro.items():
        if one.rel_loss is None or one.draws is None:
            raise UsageError(f"{name} cannot be ranked: its Rel Loss is undefined (Avg In is 0)")
        rel_losses[name] = one.rel_loss
        intervals[name] = percentile_interval(one.draws, confidence)
    order = sorted(systems, key=lambda name: (rel_losses[name], name))
    pairs = {
        (better, worse): _difference(macro[better], macro[worse], confidence)
        for better, worse in itertools.combinations(order, 2)
    }
    adjusted = adjust({pair: one.p_value for pair, one in pairs.items()}, correction)
    apart = {pair for pair, p in adjusted.items() if p <= level}
    ranked = tuple(
        RankedSystem(name, rel_losses[name], intervals[name], one.rank, one.best, one.worst)
        for name, one in rank_ranges(order, apart).items()
    )
    return Ranking(ranked, pairs, correction, adjusted, level)
