"""Pictures with their words and numbers, and the parts that several of them are made of.

Systems are drawn in their colour and with their marker everywhere; a hollow mark rests on one seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.evaluation import WHOLE
from msshift_bench.output import LINE, PALE_INK, Look, csv_text, shorten
from msshift_bench.shifts import Shift
from msshift_bench.stats import Figure, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

WIDTH = 4.8
"""Inches: the width of the text in Springer's LNCS; on a phone it fills the screen."""

LETTERS = 30
"""Of a system's name in a picture."""

MIDDLE: dict[str, Any] = {"ha": "center", "va": "center"}
"""Where a text stands at its place."""

ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
"""Where a legend stands above its axes."""

_BEYOND = 50.0
"""Percentage points that the axis of losses may reach beyond the outermost one: two seeds make wide
intervals."""

Value = str | float | None
"""A field of the numbers behind a picture; `None` where it is not known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Picture:
    """A drawn picture.

    Attributes:
        name: the name of its files, unique in the report.
        title: one line.
        caption: what is drawn, with units and sample sizes, in full sentences.
        alternative: what the picture shows, for those who do not see it.
        rows: every number that is drawn, a row each.
        drawing: the picture itself.
        columns: the names of the fields of `rows`.
    """

    name: str
    title: str
    caption: str
    alternative: str
    rows: Sequence[Sequence[Value]]
    drawing: Drawing
    columns: tuple[str, ...] = Figure._fields

    def to_csv(self) -> str:
        """Return the numbers behind the picture as CSV with a header line."""
        return csv_text(self.columns, self.rows)


class NotDrawn(NamedTuple):
    """A picture that is left out, since its data are not there.

    Attributes:
        title: the picture's title.
        why: what is not there.
        remedy: what would bring it.
    """

    title: str
    why: str
    remedy: str


def blank_drawing(height: float) -> Drawing:
    """Return an empty drawing of the report's width.

    Args:
        height: in inches.
    """
    from matplotlib.figure import Figure as Drawing

    return Drawing(figsize=(WIDTH, height), layout="constrained")


def blank_axes(height: float) -> tuple[Drawing, Axes]:
    """Return an empty drawing of one panel; see `blank_drawing`."""
    drawing = blank_drawing(height)
    return drawing, drawing.subplots()


def file_name(kind: str, shift: str, system: str) -> str:
    """Return the name of a system's picture, which its files can have.

    A system's own name holds slashes where folders of one name are told apart.
    """
    return f"{kind}-{shift}-{system.replace('/', '-')}"


def count_seeds(seeds: int | None) -> str:
    """Return a number of seeds as captions say it."""
    return "one seed, so intervals count queries only" if seeds == 1 else f"{seeds} seeds"


def say_sizes(figures: Figures) -> str:
    """Return the number of test queries of each group, as captions say it.

    Args:
        figures: figures of one kind on one shift; those of the first system count.
    """
    first = figures.where(system=figures[0].system)
    return ", ".join(f"{row.group} {row.queries:,}" for row in first if row.group not in WHOLE)


def say_system(figures: Figures) -> str:
    """Return a system's name with its number of seeds, as legends say it, given its figures."""
    seeds = figures[0].seeds
    return (
        f"{shorten(figures[0].system, LETTERS)}, {'one seed' if seeds == 1 else f'{seeds} seeds'}"
    )


def spread(figures: Sequence[Figure], scale: float = 100) -> tuple[Floats, Floats]:
    """Return values for an axis, and how far their intervals reach to either side of them.

    Returns:
        The values, ``[figures]``, and the distances to the low and high ends, ``[2, figures]``; NaN
        where a figure is not known.
    """
    values = np.array([row.number for row in figures])
    ends = np.array([row.interval or (math.nan, math.nan) for row in figures])
    return scale * values, scale * np.abs(ends.T - values)


