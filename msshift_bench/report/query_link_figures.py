"""Losses of queries against their similarity to the training queries: Figures 4, 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msshift_bench.analysis import (
    ALL_GROUPS,
    BOX,
    MEAN_OF_SYSTEMS,
    say_link,
    what_intervals_count,
)
from msshift_bench.output import LINE, PALE_INK, Look, looks_of
from msshift_bench.report.report_figure import ReportFigure, Value, blank_figure, share_legend
from msshift_bench.shifts import get_shift
from msshift_bench.similarity import find_indicator
from msshift_bench.stats import Figure, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_box_plots", "draw_distributions", "draw_intervals"]

_HEIGHT = 1.75
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)))


def draw_distributions(figures: Figures) -> ReportFigure:
    """Draw how an indicator is distributed over each group's test queries, a panel per shift.

    Args:
        figures: those of the analysis that are against the indicator.
    """
    indicator = find_indicator(figures[0].against)
    similarities = figures.where(figure="similarity", measure="")
    shifts = list(figures.where(figure="distribution").each("shift"))
    figure = blank_figure(_HEIGHT * len(shifts) + 0.2)
    axes = figure.subplots(len(shifts), 1, squeeze=False)[:, 0]
    rows: list[list[Value]] = []
    means_by_shift = []
    for ax, ((shift,), columns) in zip(axes, shifts, strict=True):
        means = []
        looks = looks_of(columns.names("group"))
        for (group, look), style in zip(looks.items(), _STYLES, strict=False):
            of_group = columns.where(group=group)
            total = sum(column.queries or 0 for column in of_group)
            shares = [100 * (column.value or 0.0) for column in of_group]
            edges = [*(column.low for column in of_group), of_group[-1].high]
            label = f"{group} ({total:,})"
            ax.stairs(shares, edges, color=look.colour, ls=style, lw=1.3, label=label)
            mean = similarities.where(shift=shift, group=group)[0].value
            ax.axvline(mean, color=look.colour, ls=style, lw=0.7, alpha=0.8)
            means.append(f"{group} {mean:.3g} (n = {total:,})")
            rows += [
                [shift, indicator.name, group, column.low, column.high, column.queries]
                for column in of_group
            ]
        means_by_shift.append(f"{get_shift(shift).title}: {', '.join(means)}")
        ax.set_title(get_shift(shift).title)
        ax.set_ylabel("queries (%)")
        ax.locator_params(axis="x", nbins=6)
        ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[-1].set_xlabel(indicator.name)
    means_of_all = "; ".join(means_by_shift)
    return ReportFigure(
        f"distribution-{indicator.name}",
        f"Distribution of the {indicator.title}",
        f"The share of each group's test queries by their {indicator.title}, against the training "
        f"queries of the other groups; upright lines are means: {means_of_all}. The numbers of "
        f"test queries stand in brackets. Higher means {indicator.higher}.",
        f"Step curves, one per group. Means: {means_of_all}.",
        ("shift", "indicator", "group", "low", "high", "queries"),
        rows,
        figure,
    )


def draw_intervals(figures: Figures, looks: Mapping[str, Look]) -> ReportFigure:
    """Draw Rel Loss in intervals of an indicator with their intervals, a panel per shift.

    Args:
        figures: those of the analysis that are against the indicator.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(figures[0].against)
    losses = figures.where(figure="rel_loss")
    shifts = list(losses.each("shift"))
    figure = blank_figure((_HEIGHT + 0.2) * len(shifts) + 0.35)
    axes = figure.subplots(len(shifts), 1, squeeze=False)[:, 0]
    rows: list[list[Value]] = []
    counted, verdicts = [], []
    for ax, ((shift,), of_shift) in zip(axes, shifts, strict=True):
        parts = _parts(figures, shift)
        systems = of_shift.names("system")
        for number, system in enumerate(systems):
            look = looks[system]
            step = 0.5 * (number - (len(systems) - 1) / 2) / len(systems)
            places, values = [], []
            for place, loss in enumerate(of_shift.where(system=system)):
                rows.append(
                    [*_part_of(loss, parts[place]), loss.value, loss.low, loss.high],
                )
                if loss.value is None:
                    continue
                places.append(place + step)
                values.append(100 * loss.value)
                if loss.interval is not None:
                    ends = [100 * end for end in loss.interval]
                    ax.plot([place + step] * 2, ends, color=look.colour, lw=1.1, alpha=0.6)
            ax.plot(places, values, look.marker, color=look.colour, ms=4, ls="-", lw=0.8)
        _name_parts(ax, parts)
        ax.axhline(0, color=PALE_INK, lw=0.7, zorder=0)
        ax.set_title(f"{get_shift(shift).title}: n = {sum(part.queries or 0 for part in parts):,}")
        ax.set_ylabel("Rel Loss (%)")
        numbers = ", ".join(f"{part.queries:,}" for part in parts)
        counted.append(f"{get_shift(shift).title} {numbers}")
        verdicts.append(f"{get_shift(shift).title}: {_verdict(figures, shift, systems)}")
    axes[-1].set_xlabel(indicator.name)
    share_legend(figure, {name: looks[name] for name in losses.names("system")})
    verdict, counts = " ".join(verdicts), what_intervals_count(losses)
    return ReportFigure(
        f"intervals-{indicator.name}",
        f"Rel Loss by intervals of the {indicator.title}",
        f"Rel Loss of the test queries in each interval, with 95% intervals ({counts}). Test "
        f"queries per interval: {'; '.join(counted)}. {verdict}",
        f"Lines with intervals over intervals, a panel per shift. {verdict}",
        (
            "shift", "indicator", "measure", "system", "low", "high", "queries", "rel_loss",
            "loss_low", "loss_high",
        ),
        rows,
        figure,
    )  # fmt: skip


