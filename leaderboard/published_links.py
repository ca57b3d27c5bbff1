"""The analysis of the paper's own figures: published losses against published similarities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msshift_bench.analysis import Analysis, GroupLink, LossPoint, link_losses
from msshift_bench.leaderboard import load_published
from msshift_bench.shifts import SHIFTS

__all__ = ["analyse_published"]

_MEASURE = "RR@10"

_SCOPES: Sequence[tuple[str, Sequence[str]]] = (
    ("all", ("topics",)),
    ("test", ("topics",)),
    ("test", ("wh-words",)),
    ("test", ("topics", "wh-words")),
)
"""Which queries the similarities compare, and the shifts whose groups are the points. Figure 3 of
the paper has the points of the last row. Short and long queries are compared with each other, so
that both groups of `length` have one similarity."""


def analyse_published() -> Analysis:
    """Link the Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023) to weighted Jaccard.

    The paper draws these points (Figure 3), and gives neither a line nor a correlation. The losses
    have no intervals, because the paper names neither seeds nor the scores of queries.
    """
    losses, similarities = load_published("ms_shift_v2"), load_published("ms_shift_similarity")
    rows = [*losses["topics"], *losses["wh_and_length"]]
    links = tuple(_link(rows, similarities[split], split, shifts) for split, shifts in _SCOPES)
    return Analysis(
        "published figures of MS-Shift (ECIR 2023), Tables 2 and 3",
        None,
        (_MEASURE,),
        (similarities["indicator"],),
        links,
        remarks=(
            "published losses carry no intervals: they rest on one training each, and count as "
            "they are printed",
            "all queries: training and test queries, as the authors counted them; test queries: "
            "the released test sets, where C0 and C3 change places",
        ),
    )


def _link(
    rows: Sequence[Mapping[str, Any]],
    similarities: Mapping[str, float],
    split: str,
    shifts: Sequence[str],
) -> GroupLink:
    points = [
        LossPoint(
            shift,
            row["group"],
            row["system"],
            similarities[row["group"]],
            row["rel_loss_pct"] / 100,
        )
        for shift in shifts
        for row in rows
        if row["group"] in SHIFTS[shift].groups
    ]
    return link_losses("weighted-jaccard", _MEASURE, points, split=split)
