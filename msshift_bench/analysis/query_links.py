"""The link between what single queries lose and how near they are to the training queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.analysis.binned_losses import BinnedLosses, bin_losses
from msshift_bench.analysis.group_links import LinkVerdict
from msshift_bench.analysis.query_losses import QueryLosses
from msshift_bench.analysis.slope_tests import SlopeTest, slope_test
from msshift_bench.arrays import Floats
from msshift_bench.output import say_p
from msshift_bench.stats import QUERIES_AND_SEEDS, QUERIES_ONLY, SIGNIFICANT

__all__ = ["QueryLink", "link_queries", "what_bands_count"]


@dataclass(frozen=True, slots=True)
class QueryLink:
    """The link of an indicator of queries with their losses, on the queries of one shift.

    Attributes:
        shift: the shift's name.
        indicator: the indicator's name.
        measure: the measure of the losses.
        systems: every system's losses in intervals of the indicator; all with the same intervals.
        mean: the test of the link for the mean of the systems, inside the groups; `None` if fewer
            than 3 groups can show one.
        verdict: what `mean` shows.
    """

    shift: str
    indicator: str
    measure: str
    systems: tuple[BinnedLosses, ...]
    mean: SlopeTest | None
    verdict: LinkVerdict


def what_bands_count(links: Iterable[QueryLink]) -> str:
    """Return what the bands of all systems count, in words."""
    counts = {one.counts for link in links for one in link.systems}
    if len(counts) > 1:
        return f"{QUERIES_AND_SEEDS} where a system has several seeds, else {QUERIES_ONLY}"
    return counts.pop()


def link_queries(
    indicator: str,
    losses: Sequence[QueryLosses],
    values: Mapping[str, Floats],
    *,
    bins: int = 6,
    control: str = "",
    difficulty: Mapping[str, Floats] | None = None,
) -> QueryLink:
    """Test the link between an indicator and the losses of queries.

    Args:
        indicator: the indicator's name.
        losses: what queries lose, system by system; of one shift and measure.
        values: group -> the indicator's values, ``[queries]``.
        bins: the number of intervals; see `bin_losses`.
        control: the name of the control of difficulty; "" without one.
        difficulty: group -> its values, ``[queries]``.

    Raises:
        UsageError: if `bins` is below 2.
        DataError: if all queries have the same value, or a system scores 0 on a group.
    """
    systems = tuple(
        bin_losses(one, indicator, values, bins=bins, control=control, difficulty=difficulty)
        for one in losses
    )
    relative = [one.relative() for one in losses]
    mean = {
        group: np.mean([one[group].mean(axis=0) for one in relative], axis=0)
        for group in relative[0]
    }
    found = slope_test(mean, values)
    shift, measure = losses[0].shift, losses[0].measure
    return QueryLink(
        shift, indicator, measure, systems, found, _judge(shift, indicator, measure, losses, found)
    )


def _judge(
    shift: str,
    indicator: str,
    measure: str,
    losses: Sequence[QueryLosses],
    found: SlopeTest | None,
) -> LinkVerdict:
    what = f"between {indicator} and what single queries of {shift} lose in {measure}"
    cannot = f"These data cannot show a link {what}."
    if found is None:
        return LinkVerdict(
            False,
            cannot,
            ("fewer than 3 groups have queries that differ in it, and groups are the witnesses",),
        )
    shown = found.p is not None and found.p <= SIGNIFICANT
    of = f"the mean of {len(losses)} systems" if len(losses) > 1 else losses[0].system
    low, high = found.interval
    queries = sum(scores.queries for scores in losses[0].scores.values())
    evidence = [
        f"slope inside the groups, {of}: {100 * found.slope:+z.1f} points of Rel Loss per 1 of "
        f"{indicator}, 95% interval [{100 * low:z.1f}, {100 * high:z.1f}], "
        + ("no p" if found.p is None else say_p(found.p))
        + f" (t with {found.df} degrees of freedom: the slopes of {found.df + 1} groups)",
        f"{queries:,} queries of {found.df + 1} groups are {found.df + 1} witnesses",
    ]
    if any(one.seeds == 1 for one in losses):
        evidence.append(
            "one seed per model: the bands of the intervals count queries only; the test counts "
            "what differs from model to model, which a seed is part of"
        )
    if not shown:
        return LinkVerdict(False, cannot, tuple(evidence))
    way = "less" if found.slope < 0 else "more"
    sentence = f"These data show a link {what}: the higher it is, the {way} is lost."
    return LinkVerdict(True, sentence, tuple(evidence))
