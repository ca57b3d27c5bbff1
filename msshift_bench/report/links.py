"""Is it distance: what is lost against how near the test queries lie to the training queries.

Groups are drawn with their line, its band and the verdict; single queries as Figures 4, 5 and 6 of
MS-Shift (ECIR 2023) draw them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from msshift_bench.analysis import ALL_GROUPS, BOX, Link, find_links, say_link
from msshift_bench.evaluation import what_counts
from msshift_bench.output import LINE, PALE_INK, Look, looks_of
from msshift_bench.report.drawing import (
    NotDrawn,
    Picture,
    beside,
    blank_drawing,
    draw_points,
    name_systems,
    spread,
)
from msshift_bench.report.inputs import KEEP_MODELS, MODEL_BASED, Inputs
from msshift_bench.shifts import get_shift
from msshift_bench.similarity import find_indicator
from msshift_bench.stats import Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from msshift_bench.evaluation import Result

_HEIGHT = 1.75
_GROUPS_HEIGHT = 2.15
_BAND_POINTS = 41
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)))

_BEYOND = 0.35
"""How far the axis of losses may reach beyond the points: bands of few groups are very wide."""


def link_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw losses against similarity: of groups by each indicator, then of single queries."""
    result = inputs.links
    if isinstance(result, NotDrawn):
        yield result
        return
    links = find_links(result.figures)
    indicators = list(dict.fromkeys(link.against for link in links))
    for name in indicators:
        yield _group_links(inputs, result.figures, [link for link in links if link.against == name])
    for name in result.figures.where(figure="distribution").names("against"):
        yield _distributions(result.figures.where(against=name, measure=""))
        yield _intervals(inputs, result, name)
        yield _box_plots(inputs, result, name)
    if MODEL_BASED not in indicators:
        yield NotDrawn(
            "Losses by the model-based similarity R",
            "no system kept the models of its bi-encoders, or their libraries are not installed",
            f"`{KEEP_MODELS}`, and the extra `neural` for the report",
        )


def _group_links(inputs: Inputs, figures: Figures, links: Sequence[Link]) -> Picture:
    """Draw Rel Loss over one indicator, a panel per shift and one for all together."""
    indicator = find_indicator(links[0].against)
    rows = math.ceil(len(links) / 2)
    drawing = blank_drawing(_GROUPS_HEIGHT * rows + 0.35)
    axes = list(drawing.subplots(rows, min(2, len(links)), squeeze=False).flat)
    verdicts = []
    for ax, link in zip(axes, links, strict=False):
        name = get_shift(link.shifts[0]).title if len(link.shifts) == 1 else "All shifts"
        verdict = link.verdict(figures)
        line = link.line(link.tested)
        where = np.linspace(min(line.similarities), max(line.similarities), _BAND_POINTS)
        low, high = line.interval(where)
        style = "-" if verdict.mark else "--"
        ax.fill_between(where, 100 * low, 100 * high, color=LINE, alpha=0.45, lw=0, zorder=0)
        ax.plot(where, 100 * line.at(where), color=PALE_INK, lw=1.1, ls=style)
        place_of = dict(zip(link.groups, link.similarities.tolist(), strict=True))
        losses = link.losses_in(figures)
        for (system,), of_system in losses.each("system"):
            look, is_hollow = inputs.looks[system], of_system[0].seeds == 1
            x = [place_of[row.shift, row.group] for row in of_system]
            y, reach = spread(of_system)
            bars = {"yerr": reach, "elinewidth": 0.7, "ecolor": (look.colour, 0.5)}
            draw_points(ax, look, x, y, is_hollow=is_hollow, ms=4, **bars)
        values, _ = spread(losses)
        room = max(100 * _BEYOND * 0.5, _BEYOND * float(np.ptp(values)))
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        fit = "" if line.r_squared is None else f", R² = {line.r_squared:.2f}"
        ax.set(
            title=f"{name}: n = {line.groups}{fit}",
            xlabel=indicator.name,
            ylabel="Rel Loss (%)",
            ylim=(values.min() - room, values.max() + room),
        )
        ax.locator_params(axis="x", nbins=4 if len(links) > 1 else 7)
        in_order = ", ".join(group for _, group in sorted(place_of, key=place_of.__getitem__))
        groups = f"{line.groups} groups, from left to right {in_order}"
        verdicts.append(f"{name} ({groups}): {say_link(verdict)}")
    for ax in axes[len(links) :]:
        ax.set_axis_off()
    systems = dict.fromkeys(system for link in links for system in link.systems)
    name_systems(drawing, {system: inputs.looks[system] for system in systems})
    losses = figures.where(figure="rel_loss", against="", system=tuple(systems))
    return Picture(
        f"link-{indicator.name}",
        f"Rel Loss against {indicator.title}",
        f"Each mark is a system on a group; n is the number of groups, which are the witnesses, "
        f"however many queries and systems they have. Lines are the fit of the mean of the systems "
        f"with its 95% band, dashed where the data cannot show a link. {' '.join(verdicts)}",
        f"Scatters of Rel Loss over {indicator.title}, a panel per shift. {' '.join(verdicts)}",
        [*figures.where(against=indicator.name, slice=links[0].slice), *losses],
        drawing,
    )


