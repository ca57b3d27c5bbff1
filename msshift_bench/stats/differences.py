"""Comparing systems: which is better or loses less, and which the data cannot tell apart.

Systems are compared by Rel Loss, or by Avg In or Out, on the same queries. Every query and seed
contributes to a difference as it does to a figure, so a difference has an interval and a p-value,
too (`stats.uncertainty`). They count other queries and, if both systems have two seeds or more,
other seeds. A run that is the same whichever group is held out, such as BM25's, has no seeds: a
difference from it counts the seeds of the other system. Permuting the labels of two systems per
query would test something else: that they are interchangeable altogether, also in Avg In. It
rejects for a strong and a weak system that lose the same share.
``benchmarks/coverage_simulation.py`` measures how often a true null hypothesis is rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats.average_loss import average_loss
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.rank_ranges import rank_ranges
from msshift_bench.stats.significance import SIGNIFICANT, adjust
from msshift_bench.stats.uncertainty import QUERIES_AND_SEEDS, Contributions, Interval

__all__ = [
    "COMPARED_FIGURES",
    "Difference",
    "RankedSystem",
    "SystemPair",
    "ComparedSystems",
    "compare_systems",
]

COMPARED_FIGURES = ("avg_in", "out", "rel_loss")
"""The figures that systems are compared by."""

ScoresByGroup = Mapping[str, GroupScores]
Pair = tuple[str, str]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far apart two systems are in one figure, on one group or on average.

    Attributes:
        value_a: the first system's figure, on the scale of the measure; of Rel Loss a fraction.
            `None` where it is undefined.
        value_b: the second system's figure.
        difference: `value_a` - `value_b`; of Rel Loss negative if the first system loses less.
        interval: the interval of `difference`; `None` below 2 queries, or if a figure is
            undefined.
        p: two-sided p-value of equal figures, not corrected; `None` if `interval` is, or if
            nothing varies.
        counts: what both count: "queries and seeds", or "queries only" if a system that was
            trained has a single seed, or if neither was trained; "" if `interval` is `None`.
    """

    value_a: float | None
    value_b: float | None
    difference: float | None
    interval: Interval | None = None
    p: float | None = None
    counts: str = ""


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two systems in one figure, on every group of a shift and on the shift as a whole.

    Attributes:
        groups: group -> difference on that group.
        overall: difference of the averages over groups.
        adjusted_p: group -> corrected p-value, without the groups that have none.
        adjusted_overall_p: corrected p-value of `overall`; `None` if it has none.
    """

    groups: Mapping[str, Difference]
    overall: Difference
    adjusted_p: Mapping[str, float]
    adjusted_overall_p: float | None

    def is_significant(self, group: str | None = None) -> bool:
        """Whether the systems are told apart on a group, or on the shift as a whole.

        Never where the difference counts queries only, since a single seed is one training only.
        """
        found = self.overall if group is None else self.groups[group]
        p = self.adjusted_overall_p if group is None else self.adjusted_p.get(group)
        return found.counts == QUERIES_AND_SEEDS and p is not None and p <= SIGNIFICANT


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's place among others.

    Attributes:
        system: its name.
        value: the average over groups of the figure that ranks.
        interval: the interval of `value`; `None` if a group has fewer than 2 queries.
        counts: what the interval counts: "queries only" or "queries and seeds".
        rank: 1 + the number of systems known to be better (`rank_ranges`); `None` for a system
            with a single seed, since nothing is known beyond that one training, for one that was
            not trained per group, and where systems were compared with a baseline only.
        best_rank: the first of the ranks that it might take, which is `rank`.
        worst_rank: the last of them: the number of ranked systems not known to be worse, itself
            included.
    """

    system: str
    value: float
    interval: Interval | None
    counts: str
    rank: int | None
    best_rank: int | None
    worst_rank: int | None


@dataclass(frozen=True, slots=True)
class ComparedSystems:
    """Several systems on one shift in one figure: the pairs, and the ranks that follow from them.

    Attributes:
        ranking: the best first, then by name; without systems whose figure is undefined.
        pairs: (A, B) -> their comparison, A given before B; or, with a baseline, B the baseline.
        correction: how p-values are corrected, a key of `CORRECTIONS`: those of all pairs on all
            groups are one family, those of all pairs on the shift as a whole are another; what
            counts queries only forms families of its own.
    """

    ranking: tuple[RankedSystem, ...]
    pairs: Mapping[Pair, SystemPair]
    correction: str


