"""Charts of Rel Loss against the similarity of test queries to training queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from msshift_bench.analysis import Link, find_links, link_text
from msshift_bench.evaluation import Result
from msshift_bench.output import LINE, PALE_INK, shorten
from msshift_bench.report.drawing import (
    LETTERS,
    WIDTH,
    Chart,
    Picture,
    draw_points,
    limits_of,
    spread,
)
from msshift_bench.report.inputs import Inputs, Missing
from msshift_bench.shifts import get_shift, grouped
from msshift_bench.similarity import find_indicator
from msshift_bench.stats import Figures

_HEIGHT = 1.65
"""Height of a row of panels in inches."""

_BAND_POINTS = 41


def draw_links(inputs: Inputs) -> Chart | Missing:
    """Return a chart of Rel Loss against each similarity indicator, or a reason for none."""
    if not isinstance(inputs.links, Result):
        return inputs.links
    figures = inputs.links.figures
    links = find_links(figures)
    of_indicators = grouped((link.against, link) for link in links).values()
    losses = Figures([row for link in links for row in link.losses_in(figures)])
    limits = limits_of(losses, zero=True)
    pictures = [_draw_indicator(inputs, figures, group, limits) for group in of_indicators]
    widest = [group[-1].verdict(figures) for group in of_indicators]
    return Chart(
        "Is the loss larger on groups that are less similar to the training queries?",
        "Each mark is a system on a group; n is the number of groups. Lines are the fit to the "
        "mean of the systems, with its 95% band. A dashed line is not significant. "
        f"{' '.join(map(link_text, widest))}",
        pictures,
    )


def _draw_indicator(
    inputs: Inputs, figures: Figures, links: Sequence[Link], limits: tuple[float, float]
) -> Picture:
    """Draw Rel Loss against one indicator, with a panel for each shift and one for all shifts."""
    from matplotlib.figure import Figure as Drawing

    indicator, rows = find_indicator(links[0].against), math.ceil(len(links) / 2)
    drawing = Drawing(figsize=(WIDTH, _HEIGHT * rows + 0.5), layout="constrained")
    axes = iter(drawing.subplots(rows, min(2, len(links)), squeeze=False, sharey=True).flat)
    words, marks = [], dict[str, Any]()
    for link, ax in zip(links, axes, strict=False):
        name = get_shift(link.shifts[0]).title if len(link.shifts) == 1 else "All shifts"
        verdict, line = link.verdict(figures), link.line(link.tested)
        axis = np.linspace(min(link.similarities), max(link.similarities), _BAND_POINTS)
        low, high = line.interval(axis)
        style = "-" if verdict.mark else "--"
        ax.fill_between(axis, 100 * low, 100 * high, color=LINE, alpha=0.45, lw=0, zorder=0)
        ax.plot(axis, 100 * line.at(axis), color=PALE_INK, lw=1.1, ls=style)
        place_of = dict(zip(link.groups, link.similarities.tolist(), strict=True))
        for (system,), of_system in link.losses_in(figures).each("system"):
            look, is_hollow = inputs.looks[system], of_system[0].seeds == 1
            x = [place_of[row.shift, row.group] for row in of_system]
            y, reach = spread(of_system)
            bars = {"yerr": reach, "elinewidth": 0.7, "ecolor": (look.colour, 0.5)}
            mark = draw_points(ax, look, x, y, is_hollow=is_hollow, ms=4, **bars)
            marks[shorten(system, LETTERS)] = mark
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        fit = "" if line.r_squared is None else f", R² = {line.r_squared:.2f}"
        place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        ax.annotate(f"n = {line.groups}{fit}", (0.98, 0.99), fontsize=7, **place)
        ax.set(title=name, ylim=limits)
        ax.locator_params(axis="x", nbins=3 if len(links) > 1 else 7)
        in_order = ", ".join(group for _, group in sorted(place_of, key=place_of.__getitem__))
        groups = f"{line.groups} groups, from left to right {in_order}"
        words.append(f"{name} ({groups}): {link_text(verdict)}")
    for ax in axes:
        ax.set_axis_off()
    drawing.supxlabel(indicator.title, fontsize=8.5)
    drawing.supylabel("Rel Loss (%)", fontsize=8.5)
    above: dict[str, Any] = {"loc": "outside upper center", "frameon": False}
    drawing.legend([*marks.values()], [*marks], ncols=min(2, len(marks)), **above)
    losses = figures.where(figure="rel_loss", against="", system=tuple(links[-1].systems))
    return Picture(
        f"link-{indicator.name}",
        f"Scatters of Rel Loss over the {indicator.title}. {' '.join(words)}",
        [*figures.where(against=indicator.name, slice=links[0].slice), *losses],
        drawing,
    )
