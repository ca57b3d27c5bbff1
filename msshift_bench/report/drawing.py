"""Charts with their words and numbers, and the parts that several of them share.

A chart answers one question with pictures that share one scale. Systems have the same colour and
marker in all pictures; a white marker rests on one seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.evaluation import WHOLE
from msshift_bench.output import LINE, PALE_INK, SystemStyle, csv_text, shorten
from msshift_bench.shifts import Shift
from msshift_bench.stats import Figure, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure as Drawing

WIDTH = 4.0
"""Inches: three pictures fill a row of the page, and one fills a phone."""

LETTERS = 30
"""Of a system's name in a picture."""

ROW = 0.1
"""Inches that each system adds to the height of a group's row."""

MIDDLE: dict[str, Any] = {"ha": "center", "va": "center"}
"""Places the centre of a text at its coordinates."""

_ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
"""The place of a legend above its panel."""

TITLE: dict[str, Any] = {"size": 10}
"""The font of a panel's title; a second font would double the time that a PDF takes."""

_GROUP_LETTERS = 26
"""Of a group's description."""

_LEGEND_LETTERS = 50
"""Of a line of a legend."""

_BEYOND = 0.5
"""The length of the part of an axis that shows only intervals, times its scale; the range of the
values if that is longer. Two seeds make wide intervals."""

Value = str | float | None
"""A field of the numbers behind a picture; `None` where it is not known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Picture:
    """A drawn picture.

    Attributes:
        name: the name of its files, unique in the report.
        alternative: the picture in words, for readers who do not see it.
        rows: every number that is drawn, a row each.
        drawing: the picture itself.
        columns: the names of the fields of `rows`.
        is_folded: whether the page shows it only on request.
    """

    name: str
    alternative: str
    rows: Sequence[Sequence[Value]]
    drawing: Drawing
    columns: tuple[str, ...] = Figure._fields
    is_folded: bool = False

    def to_csv(self) -> str:
        """Return the numbers behind the picture as CSV with a header line."""
        return csv_text(self.columns, self.rows)


class Chart(NamedTuple):
    """The answer to one question.

    Attributes:
        title: the question.
        caption: how to read the pictures, with units and sample sizes, in full sentences.
        pictures: pictures with the same scale, in their order.
    """

    title: str
    caption: str
    pictures: Sequence[Picture]


def blank_axes(height: float) -> tuple[Drawing, Axes]:
    """Return an empty drawing of the report's width, and its only panel.

    Args:
        height: in inches.
    """
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(WIDTH, height), layout="constrained")
    return drawing, drawing.subplots()


def sentences(*parts: str) -> str:
    """Return the sentences that are not empty, joined."""
    return " ".join(filter(None, parts))


def sizes_of(figures: Figures) -> str:
    """Return the number of test queries of each group in words, shift by shift."""
    sizes = {
        shift: dict.fromkeys(
            f"{row.group} {row.queries:,}" for row in rows if row.group not in WHOLE
        )
        for (shift,), rows in figures.each("shift")
    }
    return f"Test queries: {'; '.join(', '.join(of_shift) for of_shift in sizes.values())}."


def named_with_seeds(figures: Figures) -> str:
    """Return a system's name and number of seeds for a legend."""
    seeds = figures[0].seeds
    name = shorten(figures[0].system, LETTERS)
    return name if seeds is None else f"{name}, {'one seed' if seeds == 1 else f'{seeds} seeds'}"


def spread(figures: Sequence[Figure], scale: float = 100) -> tuple[Floats, Floats]:
    """Return values for an axis, and the distances from them to the ends of their intervals.

    Returns:
        The values, ``[figures]``, and the distances to the low and high ends, ``[2, figures]``; NaN
        where a figure is not known.
    """
    values = np.array([row.number for row in figures])
    ends = np.array([row.interval or (math.nan, math.nan) for row in figures])
    return scale * values, scale * np.abs(ends.T - values)


def draw_points(
    ax: Axes, look: SystemStyle, x: Any, y: Any, *, is_hollow: bool = False, **style: Any
) -> ErrorbarContainer:
    """Draw the points of a system, with intervals as `Axes.errorbar` takes them; return them."""
    inside = "white" if is_hollow else look.colour
    return ax.errorbar(x, y, fmt=look.marker, color=look.colour, markerfacecolor=inside, **style)