class _Known(NamedTuple):
    """A system's figure, and what queries and seeds contribute to it.

    Both are `None` if the figure is undefined.
    """

    value: float | None
    contributions: Contributions | None
    trained: bool

    def beside(self, other: _Known) -> Contributions | None:
        """Return the contributions to a difference from another system's figure."""
        if self.contributions is None or other.contributions is None:
            return None
        seeds = len(other.contributions.per_seed)
        if self.trained or not other.trained or seeds < 2:
            return self.contributions
        return self.contributions.repeated(seeds)


def compare_systems(
    systems: Mapping[str, ScoresByGroup],
    inference: Inference | None = None,
    *,
    higher_is_better: bool = True,
    figure: str = "rel_loss",
    baseline: str | None = None,
) -> ComparedSystems:
    """Compare every two of several systems, and rank them as far as they can be told apart.

    Ranks follow from the pairs that are told apart on the shift as a whole (`rank_ranges`).

    Args:
        systems: name -> group -> scores, on the same queries in the same order; numbers of models
            and seeds may differ.
        inference: how groups are averaged, and intervals and p-values made.
        higher_is_better: false for ASL and the like.
        figure: what to compare, one of `COMPARED_FIGURES`.
        baseline: the system to compare the others with; by default every two are compared. Only
            pairs that are compared are corrected for, and with a baseline there are no ranks.

    Raises:
        UsageError: if there is no system, systems differ in their groups or numbers of queries, or
            one without a loss is to be compared by Rel Loss.
        UnknownNameError: for another figure, or a baseline that is none of the systems.
    """
    inference = inference or Inference()
    confidence, correction = inference.confidence, inference.correction
    if figure not in COMPARED_FIGURES:
        raise UnknownNameError("figure to compare", figure, COMPARED_FIGURES)
    if baseline is not None and baseline not in systems:
        raise UnknownNameError("baseline", baseline, systems)
    groups = _common_groups(systems)
    trained = {
        name: all(one.trained for one in scores.values()) for name, scores in systems.items()
    }
    if figure == "rel_loss" and not all(trained.values()):
        without = ", ".join(name for name in systems if not trained[name])
        raise UsageError(f"not trained per group, so there is no Rel Loss to compare: {without}")

    def figures(names: Sequence[str]) -> dict[str, _Known]:
        found = {
            system: average_loss(
                {group: scores[group] for group in names},
                higher_is_better=higher_is_better,
                average=inference.average or "macro",
                seed_variance=inference.seed_variance,
                figures=(figure,),
            )
            for system, scores in systems.items()
        }
        return {
            system: _Known(
                getattr(one.point, figure), one.contributions.get(figure), trained[system]
            )
            for system, one in found.items()
        }

    by_group = {group: figures([group]) for group in groups}
    overall = figures(groups)
    pairs = list(itertools.combinations(systems, 2))
    if baseline is not None:
        pairs = [(name, baseline) for name in systems if name != baseline]
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
    replicated = {
        name
        for name, scores in systems.items()
        if baseline is None and trained[name] and scores[groups[0]].seeds > 1
    }
    largest_first = higher_is_better and figure != "rel_loss"
    return ComparedSystems(
        _rank(overall, compared, replicated, confidence, largest_first=largest_first),
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


def _difference(a: _Known, b: _Known, confidence: float) -> Difference:
    if a.value is None or b.value is None:
        return Difference(a.value, b.value, None)
    difference = a.value - b.value
    of_a, of_b = a.beside(b), b.beside(a)
    if of_a is None or of_b is None:
        return Difference(a.value, b.value, difference)
    uncertainty = of_a.minus(of_b).uncertainty()
    if uncertainty is None:
        return Difference(a.value, b.value, difference)
    return Difference(
        a.value,
        b.value,
        difference,
        uncertainty.interval(difference, confidence),
        uncertainty.p_value(difference),
        uncertainty.counts,
    )


def _adjust(tests: Mapping[Key, Difference], correction: str) -> dict[Key, float]:
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
    figures: Mapping[str, _Known],
    compared: Mapping[Pair, SystemPair],
    replicated: set[str],
    confidence: float,
    *,
    largest_first: bool,
) -> tuple[RankedSystem, ...]:
    defined = {name: one.value for name, one in figures.items() if one.value is not None}
    sign = -1 if largest_first else 1
    order = sorted(defined, key=lambda name: (sign * defined[name], name))
    apart = {
        (a, b) if order.index(a) < order.index(b) else (b, a)
        for (a, b), found in compared.items()
        if found.is_significant() and {a, b} <= replicated
    }
    ranks = rank_ranges([name for name in order if name in replicated], apart)
    ranked = []
    for name in order:
        contributions = figures[name].contributions
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
