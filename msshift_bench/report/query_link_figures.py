"""Losses of queries against their similarity to the training queries: Figures 4, 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msshift_bench.analysis import Distribution, LossBin, QueryLink, what_bands_count
from msshift_bench.output import LINE, PALE_INK, Look, looks_of
from msshift_bench.report.report_figure import ReportFigure, Value, blank_figure, share_legend
from msshift_bench.shifts import get_shift
from msshift_bench.similarity import find_indicator

__all__ = ["draw_box_plots", "draw_distributions", "draw_intervals"]

_HEIGHT = 1.75
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)))


def draw_distributions(found: Sequence[Distribution]) -> ReportFigure:
    """Draw how an indicator is distributed over each group's test queries, a panel per shift.

    Args:
        found: the distributions of one indicator.
    """
    indicator = find_indicator(found[0].indicator)
    figure = blank_figure(_HEIGHT * len(found) + 0.2)
    rows: list[list[Value]] = []
    for ax, one in zip(figure.subplots(len(found), 1, squeeze=False)[:, 0], found, strict=True):
        for (group, look), style in zip(looks_of(one.counts).items(), _STYLES, strict=False):
            counts = one.counts[group]
            total = sum(counts) or 1
            shares = [100 * count / total for count in counts]
            ax.stairs(
                shares, one.edges, color=look.colour, ls=style, lw=1.3, label=f"{group} ({total:,})"
            )
            ax.axvline(one.means[group], color=look.colour, ls=style, lw=0.7, alpha=0.8)
            rows += [
                [one.shift, one.indicator, group, low, high, count]
                for low, high, count in zip(one.edges, one.edges[1:], counts, strict=False)
            ]
        ax.set_title(get_shift(one.shift).title)
        ax.set_ylabel("queries (%)")
        ax.locator_params(axis="x", nbins=6)
        ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        if one is found[-1]:
            ax.set_xlabel(indicator.name)
    means = "; ".join(
        f"{get_shift(one.shift).title}: "
        + ", ".join(
            f"{group} {mean:.3g} (n = {sum(one.counts[group]):,})"
            for group, mean in one.means.items()
        )
        for one in found
    )
    return ReportFigure(
        f"distribution-{indicator.name}",
        f"Distribution of the {indicator.title}",
        f"The share of each group's test queries by their {indicator.title}, against the training "
        f"queries of the other groups; upright lines are means: {means}. The numbers of test "
        f"queries stand in brackets. Higher means {indicator.higher}.",
        f"Step curves, one per group. Means: {means}.",
        ("shift", "indicator", "group", "low", "high", "queries"),
        rows,
        figure,
    )


def draw_intervals(links: Sequence[QueryLink], looks: Mapping[str, Look]) -> ReportFigure:
    """Draw Rel Loss in intervals of an indicator with bands, a panel per shift.

    Args:
        links: the links of one indicator.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(links[0].indicator)
    figure = blank_figure((_HEIGHT + 0.2) * len(links) + 0.35)
    rows: list[list[Value]] = []
    systems = [one.system for link in links for one in link.systems]
    for ax, link in zip(figure.subplots(len(links), 1, squeeze=False)[:, 0], links, strict=True):
        for number, one in enumerate(link.systems):
            look = looks[one.system]
            step = 0.5 * (number - (len(link.systems) - 1) / 2) / len(link.systems)
            places, values = [], []
            for place, part in enumerate(one.bins):
                rows.append(
                    [
                        *_bin_of(link, one.system, part),
                        part.rel_loss,
                        *(part.band or (None, None)),
                    ]
                )
                if part.rel_loss is None:
                    continue
                places.append(place + step)
                values.append(100 * part.rel_loss)
                if part.band is not None:
                    ends = [100 * end for end in part.band]
                    ax.plot([place + step] * 2, ends, color=look.colour, lw=1.1, alpha=0.6)
            ax.plot(places, values, look.marker, color=look.colour, ms=4, ls="-", lw=0.8)
        first = link.systems[0].bins
        names = [f"{part.low:.2g}\nto {part.high:.2g}" for part in first]
        ax.set_xticks(range(len(first)), names, fontsize=6.5)
        ax.axhline(0, color=PALE_INK, lw=0.7, zorder=0)
        ax.set_title(f"{get_shift(link.shift).title}: n = {sum(one.queries for one in first):,}")
        ax.set_ylabel("Rel Loss (%)")
        if link is links[-1]:
            ax.set_xlabel(indicator.name)
    share_legend(figure, {name: looks[name] for name in dict.fromkeys(systems)})
    verdicts = " ".join(f"{get_shift(link.shift).title}: {link.verdict.sentence}" for link in links)
    counts = "; ".join(
        f"{get_shift(link.shift).title} "
        + ", ".join(f"{part.queries:,}" for part in link.systems[0].bins)
        for link in links
    )
    return ReportFigure(
        f"intervals-{indicator.name}",
        f"Rel Loss by intervals of the {indicator.title}",
        f"Rel Loss of the test queries in each interval, with 95% bootstrap bands "
        f"({what_bands_count(links)}). Test queries per interval: {counts}. {verdicts}",
        f"Lines with bands over intervals, a panel per shift. {verdicts}",
        (
            "shift", "indicator", "measure", "system", "low", "high", "queries", "rel_loss",
            "band_low", "band_high",
        ),
        rows,
        figure,
    )  # fmt: skip