def in_rows(
    figures: Figures, looks: Mapping[str, Look], rows: Iterable[str], by: str = "group"
) -> Iterator[tuple[Look, Figures, list[float]]]:
    """Yield each system's look, its figures, and where they stand in rows of height 1.

    Args:
        figures: figures of systems.
        looks: system -> how it is drawn.
        rows: the name of each row.
        by: the column of figures that names their row.
    """
    names, systems = list(rows), list(figures.each("system"))
    for number, ((system,), of_system) in enumerate(systems):
        aside = beside(number, len(systems))
        yield looks[system], of_system, [names.index(getattr(row, by)) + aside for row in of_system]


def beside(number: int, count: int, room: float = 0.75) -> float:
    """Return how far from the middle of its row one of several systems stands."""
    return (number - (count - 1) / 2) * room / count


def draw_points(
    ax: Axes, look: Look, x: Any, y: Any, *, is_hollow: bool = False, **style: Any
) -> None:
    """Draw the points of a system, with intervals as `Axes.errorbar` takes them."""
    fill = "white" if is_hollow else look.colour
    ax.errorbar(x, y, fmt=look.marker, color=look.colour, markerfacecolor=fill, **style)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a picture, from top to bottom; each is 1 high."""
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)


def rule_between(ax: Axes, parts: Iterable[object]) -> None:
    """Draw a line between rows of different parts.

    Args:
        ax: where to draw.
        parts: the part of each row.
    """
    for row, (before, after) in enumerate(pairwise(parts)):
        if before != after:
            ax.axhline(row + 0.5, color=PALE_INK, lw=0.8, zorder=0)


def name_systems(drawing: Drawing, looks: Mapping[str, Look]) -> None:
    """Say above all panels of a picture which system looks how."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=look.colour, marker=look.marker, ms=5, ls="")
        for look in looks.values()
    ]
    names = [shorten(name, LETTERS) for name in looks]
    drawing.legend(
        marks, names, loc="outside upper center", ncols=min(3, len(names)), frameon=False
    )


def group_rows(shift: Shift, figures: Figures) -> dict[str, str]:
    """Return the rows of a picture by group: the groups of a shift, and the average over them."""
    return {group: group for group in (*shift.tested, *figures.where(group=WHOLE).names("group"))}


def draw_losses(
    ax: Axes,
    losses: Figures,
    looks: Mapping[str, Look],
    rows: Mapping[str, str],
    by: str = "group",
    *,
    legend: bool = True,
) -> None:
    """Draw a point with its interval for every system in every row.

    Args:
        ax: where to draw.
        losses: ``rel_loss`` of systems.
        looks: system -> how it is drawn.
        rows: the group or the slice of each row -> its title.
        by: what rows are: ``group`` or ``slice``.
        legend: whether to say above it which system looks how.
    """
    for look, of_system, y in in_rows(losses, looks, rows, by):
        x, reach = spread(of_system)
        style = {"ms": 4.5, "elinewidth": 1.4, "label": say_system(of_system)}
        draw_points(ax, look, x, y, xerr=reach, is_hollow=of_system[0].seeds == 1, **style)
        for loss, place in zip(of_system, zip(x, y, strict=True), strict=True):
            if loss.mark:
                ax.annotate(
                    loss.mark, place, (0, 1), textcoords="offset points", ha="center", fontsize=9
                )
    ax.set_xlim(_limits(losses))
    ax.axvline(0, color=PALE_INK, lw=0.8, zorder=0)
    for row in range(1, len(rows)):
        ax.axhline(row - 0.5, color=LINE, lw=0.6, zorder=0)
    name_rows(ax, list(rows.values()))
    if legend:
        ax.legend(ncols=min(2, len(losses.names("system"))), **ABOVE)


def _limits(losses: Figures) -> tuple[float, float]:
    """Return the ends of an axis that holds 0 and all losses, and cuts intervals that reach far."""
    values, reach = spread(losses)
    values = np.append(values, 0.0)
    ends = np.concatenate([values, values[:-1] - reach[0], values[:-1] + reach[1]])
    low = max(np.nanmin(ends), np.nanmin(values) - _BEYOND)
    high = min(np.nanmax(ends), np.nanmax(values) + _BEYOND)
    room = 0.04 * (high - low or 1)
    return low - room, high + room
