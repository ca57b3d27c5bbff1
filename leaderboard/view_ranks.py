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

__all__ = ["MOST_RANKED", "Ranks", "rank_systems"]

MOST_RANKED = 40
"""At most so many systems of a shift are ranked and compared, those with the lowest Rel Loss.

More take resamples that grow with the square of their number (`rank_bands`): 40 systems take
31,200, which was measured at 4 seconds per group of 6,200 queries and measure.
"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The systems of one shift under one measure, ranked as far as they can be.

    Attributes:
        ranked: system -> its place.
        unranked: system -> why it has no place.
        pairs: (A, B) -> how they differ.
    """

    ranked: Mapping[str, RankedSystem]
    unranked: Mapping[str, str]
    pairs: Mapping[tuple[str, str], ShiftComparison]

    def pairs_json(self) -> list[dict[str, Any]]:
        """Return every pair with its differences, group by group and on the whole, as text."""
        return [
            {
                "a": a,
                "b": b,
                "correction": found.correction,
                "rows": [
                    *(
                        _difference(group, one, found.adjusted_p.get(group))
                        for group, one in found.groups.items()
                    ),
                    _difference("whole shift", found.overall, found.overall.p_value),
                ],
            }
            for (a, b), found in self.pairs.items()
        ]


def _difference(name: str, one: LossDifference, p_value: float | None) -> dict[str, Any]:
    interval = one.interval and one.interval._asdict()
    return {
        "name": name,
        "value": one.difference,
        "text": show_percent(one.difference),
        "interval": show_interval("rel_loss", "", interval),
        "p": p_value,
        "p_text": show_p(p_value),
        "apart": p_value is not None and p_value <= SIGNIFICANT,
    }


def rank_systems(
    scores: Mapping[str, Mapping[str, QueryScores]], *, higher_is_better: bool
) -> Ranks:
    """Rank the systems that were trained per group and answered the same queries.

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
    by_loss = sorted(
        losses, key=lambda system: (_rel_loss(losses[system], higher_is_better), system)
    )
    for system in by_loss[MOST_RANKED:]:
        unranked[system] = f"only the {MOST_RANKED} systems with the lowest Rel Loss are ranked"
        del losses[system]
    if len(losses) < 2:
        only = dict.fromkeys(losses, "the only system here with per-query scores")
        return Ranks({}, {**unranked, **only}, {})
    systems = {system: losses[system] for system in sorted(losses)}
    needed = math.ceil(len(systems) * (len(systems) - 1) / SIGNIFICANT)
    ranking = rank_bands(
        systems,
        higher_is_better=higher_is_better,
        resamples=max(DEFAULT_RESAMPLES, needed),
        level=SIGNIFICANT,
    )
    pairs = compare_pairs(systems, higher_is_better=higher_is_better)
    return Ranks({one.system: one for one in ranking.systems}, unranked, pairs)


def _rel_loss(groups: Shift, higher_is_better: bool) -> float:
    sign = 1 if higher_is_better else -1
    means = [(one.inside.mean(), one.out.mean()) for one in groups.values()]
    return math.fsum(sign * (inside - out) / inside for inside, out in means) / len(means)