def rows_of(shift: Shift, figures: Figures) -> list[str]:
    """Return the groups of a shift, then the averages over groups that figures have."""
    return [*shift.tested, *figures.where(group=WHOLE).names("group")]


def draw_groups(
    ax: Axes,
    rows: Sequence[str],
    figures: Figures,
    looks: Mapping[str, SystemStyle],
    *,
    limits: tuple[float, float],
    groups: Mapping[str, str],
    ticks: Sequence[Figure] = (),
    scale: float = 100,
    title: str = "",
) -> None:
    """Draw a point with its interval for every system in the row of every group.

    Args:
        ax: the panel.
        rows: see `rows_of`.
        figures: one figure for each system and group.
        looks: system -> how it is drawn.
        limits: the ends of the axis.
        groups: group -> a description of its queries.
        ticks: figures that are drawn as upright ticks in the same rows.
        scale: the factor of the axis.
        title: the title of the panel.
    """
    systems = list(figures.each("system"))
    for number, ((system,), of_system) in enumerate(systems):
        look, aside = looks[system], (number - (len(systems) - 1) / 2) * 0.72 / len(systems)
        x, reach = spread(of_system, scale)
        y = [rows.index(row.group) + aside for row in of_system]
        style = {"ms": 4.5, "elinewidth": 1.4, "label": named_with_seeds(of_system)}
        draw_points(ax, look, x, y, xerr=reach, is_hollow=of_system[0].seeds == 1, **style)
        of_ticks = Figures(ticks).where(system=system)
        places = [rows.index(row.group) + aside for row in of_ticks]
        ax.plot(spread(of_ticks, scale)[0], places, "|", color=look.colour, ms=9, mew=1.8)
        for row, place in zip(of_system, zip(x, y, strict=True), strict=True):
            if row.mark:
                ax.annotate(row.mark, place, (4, 1), textcoords="offset points", fontsize=7.5)
    for below in range(1, len(rows)):
        is_average = rows[below] in WHOLE
        ax.axhline(below - 0.5, color=PALE_INK if is_average else LINE, lw=0.7, zorder=0)
    ax.axvline(0, color=PALE_INK, lw=0.8, zorder=0)
    ax.set(xlim=limits, ylim=(len(rows) - 0.45, -0.55))
    # Each line is a text of its own: a page has other letters, and aligns each text at its end.
    about = ["" if groups.get(row) == row else groups.get(row, "") for row in rows]
    ax.set_yticks([place - 0.17 * bool(text) for place, text in enumerate(about)], rows)
    ax.set_yticks(
        np.arange(len(rows)) + 0.2, [shorten(text, _GROUP_LETTERS) for text in about], minor=True
    )
    ax.tick_params(axis="y", which="both", length=0)
    ax.tick_params(axis="y", which="minor", labelsize=7, labelcolor=PALE_INK)
    longest = max(len(named_with_seeds(of_system)) for _, of_system in systems)
    columns = max(1, min(len(systems), _LEGEND_LETTERS // (longest + 6)))
    ax.legend(title=title, title_fontproperties=TITLE, ncols=columns, **_ABOVE)


def limits_of(figures: Sequence[Figure], scale: float = 100, *, zero: bool) -> tuple[float, float]:
    """Return the ends of an axis that holds all values, and cuts intervals that reach far.

    Args:
        figures: what is drawn in a row of panels.
        scale: the factor of the axis.
        zero: whether the axis holds 0.
    """
    values, reach = spread(figures, scale)
    values = np.append(values, 0.0 if zero else values[:1])
    ends = np.concatenate([values, values[:-1] - reach[0], values[:-1] + reach[1]])
    least, most = np.nanmin(values), np.nanmax(values)
    beyond = max(_BEYOND * scale, most - least)
    low, high = max(np.nanmin(ends), least - beyond), min(np.nanmax(ends), most + beyond)
    room = 0.05 * (high - low or 1)
    return low - room, high + room
