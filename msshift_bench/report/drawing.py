"""Pictures with their words and numbers, and the parts that several of them are made of.

Systems are drawn in their colour and with their marker everywhere; a hollow mark rests on one seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench.evaluation import ALL_QUERIES
from msshift_bench.output import INK, LINE, PALE_INK, SHADES, Look, csv_text, shorten
from msshift_bench.shifts import get_shift
from msshift_bench.stats import MEAN, Figure, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = [
    "LETTERS",
    "WHOLE",
    "GridCell",
    "NotDrawn",
    "Picture",
    "Value",
    "beside",
    "blank_drawing",
    "count_seeds",
    "draw_grid",
    "draw_losses",
    "draw_marks",
    "file_name",
    "limits",
    "name_points",
    "name_rows",
    "name_systems",
    "rule_between",
    "say_sizes",
]

WHOLE = (MEAN, ALL_QUERIES)
"""The groups of an average over groups."""

WIDTH = 4.8
"""Inches: the width of the text in Springer's LNCS; on a phone it fills the screen."""

LETTERS = 30
"""Of a system's name in a picture."""

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

    def __repr__(self) -> str:
        return f"<Picture: {self.name}, {len(self.rows)} rows>"

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


def beside(number: int, count: int, room: float = 0.75) -> float:
    """Return how far from the middle of a row of height 1 one of several systems stands in it."""
    return (number - (count - 1) / 2) * room / count


def draw_marks(
    ax: Axes, x: Any, y: Any, look: Look, *, is_hollow: bool = False, **style: Any
) -> None:
    """Draw the marks of a system, at one place or at several."""
    fill = "white" if is_hollow else look.colour
    ax.plot(x, y, look.marker, color=look.colour, markerfacecolor=fill, **style)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a picture, from top to bottom; each is 1 high."""
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)


def rule_between(ax: Axes, parts: Iterable[str]) -> None:
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
    columns = min(3, len(names))
    drawing.legend(marks, names, loc="outside upper center", ncols=columns, frameon=False)


def limits(
    values: Sequence[float], ends: Sequence[float], beyond: float, margin: float
) -> tuple[float, float]:
    """Return the ends of an axis that holds all values, and cuts intervals that reach far.

    Args:
        values: the values.
        ends: the ends of their intervals.
        beyond: how far the axis may reach beyond the values.
        margin: the room at either end, as a share of the axis.
    """
    low = max(min([*values, *ends]), min(values) - beyond)
    high = min(max([*values, *ends]), max(values) + beyond)
    room = margin * (high - low or 1)
    return low - room, high + room


def draw_losses(
    ax: Axes, losses: Figures, looks: Mapping[str, Look], *, legend: bool = True
) -> None:
    """Draw a point with its interval for every system on every group, and on the whole.

    Args:
        ax: where to draw.
        losses: ``rel_loss`` of the systems on one shift by one measure.
        looks: system -> how it is drawn.
        legend: whether to say above it which system looks how.
    """
    groups = [*get_shift(losses[0].shift).tested, *losses.where(group=WHOLE).names("group")]
    systems = list(losses.each("system"))
    values, ends = [0.0], []
    for number, ((system,), of_system) in enumerate(systems):
        look, seeds = looks[system], of_system[0].seeds
        style = {"is_hollow": seeds == 1, "markersize": 4.5}
        for loss in of_system:
            if loss.value is None:
                continue
            y, value = (
                groups.index(loss.group) + beside(number, len(systems), 0.8),
                100 * loss.value,
            )
            values.append(value)
            if loss.interval is not None:
                interval = [100 * end for end in loss.interval]
                ax.plot(interval, [y, y], color=look.colour, lw=1.4)
                ends += interval
            draw_marks(ax, value, y, look, **style)
            if loss.star and loss.group not in WHOLE:
                above = {"xytext": (0, 1), "textcoords": "offset points", "ha": "center"}
                ax.annotate("*", (value, y), fontsize=9, **above)
        label = f"{shorten(system, LETTERS)}, {'one seed' if seeds == 1 else f'{seeds} seeds'}"
        draw_marks(ax, [], [], look, linestyle="-", lw=1.4, label=label, **style)
    ax.set_xlim(limits(values, ends, _BEYOND, 0.04))
    ax.axvline(0, color=PALE_INK, lw=0.8, zorder=0)
    for row in range(1, len(groups) - 1):
        ax.axhline(row - 0.5, color=LINE, lw=0.6, zorder=0)
    ax.axhline(len(groups) - 1.5, color=PALE_INK, lw=0.8)
    name_rows(ax, groups)
    ax.set_xlabel("Rel Loss in %: right of 0, the model that never saw the group is worse")
    if legend:
        columns = min(2, len(systems))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False)


class GridCell(NamedTuple):
    """A figure of a grid.

    Attributes:
        text: the figure.
        shade: from 0, pale, to 1, dark.
        note: what stands below it, in smaller letters.
        is_framed: whether it has a frame and is bold.
    """

    text: str
    shade: float
    note: str = ""
    is_framed: bool = False


def draw_grid(
    ax: Axes, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[GridCell | None]]]
) -> None:
    """Draw a grid of figures, the darker the larger their shade.

    Args:
        ax: where to draw.
        columns: the columns' names.
        rows: the name of each, and a cell per column; `None` where there is no figure.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    shades = np.array(
        [[math.nan if cell is None else cell.shade for cell in cells] for _, cells in rows]
    )
    levels = np.round(np.clip(shades, 0, 1) * (len(SHADES) - 1))
    across, down = (np.arange(count + 1) - 0.5 for count in (len(columns), len(rows)))
    ends = {"vmin": -0.5, "vmax": len(SHADES) - 0.5}
    ax.pcolormesh(across, down, levels, cmap=ListedColormap(SHADES), **ends)
    for row, (_, cells) in enumerate(rows):
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            if cell.is_framed:
                corner = (column - 0.47, row - 0.45)
                # Above lines between rows, which would cut it.
                frame = Rectangle(corner, 0.94, 0.9, fill=False, lw=1.2, edgecolor=INK, zorder=2.5)
                ax.add_patch(frame).set_clip_on(False)
            y, weight = row - (0.15 if cell.note else 0), "bold" if cell.is_framed else "normal"
            middle = {"ha": "center", "va": "center"}
            ax.text(column, y, cell.text, fontsize=8, fontweight=weight, **middle)
            ax.text(column, row + 0.24, cell.note, fontsize=5.8, **middle)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.tick_params(length=0, labelsize=8)
    for side in ax.spines.values():
        side.set_visible(False)


