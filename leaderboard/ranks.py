"""The ranks of a board's systems, and the difference of every two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.evaluation import SystemScores, parse_measure
from msshift_bench.leaderboard.results import show_interval, show_number
from msshift_bench.output import show_p
from msshift_bench.shifts import Shift
from msshift_bench.stats import (
    QUERIES_ONLY,
    Difference,
    Inference,
    RankedSystem,
    ScoresByGroup,
    SystemPair,
    compare_systems,
)

__all__ = ["MOST_RANKED", "ONE_SEED", "Ranks", "rank_systems"]

MOST_RANKED = 40
"""The most systems of a shift to rank and compare: those with the best Out.

Pairs grow with the square of their number: 40 systems make 780, each with an interval per group.
"""

MOST_BESIDE = 5
"""The most systems without a loss that are compared with these by Out: those with the best Out."""

ONE_SEED = "one seed"
"""Why a system with a single seed is not ranked: its loss may be that of one training."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of systems of one shift under one measure.

    Attributes:
        measure: the measure.
        ranked: system -> its place.
        unranked: system -> why it has no place.
        pairs: figure -> (A, B) -> how they differ: by ``out`` every two systems, by ``rel_loss``
            those that have a loss; over queries only where one of them has a single seed, or
            neither was trained.
        correction: how the pairs' p-values are corrected.
    """

    measure: str
    ranked: Mapping[str, RankedSystem]
    unranked: Mapping[str, str]
    pairs: Mapping[str, Mapping[tuple[str, str], SystemPair]]
    correction: str

    def pairs_json(self) -> list[dict[str, Any]]:
        """Return every pair with its differences, group by group and on the whole, as text."""
        every = dict.fromkeys(pair for of_figure in self.pairs.values() for pair in of_figure)
        return [
            {
                "a": pair[0],
                "b": pair[1],
                "correction": self.correction,
                "figures": {
                    figure: self._differences(figure, of_figure[pair])
                    for figure, of_figure in self.pairs.items()
                    if pair in of_figure
                },
            }
            for pair in every
        ]

    def _differences(self, figure: str, pair: SystemPair) -> list[dict[str, Any]]:
        by_group = {
            group: (one, pair.adjusted_p.get(group), pair.is_significant(group))
            for group, one in pair.groups.items()
        }
        whole = (pair.overall, pair.adjusted_overall_p, pair.is_significant())
        return [
            {"name": name, **self._difference(figure, *found)}
            for name, found in {**by_group, "whole shift": whole}.items()
        ]

    def _difference(
        self, figure: str, difference: Difference, p_value: float | None, apart: bool
    ) -> dict[str, Any]:
        """Return a difference as text; where it counts queries only it has no test."""
        queries_only = difference.counts == QUERIES_ONLY
        p_value = None if queries_only else p_value
        seeds = 1 if queries_only else 2
        return {
            "value": difference.difference,
            "text": show_number(figure, self.measure, difference.difference),
            "interval": show_interval(figure, self.measure, difference.interval, seeds=seeds),
            "p": p_value,
            "p_text": show_p(p_value),
            "apart": apart,
        }


def rank_systems(shift: Shift, measure: str, scores: Mapping[str, SystemScores]) -> Ranks:
    """Rank the systems that were trained per group with several seeds, on the same queries.

    Args:
        shift: the shift.
        measure: the measure.
        scores: system -> its per-query scores on the shift.

    Returns:
        The ranks among the systems on the test set that most of them share; none with fewer than
        two systems. Systems without a loss are compared with the others by Out.
    """
    higher_is_better = parse_measure(measure).higher_is_better
    unranked: dict[str, str] = {}
    losses: dict[str, ScoresByGroup] = {}
    beside: dict[str, ScoresByGroup] = {}
    for system, of_system in scores.items():
        if not of_system.trained_per_group:
            unranked[system] = "not trained per group"
            beside[system] = of_system.untrained_scores(measure, of_system.groups)
            continue
        groups = of_system.group_scores(measure, of_system.groups)
        if any(not of_group.inside.mean() for of_group in groups.values()):
            unranked[system] = "its Rel Loss is undefined, as its Avg In is 0"
            beside[system] = groups
        else:
            losses[system] = groups
    for system in _on_other_queries({**losses, **beside}, scores):
        unranked.setdefault(system, "scored on another test set than most")
        losses.pop(system, None)
        beside.pop(system, None)
    one_seed = frozenset(system for system in losses if _seeds(losses[system]) == 1)
    sign = -1 if higher_is_better else 1

    def place(system: str) -> tuple[bool, float, str]:
        return system in one_seed, sign * _out({**losses, **beside}[system]), system

    by_out = sorted(losses, key=place)
    for system in by_out[MOST_RANKED:]:
        unranked[system] = f"only the {MOST_RANKED} systems with the best Out are ranked"
    unranked |= dict.fromkeys(sorted(one_seed), ONE_SEED)
    kept = sorted(by_out[:MOST_RANKED])
    compared = {
        figure: compare_systems(
            {system: {**losses, **beside}[system] for system in systems},
            Inference(average=shift.average),
            higher_is_better=higher_is_better,
            figure=figure,
        )
        for figure, systems in (
            ("out", sorted([*kept, *sorted(beside, key=place)[:MOST_BESIDE]])),
            ("rel_loss", kept),
        )
        if systems
    }
    by_loss = compared["rel_loss"].ranking if kept else ()
    ranked = {one.system: one for one in by_loss if one.rank is not None}
    if len(ranked) < 2:
        unranked |= dict.fromkeys(ranked, "the only system here that can be ranked")
        ranked = {}
    pairs = {figure: found.pairs for figure, found in compared.items() if found.pairs}
    correction = next((found.correction for found in compared.values()), "")
    return Ranks(measure, ranked, unranked, pairs, correction)


def _on_other_queries(
    systems: Mapping[str, ScoresByGroup], scores: Mapping[str, SystemScores]
) -> list[str]:
    """Return the systems that were not scored on the test set that most were scored on."""
    queries = {
        system: tuple((group, scores[system].ids_of(group)) for group in groups)
        for system, groups in systems.items()
    }
    most = Counter(queries.values()).most_common(1)
    return [system for system, own in queries.items() if own != most[0][0]]


def _seeds(groups: ScoresByGroup) -> int:
    return min(len(scores.out) for scores in groups.values())


def _out(groups: ScoresByGroup) -> float:
    return math.fsum(scores.out.mean() for scores in groups.values()) / len(groups)
