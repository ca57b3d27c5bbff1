"""Losses against similarity: the groups of every shift, with a line, its band and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msshift_bench.analysis import GroupLink
from msshift_bench.output import LINE, PALE_INK, Look, say_p
from msshift_bench.report.named_points import NamedPoint, name_points
from msshift_bench.report.report_figure import ReportFigure, Value, blank_figure, share_legend
from msshift_bench.shifts import get_shift
from msshift_bench.similarity import find_indicator

__all__ = ["draw_group_links"]

_COLUMNS = (
    "shifts", "indicator", "measure", "shift", "group", "system", "similarity", "rel_loss", "low",
    "high", "queries", "seeds",
)  # fmt: skip
_HEIGHT = 2.15
_BEYOND = 0.35
"""How far the axis of losses may reach beyond the points: bands of few groups are very wide."""


def draw_group_links(links: Sequence[GroupLink], looks: Mapping[str, Look]) -> ReportFigure:
    """Draw Rel Loss over one indicator, a panel per shift and one for all together.

    Args:
        links: the links of the indicator.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(links[0].indicator)
    rows = math.ceil(len(links) / 2)
    figure = blank_figure(_HEIGHT * rows + 0.35)
    axes = list(figure.subplots(rows, min(2, len(links)), squeeze=False).flat)
    for ax, link in zip(axes, links, strict=False):
        line = link.mean.line
        band = line.band()
        shown = link.verdict.shown
        ax.fill_between(
            band.similarity, 100 * band.low, 100 * band.high, color=LINE, alpha=0.45, lw=0, zorder=0
        )
        ax.plot(
            band.similarity, 100 * band.fitted, color=PALE_INK, lw=1.1, ls="-" if shown else "--"
        )
        for point in link.points:
            look = looks[point.system]
            if point.interval is not None:
                ends = [100 * end for end in point.interval]
                ax.plot([point.similarity] * 2, ends, color=look.colour, lw=0.7, alpha=0.5)
            ax.plot(
                point.similarity,
                100 * point.rel_loss,
                look.marker,
                color=look.colour,
                ms=4,
                markerfacecolor="white" if point.seeds == 1 else look.colour,
            )
        values = [100 * point.rel_loss for point in link.points]
        room = max(100 * _BEYOND * 0.5, _BEYOND * (max(values) - min(values)))
        ax.set_ylim(min(values) - room, max(values) + room)
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        fit = "" if line.r_squared is None else f", R² = {line.r_squared:.2f}"
        ax.set_title(f"{_name(link)}: n = {line.groups}{fit}")
        ax.set_xlabel(indicator.name)
        ax.set_ylabel("Rel Loss (%)")
        ax.locator_params(axis="x", nbins=4 if len(links) > 1 else 7)
        first = link.points[0].system
        named = [
            NamedPoint(point.similarity, 100 * point.rel_loss, point.group)
            for point in link.points
            if point.system == first
        ]
        name_points(ax, named, inches=1.6, wide=1.6 if len(links) > 1 else 4.0)
    for ax in axes[len(links) :]:
        ax.set_axis_off()
    systems = list(dict.fromkeys(point.system for link in links for point in link.points))
    share_legend(figure, {name: looks[name] for name in systems})
    verdicts = " ".join(f"{_name(link)} ({_test(link)}): {link.verdict.sentence}" for link in links)
    level = f"{links[0].mean.line.confidence:.0%}"
    data: list[list[Value]] = [
        [
            link.name,
            link.indicator,
            link.measure,
            point.shift,
            point.group,
            point.system,
            point.similarity,
            point.rel_loss,
            *(point.interval or (None, None)),
            point.queries,
            point.seeds,
        ]
        for link in links
        for point in link.points
    ]
    return ReportFigure(
        f"link-{indicator.name}",
        f"Rel Loss against {indicator.title}",
        f"Each mark is a system on a group; n is the number of groups, which are the witnesses, "
        f"however many queries and systems they have. Lines are the fit of the mean of the systems "
        f"with its {level} band, dashed where the data cannot show a link. {verdicts}",
        f"Scatters of Rel Loss over {indicator.title}, a panel per shift. {verdicts}",
        _COLUMNS,
        data,
        figure,
    )


def _name(link: GroupLink) -> str:
    return get_shift(link.shifts[0]).title if len(link.shifts) == 1 else "All shifts"


def _test(link: GroupLink) -> str:
    line = link.mean.line
    p_value = "no p, as all points lie on the line" if line.p is None else say_p(line.p)
    return f"{line.groups} groups, {p_value}"