_SIZE = 7.0
"""Points, of the letters of a name beside a point."""

_LETTER = 0.62
"""The width of a letter as a share of its size; few are wider."""

_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (1, 0), (-1, 0), (0, -1))
"""Where a name may stand. Beside a point, its intervals run straight up and across."""

_GAP = 6.5
"""Points between a mark's middle and its name."""

_BETWEEN = 4.0
"""Points between two names, at least."""


def name_points(
    ax: Axes, points: Sequence[tuple[float, float, str]], *, inches: float, wide: float = 0.0
) -> None:
    """Write names beside points, where they cover no mark and no name; else leave them out.

    Args:
        ax: the axes, with their limits set.
        points: x, y and the name of each.
        inches: the height of the axes.
        wide: their width, if it differs.
    """
    from matplotlib.transforms import Bbox

    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, up = (right - left) / (72 * (wide or inches)), (top - bottom) / (72 * inches)

    def box(x: float, y: float, half_width: float, half_height: float) -> Bbox:
        dx, dy = half_width * across, half_height * up
        return Bbox.from_extents(x - dx, y - dy, x + dx, y + dy)

    taken = [box(x, y, 4, 4) for x, y, _ in points]
    for x, y, name in points:
        half = _LETTER * _SIZE * len(name) / 2
        for side, level in _SIDES:
            place = x + side * (_GAP + half) * across, y + level * (_GAP + _SIZE / 4) * up
            letters = box(*place, half + _BETWEEN / 2, 0.55 * _SIZE)
            is_inside = left <= letters.x0 and letters.x1 <= right
            is_inside = is_inside and bottom <= letters.y0 and letters.y1 <= top
            if is_inside and not letters.count_overlaps(taken):
                taken.append(letters)
                ax.text(*place, name, ha="center", va="center", fontsize=_SIZE, color=INK)
                break
