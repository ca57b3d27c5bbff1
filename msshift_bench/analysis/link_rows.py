"""Every figure of an analysis as a row of one long table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msshift_bench.analysis.decomposing import LossByWords
from msshift_bench.analysis.group_links import GroupLink, SystemLink
from msshift_bench.analysis.plans import DetectableLoss
from msshift_bench.analysis.query_links import QueryLink
from msshift_bench.analysis.slope_tests import SlopeTest
from msshift_bench.output import FigureRow

__all__ = ["link_rows"]


def link_rows(
    group_links: Iterable[GroupLink],
    query_links: Iterable[QueryLink],
    losses_by_words: Iterable[LossByWords],
    detectable: Iterable[DetectableLoss],
) -> Iterator[FigureRow]:
    """Yield the figures: of links over groups, of links over queries, of words, of plans.

    The column `label` names the indicator, and behind a colon the interval or the part of the
    queries; `group` names the group, or ``all groups``.
    """
    for link in group_links:
        yield from _group_rows(link)
    for of_queries in query_links:
        yield from _query_rows(of_queries)
    for parts in losses_by_words:
        yield from _part_rows(parts)
    for one in detectable:
        plans = {"detectable": one.now}
        plans |= {f"detectable_{seeds}_seeds": loss for seeds, loss in one.by_seeds.items()}
        head = (one.shift, one.system, one.measure, one.group)
        for figure, loss in plans.items():
            yield FigureRow(*head, figure, loss, queries=one.queries, seeds=one.seeds)


def _group_rows(link: GroupLink) -> Iterator[FigureRow]:
    for point in link.points:
        head = (point.shift, point.system, link.measure, point.group)
        n, seeds, label = point.queries, point.seeds, link.indicator
        for figure, value, low, high in (
            ("similarity", point.similarity, None, None),
            ("rel_loss", point.rel_loss, *(point.interval or (None, None))),
        ):
            yield FigureRow(*head, figure, value, low, high, None, n, seeds, label=label)
    systems = [*link.systems, link.mean] if len(link.systems) > 1 else link.systems
    for one in systems:
        yield from _link_rows(link, one)


def _link_rows(link: GroupLink, one: SystemLink) -> Iterator[FigureRow]:
    line = one.line
    p = line.p if one.adjusted_p is None else one.adjusted_p
    figures: list[tuple[str, float | None, tuple[float, float] | None, float | None]] = [
        ("slope", line.slope, line.slope_interval, p),
        ("intercept", line.intercept, None, None),
        ("r_squared", line.r_squared, None, None),
        ("spearman", one.spearman.value, one.spearman.interval, one.spearman.p),
        ("kendall", one.kendall.value, one.kendall.interval, one.kendall.p),
    ]
    if one.mixed is not None:
        figures.append(("mixed_slope", one.mixed.slope, None, one.mixed.p))
    for figure, value, interval, p_value in figures:
        low, high = interval or (None, None)
        yield FigureRow(
            link.name,
            one.system,
            link.measure,
            "all groups",
            figure,
            value,
            low,
            high,
            p_value,
            label=link.indicator,
        )


def _query_rows(link: QueryLink) -> Iterator[FigureRow]:
    for system in link.systems:
        for one in system.bins:
            low, high = one.band or (None, None)
            yield FigureRow(
                link.shift,
                system.system,
                link.measure,
                "all groups",
                "rel_loss",
                one.rel_loss,
                low,
                high,
                queries=one.queries,
                label=f"{link.indicator}: {one.low:.6g} to {one.high:.6g}",
            )
        for figure, test in (
            ("slope_inside_groups", system.within),
            ("slope_at_equal_difficulty", system.at_equal_difficulty),
        ):
            if test is not None:
                head = (link.shift, system.system, link.measure)
                yield _slope_row(head, figure, test, link.indicator)


def _part_rows(parts: LossByWords) -> Iterator[FigureRow]:
    head = (parts.shift, parts.system, parts.measure)
    for part in parts.parts:
        label = f"words: {part.words}"
        low, high = part.band or (None, None)
        yield FigureRow(
            *head,
            "all groups",
            "rel_loss",
            part.rel_loss,
            low,
            high,
            None,
            part.queries,
            label=label,
        )
        yield FigureRow(
            *head, "all groups", "loss_share", part.loss_share, queries=part.queries, label=label
        )
    for figure, test in (
        ("difference", parts.difference),
        ("difference_at_equal_difficulty", parts.at_equal_difficulty),
    ):
        if test is not None:
            yield _slope_row(head, figure, test, "words: never met - met")


def _slope_row(head: tuple[str, str, str], figure: str, test: SlopeTest, label: str) -> FigureRow:
    low, high = test.interval
    return FigureRow(*head, "all groups", figure, test.slope, low, high, test.p, label=label)
