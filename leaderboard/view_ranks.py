"""Which systems of a board cannot be told apart, and how every two of them differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.comparing import (
    LossDifference,
    RankedSystem,
    Shift,
    ShiftComparison,
    compare_pairs,
    rank_bands,
)
from msshift_bench.leaderboard.view_scores import QueryScores
from msshift_bench.leaderboard.views import show_interval
from msshift_bench.scoring import DEFAULT_RESAMPLES
from msshift_bench.tables import SIGNIFICANT, show_p, show_percent

__all__ = ["MOST_RANKED", "ONE_SEED", "Ranks", "rank_systems"]

MOST_RANKED = 40
"""At most so many systems of a shift are ranked and compared, those with the best Out.

More take resamples that grow with the square of their number (`rank_bands`): 40 systems take
31,200, which was measured at 4 seconds per group of 6,200 queries and measure.
"""


ONE_SEED = "one seed"
"""Why a system is not ranked whose loss may be that of one training."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The systems of one shift under one measure, ranked as far as they can be.

    Attributes:
        ranked: system -> its place.
        unranked: system -> why it has no place.
        pairs: (A, B) -> how they differ.
        one_seed: the systems with one seed: compared, but over queries only, and not ranked.
    """

    ranked: Mapping[str, RankedSystem]
    unranked: Mapping[str, str]
    pairs: Mapping[tuple[str, str], ShiftComparison]
    one_seed: frozenset[str]

    def pairs_json(self) -> list[dict[str, Any]]:
        """Return every pair with its differences, group by group and on the whole, as text."""
        return [
            {
                "a": a,
                "b": b,
                "correction": found.correction,
                "rows": [
                    _difference(name, one, p_value, one_seed=bool(self.one_seed & {a, b}))
                    for name, one, p_value in (
                        *(
                            (group, one, found.adjusted_p.get(group))
                            for group, one in found.groups.items()
                        ),
                        ("whole shift", found.overall, found.overall.p_value),
                    )
                ],
            }
            for (a, b), found in self.pairs.items()
        ]


def _difference(
    name: str, one: LossDifference, p_value: float | None, *, one_seed: bool
) -> dict[str, Any]:
    """Return a difference as text; with one seed there is nothing to test it against."""
    interval = one.interval and one.interval._asdict()
    p_value = None if one_seed else p_value
    return {
        "name": name,
        "value": one.difference,
        "text": show_percent(one.difference),
        "interval": show_interval("rel_loss", "", interval, seeds=1 if one_seed else 2),
        "p": p_value,
        "p_text": show_p(p_value),
        "apart": p_value is not None and p_value <= SIGNIFICANT,
    }


def rank_systems(
    scores: Mapping[str, Mapping[str, QueryScores]], *, higher_is_better: bool
) -> Ranks:
    """Rank the systems that were trained per group with several seeds, on the same queries.

    Args:
        scores: system -> group -> per-query scores, all of one shift and measure.
        higher_is_better: of the measure.

    Returns:
        The ranks among the systems on the test set that most of them share. With fewer than two
        systems there is nothing to rank.
    """
    unranked: dict[str, str] = {}
    losses: dict[str, Shift] = {}
    for system, groups in scores.items():
        found = {group: one.losses(group) for group, one in groups.items()}
        complete = {group: one for group, one in found.items() if one is not None}
        if len(complete) < len(found):
            unranked[system] = "not trained per group"
        elif any(not one.inside.mean() for one in complete.values()):
            unranked[system] = "its Rel Loss is undefined, as its Avg In is 0"
        else:
            losses[system] = complete
    queries = {
        system: tuple((group, scores[system][group].query_ids) for group in losses[system])
        for system in losses
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
    pairs = {}
    if len(systems) > 1:
        pairs = compare_pairs(systems, higher_is_better=higher_is_better)
    replicated = {system: one for system, one in systems.items() if system not in one_seed}
    if len(replicated) < 2:
        only = dict.fromkeys(replicated, "the only system here that can be ranked")
        return Ranks({}, {**unranked, **only}, pairs, one_seed)
    needed = math.ceil(len(replicated) * (len(replicated) - 1) / SIGNIFICANT)
    ranking = rank_bands(
        replicated,
        higher_is_better=higher_is_better,
        resamples=max(DEFAULT_RESAMPLES, needed),
        level=SIGNIFICANT,
    )
    return Ranks({one.system: one for one in ranking.systems}, unranked, pairs, one_seed)


def _seeds(groups: Shift) -> int:
    return min(len(one.out) for one in groups.values())


def _out(groups: Shift) -> float:
    return math.fsum(one.out.mean() for one in groups.values()) / len(groups)
