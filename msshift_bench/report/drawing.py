"""Charts with their captions and numbers, and functions that several charts share.

A chart answers one question with pictures in one scale. A system has the same colour and marker in
all pictures. A white marker means that a figure has one seed.
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
"""Width of a picture in inches: the page has three in a row, and a phone shows one."""

LETTERS = 30
"""Maximum length of a system's name in a picture."""

ROW = 0.1
"""Inches that each system adds to the height of a group's row."""

MIDDLE: dict[str, Any] = {"ha": "center", "va": "center"}
"""Arguments that place the centre of a text at its coordinates."""

_ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
"""Arguments that place a legend above its panel."""

TITLE: dict[str, Any] = {"size": 10}
"""Font of a panel's title; a second font would double the time to write a PDF."""

_GROUP_LETTERS = 26
"""Maximum length of a group's description."""

_LEGEND_LETTERS = 50
"""Maximum length of a line of a legend."""

_BEYOND = 0.5
"""Maximum length of an axis beyond the values, on each side, divided by the axis's scale. The range
of the values applies if it is longer. Intervals of two seeds are wide, and may be cut."""

Value = str | float | None
"""A field of a picture's numbers; `None` if it is not known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Picture:
    """A drawn picture with its numbers.

    Attributes:
        name: the name of its files, unique in the report.
        alternative: a text that describes the picture, for screen readers.
        rows: the numbers of the picture, one row per drawn number.
        drawing: the matplotlib figure.
        columns: the names of the fields of `rows`.
        is_folded: whether the page hides the picture until the user expands it.
    """

    name: str
    alternative: str
    rows: Sequence[Sequence[Value]]
    drawing: Drawing
    columns: tuple[str, ...] = Figure._fields
    is_folded: bool = False

    def to_csv(self) -> str:
        """Return the numbers of the picture as CSV with a header line."""
        return csv_text(self.columns, self.rows)


class Chart(NamedTuple):
    """The answer to one question.

    Attributes:
        title: the question.
        caption: sentences that explain the pictures, with units and sample sizes.
        pictures: the pictures, in one scale.
    """

    title: str
    caption: str
    pictures: Sequence[Picture]


def blank_axes(height: float) -> tuple[Drawing, Axes]:
    """Return an empty figure of width `WIDTH`, and its only panel.

    Args:
        height: the height in inches.
    """
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(WIDTH, height), layout="constrained")
    return drawing, drawing.subplots()


def sentences(*parts: str) -> str:
    """Return the non-empty sentences, joined by spaces."""
    return " ".join(filter(None, parts))


def sizes_of(figures: Figures) -> str:
    """Return a sentence with the number of test queries of each group, shift by shift."""
    sizes = {
        shift: dict.fromkeys(
            f"{row.group} {row.queries:,}" for row in rows if row.group not in WHOLE
        )
        for (shift,), rows in figures.each("shift")
    }
    return f"Test queries: {'; '.join(', '.join(of_shift) for of_shift in sizes.values())}."


def named_with_seeds(figures: Figures) -> str:
    """Return a system's name for a legend and, if known, its number of seeds, given its figures."""
    seeds = figures[0].seeds
    name = shorten(figures[0].system, LETTERS)
    return name if seeds is None else f"{name}, {'one seed' if seeds == 1 else f'{seeds} seeds'}"


def spread(figures: Sequence[Figure], scale: float = 100) -> tuple[Floats, Floats]:
    """Return the values of figures for an axis, and the lengths of their error bars.

    Args:
        figures: the figures.
        scale: the factor of the axis.

    Returns:
        The values, ``[figures]``, and the distances to the low and high ends of their intervals,
        ``[2, figures]``; NaN if a figure or interval is not known.
    """
    values = np.array([row.number for row in figures])
    ends = np.array([row.interval or (math.nan, math.nan) for row in figures])
    return scale * values, scale * np.abs(ends.T - values)


def draw_points(
    ax: Axes, look: SystemStyle, x: Any, y: Any, *, is_hollow: bool = False, **style: Any
) -> ErrorbarContainer:
    """Draw the points of a system, and return them.

    Args:
        ax: the panel.
        look: the colour and marker of the system.
        x: the horizontal positions.
        y: the vertical positions.
        is_hollow: whether markers are white inside.
        **style: further arguments of `Axes.errorbar`, e.g. intervals.
    """
    inside = "white" if is_hollow else look.colour
    return ax.errorbar(x, y, fmt=look.marker, color=look.colour, markerfacecolor=inside, **style)


def rows_of(shift: Shift, figures: Figures) -> list[str]:
    """Return a shift's test sets, then the averages over groups that `figures` contains."""
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
        looks: system -> its colour and marker.
        limits: the ends of the axis.
        groups: group -> a description of its queries.
        ticks: figures that are drawn as vertical ticks in the same rows.
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
    # Name and description are separate texts: a page has other fonts, and aligns each at its end.
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
    """Return the ends of an axis, scaled, that contains all values and cuts very long intervals.

    Args:
        figures: the figures of a row of panels.
        scale: the factor of the axis.
        zero: whether the axis contains 0.
    """
    values, reach = spread(figures, scale)
    values = np.append(values, 0.0 if zero else values[:1])
    ends = np.concatenate([values, values[:-1] - reach[0], values[:-1] + reach[1]])
    least, most = np.nanmin(values), np.nanmax(values)
    beyond = max(_BEYOND * scale, most - least)
    low, high = max(np.nanmin(ends), least - beyond), min(np.nanmax(ends), most + beyond)
    room = 0.05 * (high - low or 1)
    return low - room, high + room
