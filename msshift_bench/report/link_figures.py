"""Losses against similarity: the groups of every shift, with a line, its band and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from msshift_bench.analysis import Link, say_link
from msshift_bench.output import LINE, PALE_INK, Look, say_p
from msshift_bench.report.named_points import NamedPoint, name_points
from msshift_bench.report.report_figure import ReportFigure, Value, blank_figure, share_legend
from msshift_bench.shifts import get_shift
from msshift_bench.similarity import find_indicator
from msshift_bench.stats import Figures

__all__ = ["draw_group_links"]

_COLUMNS = (
    "shifts", "indicator", "measure", "shift", "group", "system", "similarity", "rel_loss", "low",
    "high", "queries", "seeds",
)  # fmt: skip
_HEIGHT = 2.15
_BAND_POINTS = 41
_BEYOND = 0.35
"""How far the axis of losses may reach beyond the points: bands of few groups are very wide."""


def draw_group_links(
    figures: Figures, links: Sequence[Link], looks: Mapping[str, Look]
) -> ReportFigure:
    """Draw Rel Loss over one indicator, a panel per shift and one for all together.

    Args:
        figures: those of the analysis.
        links: the links of the indicator.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(links[0].against)
    rows = math.ceil(len(links) / 2)
    figure = blank_figure(_HEIGHT * rows + 0.35)
    axes = list(figure.subplots(rows, min(2, len(links)), squeeze=False).flat)
    verdicts = []
    data: list[list[Value]] = []
    for ax, link in zip(axes, links, strict=False):
        slope = figures.where(**link.about, system=link.tested)[0]
        line = link.line(link.tested)
        where = np.linspace(line.lowest, line.highest, _BAND_POINTS)
        low, high = line.interval(where)
        style = "-" if slope.star else "--"
        ax.fill_between(where, 100 * low, 100 * high, color=LINE, alpha=0.45, lw=0, zorder=0)
        ax.plot(where, 100 * line.at(where), color=PALE_INK, lw=1.1, ls=style)
        places = dict(zip(link.groups, link.similarities.tolist(), strict=True))
        points = link.losses_in(figures)
        for point in points:
            look, place = looks[point.system], places[point.shift, point.group]
            if point.interval is not None:
                ends = [100 * end for end in point.interval]
                ax.plot([place] * 2, ends, color=look.colour, lw=0.7, alpha=0.5)
            ax.plot(
                place,
                100 * (point.value or 0.0),
                look.marker,
                color=look.colour,
                ms=4,
                markerfacecolor="white" if point.seeds == 1 else look.colour,
            )
            data.append(
                [
                    link.shift, link.against, link.measure, point.shift, point.group, point.system,
                    place, point.value, point.low, point.high, point.queries, point.seeds,
                ]
            )  # fmt: skip
        values = [100 * (point.value or 0.0) for point in points]
        room = max(100 * _BEYOND * 0.5, _BEYOND * (max(values) - min(values)))
        ax.set_ylim(min(values) - room, max(values) + room)
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        fit = "" if line.r_squared is None else f", R² = {line.r_squared:.2f}"
        ax.set_title(f"{_name(link)}: n = {line.groups}{fit}")
        ax.set_xlabel(indicator.name)
        ax.set_ylabel("Rel Loss (%)")
        ax.locator_params(axis="x", nbins=4 if len(links) > 1 else 7)
        first = points.where(system=link.systems[0])
        named = [
            NamedPoint(places[point.shift, point.group], 100 * (point.value or 0.0), point.group)
            for point in first
        ]
        name_points(ax, named, inches=1.6, wide=1.6 if len(links) > 1 else 4.0)
        test = "no p, as all points lie on the line" if slope.p is None else say_p(slope.p)
        verdicts.append(f"{_name(link)} ({line.groups} groups, {test}): {say_link(slope)}")
    for ax in axes[len(links) :]:
        ax.set_axis_off()
    systems = dict.fromkeys(system for link in links for system in link.systems)
    share_legend(figure, {name: looks[name] for name in systems})
    verdict = " ".join(verdicts)
    return ReportFigure(
        f"link-{indicator.name}",
        f"Rel Loss against {indicator.title}",
        f"Each mark is a system on a group; n is the number of groups, which are the witnesses, "
        f"however many queries and systems they have. Lines are the fit of the mean of the systems "
        f"with its 95% band, dashed where the data cannot show a link. {verdict}",
        f"Scatters of Rel Loss over {indicator.title}, a panel per shift. {verdict}",
        _COLUMNS,
        data,
        figure,
    )


def _name(link: Link) -> str:
    return get_shift(link.shift).title if len(link.shifts) == 1 else "All shifts"
