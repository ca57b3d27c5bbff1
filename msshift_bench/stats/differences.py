"""Comparing systems: which loses less, and which the data cannot tell apart.

Systems are compared by Rel Loss on the same queries. Every query and seed contributes to a
difference as it does to a loss, so a difference has an interval and a p-value, too
(`stats.uncertainty`). They count other queries and, if both systems have two seeds or more, other
seeds. Permuting the labels of two systems per query would test something else: that they are
interchangeable altogether, also in Avg In. It rejects for a strong and a weak system that lose the
same share. ``benchmarks/coverage_simulation.py`` measures how often a true null hypothesis is
rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from msshift_bench.errors import UsageError
from msshift_bench.stats.average_loss import average_loss
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.losses import SIGNIFICANT
from msshift_bench.stats.rank_ranges import rank_ranges
from msshift_bench.stats.significance import adjust
from msshift_bench.stats.uncertainty import QUERIES_AND_SEEDS, Contributions, Interval

__all__ = [
    "LossDifference",
    "RankedSystem",
    "SystemPair",
    "ComparedSystems",
    "compare_systems",
]

ScoresByGroup = Mapping[str, GroupScores]
Pair = tuple[str, str]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LossDifference:
    """How much more one system loses than another.

    Attributes:
        rel_loss_a: Rel Loss of the first system; `None` where it is undefined.
        rel_loss_b: Rel Loss of the second system.
        difference: `rel_loss_a` - `rel_loss_b`: negative if the first loses less.
        interval: the interval of `difference`; `None` below 2 queries, or if a Rel Loss is
            undefined.
        p: two-sided p-value of equal Rel Losses, not corrected; `None` if `interval` is, or if
            nothing varies.
        counts: what both count: "queries and seeds", or "queries only" if a system has a single
            seed; "" if `interval` is `None`.
    """

    rel_loss_a: float | None
    rel_loss_b: float | None
    difference: float | None
    interval: Interval | None = None
    p: float | None = None
    counts: str = ""


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two systems on every group of a shift, and on the shift as a whole.

    Attributes:
        groups: group -> difference on that group.
        overall: difference of the average Rel Losses.
        adjusted_p: group -> corrected p-value, without the groups that have none.
        adjusted_overall_p: corrected p-value of `overall`; `None` if it has none.
    """

    groups: Mapping[str, LossDifference]
    overall: LossDifference
    adjusted_p: Mapping[str, float]
    adjusted_overall_p: float | None

    def is_significant(self, group: str | None = None) -> bool:
        """Whether the systems are told apart on a group, or on the shift as a whole.

        Never if a system has a single seed, since that is one training only.
        """
        found = self.overall if group is None else self.groups[group]
        p = self.adjusted_overall_p if group is None else self.adjusted_p.get(group)
        return found.counts == QUERIES_AND_SEEDS and p is not None and p <= SIGNIFICANT


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's place among others.

    Attributes:
        system: its name.
        rel_loss: average of its Rel Losses over groups.
        interval: the interval of `rel_loss`; `None` if a group has fewer than 2 queries.
        counts: what the interval counts: "queries only" or "queries and seeds".
        rank: 1 + the number of systems known to lose less (`rank_ranges`); `None` for a system with
            a single seed, since nothing is known beyond that one training.
        best_rank: the first of the ranks that it might take, which is `rank`.
        worst_rank: the last of them: the number of ranked systems not known to lose more, itself
            included.
    """

    system: str
    rel_loss: float
    interval: Interval | None
    counts: str
    rank: int | None
    best_rank: int | None
    worst_rank: int | None


@dataclass(frozen=True, slots=True)
class ComparedSystems:
    """Several systems on one shift: every pair, and the ranks that follow from the pairs.

    Attributes:
        ranking: by ascending Rel Loss, then name; without systems whose Rel Loss is undefined.
        pairs: (A, B) -> their comparison, A given before B.
        correction: how p-values are corrected, a key of `CORRECTIONS`: those of all pairs on all
            groups are one family, those of all pairs on the shift as a whole are another; if a
            system has a single seed, its pairs are families of their own.
    """

    ranking: tuple[RankedSystem, ...]
    pairs: Mapping[Pair, SystemPair]
    correction: str


class _Loss(NamedTuple):
    """A Rel Loss, and what queries and seeds contribute to it; both `None` if it is undefined."""

    rel_loss: float | None
    contributions: Contributions | None


def compare_systems(
    systems: Mapping[str, ScoresByGroup],
    inference: Inference | None = None,
    *,
    higher_is_better: bool = True,
) -> ComparedSystems:
    """Compare every two of several systems, and rank them as far as they can be told apart.

    Ranks follow from the pairs that are told apart on the shift as a whole (`rank_ranges`).

    Args:
        systems: name -> group -> scores, on the same queries in the same order; numbers of models
            and seeds may differ.
        inference: how groups are averaged, and intervals and p-values made.
        higher_is_better: false for ASL and the like.

    Raises:
        UsageError: if there is no system, or systems differ in their groups or numbers of queries.
    """
    inference = inference or Inference()
    confidence, correction = inference.confidence, inference.correction
    groups = _common_groups(systems)

    def losses(names: Sequence[str]) -> dict[str, _Loss]:
        found = {
            system: average_loss(
                {group: scores[group] for group in names},
                higher_is_better=higher_is_better,
                average=inference.average or "macro",
                seed_variance=inference.seed_variance,
                figures=("rel_loss",),
            )
            for system, scores in systems.items()
        }
        return {
            system: _Loss(loss.point.rel_loss, loss.contributions.get("rel_loss"))
            for system, loss in found.items()
        }

    by_group = {group: losses([group]) for group in groups}
    overall = losses(groups)
    pairs = list(itertools.combinations(systems, 2))
    differences = {
        (pair, group): _difference(found[pair[0]], found[pair[1]], confidence)
        for pair in pairs
        for group, found in by_group.items()
    }
    whole = {(a, b): _difference(overall[a], overall[b], confidence) for a, b in pairs}
    adjusted = _adjust(differences, correction)
    adjusted_whole = _adjust(whole, correction)
    compared = {
        pair: SystemPair(
            {group: differences[pair, group] for group in groups},
            whole[pair],
            {group: adjusted[pair, group] for group in groups if (pair, group) in adjusted},
            adjusted_whole.get(pair),
        )
        for pair in pairs
    }
    seeds = {system: scores[groups[0]].seeds for system, scores in systems.items()}
    return ComparedSystems(
        _rank(overall, compared, {name for name in systems if seeds[name] > 1}, confidence),
        compared,
        correction,
    )


def _common_groups(systems: Mapping[str, ScoresByGroup]) -> list[str]:
    """Return the groups that all systems were evaluated on.

    Raises:
        UsageError: if there is none, or systems differ in their groups or numbers of queries.
    """
    per_system = {name: list(groups) for name, groups in systems.items()}
    first = next(iter(per_system.values()), [])
    if not first or any(set(groups) != set(first) for groups in per_system.values()):
        raise UsageError(f"systems are compared on the same groups; got {per_system}")
    for group in first:
        counts = {name: groups[group].queries for name, groups in systems.items()}
        if len(set(counts.values())) > 1:
            raise UsageError(f"systems are compared on the same queries; got {counts} on {group}")
    return first


def _difference(a: _Loss, b: _Loss, confidence: float) -> LossDifference:
    if a.rel_loss is None or b.rel_loss is None:
        return LossDifference(a.rel_loss, b.rel_loss, None)
    difference = a.rel_loss - b.rel_loss
    if a.contributions is None or b.contributions is None:
        return LossDifference(a.rel_loss, b.rel_loss, difference)
    uncertainty = a.contributions.minus(b.contributions).uncertainty()
    if uncertainty is None:
        return LossDifference(a.rel_loss, b.rel_loss, difference)
    return LossDifference(
        a.rel_loss,
        b.rel_loss,
        difference,
        uncertainty.interval(difference, confidence),
        uncertainty.p_value(difference),
        uncertainty.counts,
    )


def _adjust(tests: Mapping[Key, LossDifference], correction: str) -> dict[Key, float]:
    """Correct p-values for each other; those that count queries only are a family of their own.

    Those are smaller than if they counted seeds, too, and would make it easier for the others to
    pass a step-down procedure.
    """
    adjusted = {}
    for counts in {one.counts for one in tests.values()}:
        family = {key: one.p for key, one in tests.items() if one.counts == counts}
        adjusted.update(adjust(family, correction))
    return adjusted


def _rank(
    losses: Mapping[str, _Loss],
    compared: Mapping[Pair, SystemPair],
    replicated: set[str],
    confidence: float,
) -> tuple[RankedSystem, ...]:
    defined = {name: one.rel_loss for name, one in losses.items() if one.rel_loss is not None}
    order = sorted(defined, key=lambda name: (defined[name], name))
    apart = {
        (a, b) if order.index(a) < order.index(b) else (b, a)
        for (a, b), found in compared.items()
        if found.is_significant()
    }
    ranks = rank_ranges([name for name in order if name in replicated], apart)
    ranked = []
    for name in order:
        contributions = losses[name].contributions
        uncertainty = None if contributions is None else contributions.uncertainty()
        place = ranks.get(name)
        ranked.append(
            RankedSystem(
                name,
                defined[name],
                None if uncertainty is None else uncertainty.interval(defined[name], confidence),
                "" if uncertainty is None else uncertainty.counts,
                None if place is None else place.rank,
                None if place is None else place.best,
                None if place is None else place.worst,
            )
        )
    return tuple(ranked)
