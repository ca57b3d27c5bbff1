"""The ranks of a board's systems, and the difference of every two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.evaluation import SystemScores, parse_measure
from msshift_bench.leaderboard.results import show_interval
from msshift_bench.output import show_p, show_percent
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


ONE_SEED = "one seed"
"""Why a system with a single seed is not ranked: its loss may be that of one training."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of systems of one shift under one measure.

    Attributes:
        ranked: system -> its place.
        unranked: system -> why it has no place.
        pairs: (A, B) -> how they differ; over queries only where one of them has a single seed.
        correction: how the pairs' p-values are corrected.
    """

    ranked: Mapping[str, RankedSystem]
    unranked: Mapping[str, str]
    pairs: Mapping[tuple[str, str], SystemPair]
    correction: str

    def pairs_json(self) -> list[dict[str, Any]]:
        """Return every pair with its differences, group by group and on the whole, as text."""
        return [
            {
                "a": a,
                "b": b,
                "correction": self.correction,
                "rows": [
                    *(
                        _difference(
                            group,
                            difference,
                            compared.adjusted_p.get(group),
                            compared.is_significant(group),
                        )
                        for group, difference in compared.groups.items()
                    ),
                    _difference(
                        "whole shift",
                        compared.overall,
                        compared.adjusted_overall_p,
                        compared.is_significant(),
                    ),
                ],
            }
            for (a, b), compared in self.pairs.items()
        ]


def _difference(
    name: str, difference: Difference, p_value: float | None, apart: bool
) -> dict[str, Any]:
    """Return a difference as text; with one seed it has no test."""
    one_seed = difference.counts == QUERIES_ONLY
    p_value = None if one_seed else p_value
    return {
        "name": name,
        "value": difference.difference,
        "text": show_percent(difference.difference),
        "interval": show_interval("rel_loss", "", difference.interval, seeds=1 if one_seed else 2),
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
        two systems.
    """
    higher_is_better = parse_measure(measure).higher_is_better
    unranked: dict[str, str] = {}
    losses: dict[str, ScoresByGroup] = {}
    for system, of_system in scores.items():
        groups = of_system.group_scores(measure, of_system.groups)
        if len(groups) < len(of_system.groups):
            unranked[system] = "not trained per group"
        elif any(not of_group.inside.mean() for of_group in groups.values()):
            unranked[system] = "its Rel Loss is undefined, as its Avg In is 0"
        else:
            losses[system] = groups
    queries = {
        system: tuple((group, scores[system].ids_of(group)) for group in groups)
        for system, groups in losses.items()
    }
    if queries:
        common = Counter(queries.values()).most_common(1)[0][0]
        for system in [system for system, own in queries.items() if own != common]:
            unranked[system] = "scored on another test set than most"
            del losses[system]
    one_seed = frozenset(system for system in losses if _seeds(losses[system]) == 1)
    sign = -1 if higher_is_better else 1
    by_out = sorted(
        losses, key=lambda system: (system in one_seed, sign * _out(losses[system]), system)
    )
    for system in by_out[MOST_RANKED:]:
        unranked[system] = f"only the {MOST_RANKED} systems with the best Out are ranked"
        del losses[system]
    unranked |= dict.fromkeys(sorted(one_seed), ONE_SEED)
    systems = {system: losses[system] for system in sorted(losses)}
    if not systems:
        return Ranks({}, unranked, {}, "")
    compared = compare_systems(
        systems, Inference(average=shift.average), higher_is_better=higher_is_better
    )
    ranked = {place.system: place for place in compared.ranking if place.rank is not None}
    if len(ranked) < 2:
        unranked |= dict.fromkeys(ranked, "the only system here that can be ranked")
        ranked = {}
    return Ranks(ranked, unranked, compared.pairs, compared.correction)


def _seeds(groups: ScoresByGroup) -> int:
    return min(len(scores.out) for scores in groups.values())


def _out(groups: ScoresByGroup) -> float:
    return math.fsum(scores.out.mean() for scores in groups.values()) / len(groups)