def _parts(figures: Figures, shift: str) -> Figures:
    """Return the intervals of the indicator on a shift's queries, each with its ends."""
    return figures.where(figure="similarity", shift=shift, group=ALL_GROUPS)


def _part_of(figure: Figure, part: Figure) -> list[Value]:
    """Return the columns that every table of intervals begins with."""
    return [
        figure.shift, figure.against, figure.measure, figure.system, part.low, part.high,
        part.queries,
    ]  # fmt: skip


def _name_parts(ax: Axes, parts: Figures) -> None:
    names = [f"{part.low:.2g}\nto {part.high:.2g}" for part in parts]
    ax.set_xticks(range(len(parts)), names, fontsize=6.5)


def _verdict(figures: Figures, shift: str, systems: Sequence[str]) -> str:
    tested = MEAN_OF_SYSTEMS if len(systems) > 1 else systems[0]
    slope = figures.first(figure="slope_inside_groups", shift=shift, system=tested)
    if slope is None:
        slope = _parts(figures, shift)[0]._replace(figure="slope_inside_groups")
    return say_link(slope)


def draw_box_plots(figures: Figures, looks: Mapping[str, Look]) -> ReportFigure:
    """Draw what single queries lose in intervals of an indicator, a panel per shift.

    Args:
        figures: those of the analysis that are against the indicator, of one measure.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(figures[0].against)
    boxes = figures.where(figure=(*BOX, "beyond"))
    shifts = list(boxes.each("shift"))
    figure = blank_figure((_HEIGHT + 0.2) * len(shifts) + 0.35)
    axes = figure.subplots(len(shifts), 1, squeeze=False)[:, 0]
    rows: list[list[Value]] = []
    for ax, ((shift,), of_shift) in zip(axes, shifts, strict=True):
        parts = _parts(figures, shift)
        systems = of_shift.names("system")
        width = 0.7 / len(systems)
        for number, system in enumerate(systems):
            look = looks[system]
            of_parts = of_shift.where(system=system).each("slice")
            for place, (part, (_, box)) in enumerate(zip(parts, of_parts, strict=True)):
                x = place + (number - (len(systems) - 1) / 2) * width
                values = [row.value or 0.0 for row in box]
                low, first, median, third, high, mean = (100 * value for value in values[:6])
                ax.bar(
                    x,
                    third - first,
                    0.8 * width,
                    first,
                    facecolor="white",
                    edgecolor=look.colour,
                    lw=0.9,
                )
                for start, stop in ((low, first), (third, high)):
                    ax.plot([x, x], [start, stop], color=look.colour, lw=0.9)
                side = 0.4 * width
                ax.plot([x - side, x + side], [median] * 2, color=look.colour, lw=2)
                ax.plot(x, mean, look.marker, color=look.colour, ms=3)
                rows.append([*_part_of(box[0], part), *values])
        _name_parts(ax, parts)
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        ax.set_title(f"{get_shift(shift).title}: n = {sum(part.queries or 0 for part in parts):,}")
        ax.set_ylabel("loss (% of Avg In)")
    axes[-1].set_xlabel(indicator.name)
    share_legend(figure, {name: looks[name] for name in boxes.names("system")})
    measure = boxes[0].measure
    return ReportFigure(
        f"boxes-{indicator.name}",
        f"Losses of single queries by the {indicator.title}",
        f"What single test queries lose in {measure}, in per cent of their group's Avg In. Boxes "
        "reach from the first to the third quartile, with the median as a thick line and the mean "
        "as a mark; whiskers reach 1.5 boxes at most, and queries beyond them are not drawn. n is "
        f"the number of test queries, in {len(_parts(figures, boxes[0].shift))} intervals.",
        f"Box plots of the losses of single queries in {measure}, a panel per shift and a box per "
        "interval and system; medians and means are in the table of numbers.",
        (
            "shift", "indicator", "measure", "system", "low", "high", "queries", *BOX, "beyond",
        ),
        rows,
        figure,
    )  # fmt: skip