def _bin_of(link: QueryLink, system: str, part: LossBin) -> list[Value]:
    """Return the columns that every table of bins begins with."""
    return [
        link.shift, link.indicator, link.measure, system, part.low, part.high, part.queries,
    ]  # fmt: skip


def draw_box_plots(links: Sequence[QueryLink], looks: Mapping[str, Look]) -> ReportFigure:
    """Draw what single queries lose in intervals of an indicator, a panel per shift.

    Args:
        links: the links of one indicator and measure.
        looks: system -> how it is drawn.
    """
    indicator = find_indicator(links[0].indicator)
    figure = blank_figure((_HEIGHT + 0.2) * len(links) + 0.35)
    rows: list[list[Value]] = []
    systems = [one.system for link in links for one in link.systems]
    for ax, link in zip(figure.subplots(len(links), 1, squeeze=False)[:, 0], links, strict=True):
        width = 0.7 / len(link.systems)
        for number, one in enumerate(link.systems):
            look = looks[one.system]
            for place, part in enumerate(one.bins):
                box = part.box
                x = place + (number - (len(link.systems) - 1) / 2) * width
                ends = (box.low, box.first, box.median, box.third, box.high)
                low, first, median, third, high = (100 * end for end in ends)
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
                ax.plot(x, 100 * box.mean, look.marker, color=look.colour, ms=3)
                rows.append(
                    [
                        *_bin_of(link, one.system, part),
                        *ends,
                        box.mean,
                        box.beyond,
                    ]
                )
        bins = link.systems[0].bins
        names = [f"{part.low:.2g}\nto {part.high:.2g}" for part in bins]
        ax.set_xticks(range(len(bins)), names, fontsize=6.5)
        ax.axhline(0, color=LINE, lw=0.7, zorder=0)
        ax.set_title(f"{get_shift(link.shift).title}: n = {sum(one.queries for one in bins):,}")
        ax.set_ylabel("loss (% of Avg In)")
        if link is links[-1]:
            ax.set_xlabel(indicator.name)
    share_legend(figure, {name: looks[name] for name in dict.fromkeys(systems)})
    measure = links[0].measure
    return ReportFigure(
        f"boxes-{indicator.name}",
        f"Losses of single queries by the {indicator.title}",
        f"What single test queries lose in {measure}, in per cent of their group's Avg In. Boxes "
        "reach from the first to the third quartile, with the median as a thick line and the mean "
        "as a mark; whiskers reach 1.5 boxes at most, and queries beyond them are not drawn. n is "
        f"the number of test queries, in {len(links[0].systems[0].bins)} intervals.",
        f"Box plots of the losses of single queries in {measure}, a panel per shift and a box per "
        "interval and system; medians and means are in the table of numbers.",
        (
            "shift", "indicator", "measure", "system", "low", "high", "queries", "whisker_low",
            "first_quartile", "median", "third_quartile", "whisker_high", "mean", "beyond",
        ),
        rows,
        figure,
    )  # fmt: skip