def _distributions(figures: Figures) -> Picture:
    """Draw how an indicator is distributed over each group's test queries, a panel per shift.

    Args:
        figures: the indicator's distribution and its mean on each group.
    """
    indicator = find_indicator(figures[0].against)
    shifts = list(figures.where(figure="distribution").each("shift"))
    drawing = blank_drawing(_HEIGHT * len(shifts) + 0.2)
    axes = drawing.subplots(len(shifts), 1, squeeze=False)[:, 0]
    means_of_all = []
    for ax, ((shift,), columns) in zip(axes, shifts, strict=True):
        means = []
        for (group, look), style in zip(
            looks_of(columns.names("group")).items(), _STYLES, strict=False
        ):
            of_group = columns.where(group=group)
            queries = sum(column.queries or 0 for column in of_group)
            edges = [*(column.low for column in of_group), of_group[-1].high]
            shown_as = {"color": look.colour, "ls": style}
            ax.stairs(
                spread(of_group)[0], edges, lw=1.3, label=f"{group} ({queries:,})", **shown_as
            )
            (mean,) = figures.where(figure="similarity", shift=shift, group=group)
            ax.axvline(mean.number, lw=0.7, alpha=0.8, **shown_as)
            means.append(f"{group} {mean.number:.3g} (n = {queries:,})")
        means_of_all.append(f"{get_shift(shift).title}: {', '.join(means)}")
        ax.set(title=get_shift(shift).title, ylabel="queries (%)")
        ax.locator_params(axis="x", nbins=6)
        ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[-1].set_xlabel(indicator.name)
    means_in_words = "; ".join(means_of_all)
    return Picture(
        f"distribution-{indicator.name}",
        f"Distribution of the {indicator.title}",
        f"The share of each group's test queries by their {indicator.title}, against the training "
        f"queries of the other groups; upright lines are means: {means_in_words}. The numbers of "
        f"test queries stand in brackets. Higher means {indicator.higher}.",
        f"Step curves, one per group. Means: {means_in_words}.",
        figures.where(figure=("distribution", "similarity")),
        drawing,
    )


def _draw_by_interval(
    inputs: Inputs,
    parts: Figures,
    figures: Figures,
    draw: Callable[[Axes, Figures, Look, int, int], None],
) -> Drawing:
    """Draw figures in intervals of an indicator, a panel per shift.

    Args:
        inputs: how systems look.
        parts: the intervals, each with its ends.
        figures: the figures in these intervals.
        draw: draws those of a system, given its look, its place, and the number of systems.
    """
    shifts = list(figures.each("shift"))
    drawing = blank_drawing((_HEIGHT + 0.2) * len(shifts) + 0.35)
    axes = drawing.subplots(len(shifts), 1, squeeze=False)[:, 0]
    for ax, ((shift,), of_shift) in zip(axes, shifts, strict=True):
        of_parts = parts.where(shift=shift)
        systems = list(of_shift.each("system"))
        for number, ((system,), of_system) in enumerate(systems):
            draw(ax, of_system, inputs.looks[system], number, len(systems))
        names = [f"{part.low:.2g}\nto {part.high:.2g}" for part in of_parts]
        ax.set_xticks(range(len(names)), names, fontsize=6.5)
        queries = sum(part.queries or 0 for part in of_parts)
        ax.set_title(f"{get_shift(shift).title}: n = {queries:,}")
    axes[-1].set_xlabel(parts[0].against)
    name_systems(drawing, {name: inputs.looks[name] for name in figures.names("system")})
    return drawing


def _intervals(inputs: Inputs, result: Result, name: str) -> Picture:
    """Draw Rel Loss in intervals of an indicator."""
    indicator = find_indicator(name)
    figures = result.figures.where(against=name, group=ALL_GROUPS)
    parts, losses = figures.where(figure="similarity"), figures.where(figure="rel_loss")

    def draw(ax: Axes, of_system: Figures, look: Look, number: int, count: int) -> None:
        y, reach = spread(of_system)
        x = np.arange(len(y)) + beside(number, count, 0.5)
        bars = (look.colour, 0.6)
        draw_points(ax, look, x, y, yerr=reach, ecolor=bars, elinewidth=1.1, ms=4, ls="-", lw=0.8)
        ax.axhline(0, color=PALE_INK, lw=0.7, zorder=0)
        ax.set_ylabel("Rel Loss (%)")

    sizes, verdicts = [], []
    for (shift,), of_shift in parts.each("shift"):
        title = get_shift(shift).title
        sizes.append(f"{title} {', '.join(f'{part.queries:,}' for part in of_shift)}")
        about = {"figure": "slope_inside_groups", "shift": shift, "against": name}
        about["measure"] = inputs.measure.name
        verdict = next(note.text for note in result.notes if note.about == about)
        verdicts.append(f"{title}: {verdict}")
    return Picture(
        f"intervals-{name}",
        f"Rel Loss by intervals of the {indicator.title}",
        "Rel Loss of the test queries in each interval, with 95% intervals "
        f"({what_counts(losses)}). Test queries per interval: {'; '.join(sizes)}. "
        f"{' '.join(verdicts)}",
        f"Lines with error bars over intervals, a panel per shift. {' '.join(verdicts)}",
        figures.where(figure=("similarity", "rel_loss")),
        _draw_by_interval(inputs, parts, losses, draw),
    )


def _box_plots(inputs: Inputs, result: Result, name: str) -> Picture:
    """Draw what single queries lose in intervals of an indicator."""
    indicator, figures = find_indicator(name), result.figures.where(against=name)
    parts = figures.where(figure="similarity", group=ALL_GROUPS)
    boxes = figures.where(figure=BOX)

    def draw(ax: Axes, of_system: Figures, look: Look, number: int, count: int) -> None:
        keys = ("whislo", "q1", "med", "q3", "whishi", "mean")
        stats = [
            {**dict(zip(keys, spread(box)[0], strict=True)), "fliers": []}
            for _, box in of_system.each("slice")
        ]
        line, mark = {"color": look.colour, "lw": 0.9}, {"marker": look.marker, "ms": 3}
        ax.bxp(
            stats,
            np.arange(len(stats)) + beside(number, count, 0.7),
            widths=0.8 * 0.7 / count,
            patch_artist=True,
            showmeans=True,
            showcaps=False,
            manage_ticks=False,
            boxprops={"facecolor": "white", "edgecolor": look.colour, "lw": 0.9},
            whiskerprops=line,
            medianprops={"color": look.colour, "lw": 2},
            meanprops={**mark, "mfc": look.colour, "mec": look.colour},
        )
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        ax.set_ylabel("loss (% of Avg In)")

    measure = boxes[0].measure
    intervals = len(parts.where(shift=parts[0].shift))
    return Picture(
        f"boxes-{indicator.name}",
        f"Losses of single queries by the {indicator.title}",
        f"What single test queries lose in {measure}, in per cent of their group's Avg In. Boxes "
        "reach from the first to the third quartile, with the median as a thick line and the mean "
        "as a mark; whiskers reach 1.5 boxes at most, and queries beyond them are not drawn. n is "
        f"the number of test queries, in {intervals} intervals.",
        f"Box plots of the losses of single queries in {measure}, a panel per shift and a box per "
        "interval and system; medians and means are in the table of numbers.",
        figures.where(figure=(*BOX, "beyond")),
        _draw_by_interval(inputs, parts, boxes, draw),
    )
