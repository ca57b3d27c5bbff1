"""What several pictures are made of: points with intervals, and grids of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msshift_bench.output import INK, LINE, PALE_INK, SHADES, Look, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from msshift_bench.evaluation.evaluator import SystemResult
    from msshift_bench.stats import GroupLoss, ShiftLoss

__all__ = ["MOST_LETTERS", "GridCell", "draw_grid", "draw_losses"]

MOST_LETTERS = 34
"""Of a system's name in a picture."""

_BEYOND = 0.5
"""How far the axis of losses may reach beyond the outermost one: two seeds make wide intervals."""


class GridCell(NamedTuple):
    """A figure of a grid.

    Attributes:
        text: the figure.
        shade: from 0, pale, to 1, dark.
        note: what stands below it, in smaller letters.
        framed: whether it has a frame and is bold.
    """

    text: str
    shade: float
    note: str = ""
    framed: bool = False


def draw_losses(
    ax: Axes,
    losses: Sequence[tuple[SystemResult, ShiftLoss]],
    looks: Mapping[str, Look],
    *,
    legend: bool = True,
) -> None:
    """Draw a point with its interval for every system on every group, and on the whole.

    Args:
        ax: where to draw.
        losses: the systems of one shift with their losses.
        looks: system -> how it is drawn.
        legend: whether to say above it which system looks how.
    """
    groups = list(losses[0][0].shift.tested)
    whole = "all queries" if losses[0][1].average == "pooled" else "mean"
    step = 0.8 / len(losses)
    ends: list[float] = [0.0]
    reach: list[float] = []
    for number, (result, loss) in enumerate(losses):
        look = looks[result.system]
        one_seed = loss.seeds == 1
        places: list[tuple[int, GroupLoss | ShiftLoss | None, bool]] = [
            *((n, loss.groups.get(g), loss.is_significant(g)) for n, g in enumerate(groups)),
            (len(groups), loss, False),
        ]
        for row, one, starred in places:
            if one is None or one.rel_loss is None:
                continue
            at = row + (number - (len(losses) - 1) / 2) * step
            value = 100 * one.rel_loss
            ends.append(value)
            interval = one.intervals.rel_loss if one.intervals is not None else None
            if interval is not None:
                ax.plot([100 * end for end in interval], [at, at], color=look.colour, lw=1.4)
                reach += [100 * end for end in interval]
            ax.plot(
                value,
                at,
                look.marker,
                color=look.colour,
                markerfacecolor="white" if one_seed else look.colour,
                markersize=4.5,
            )
            if starred:
                ax.annotate(
                    "*", (value, at), (0, 1), textcoords="offset points", ha="center", fontsize=9
                )
        ax.plot(
            [],
            [],
            look.marker,
            color=look.colour,
            markerfacecolor="white" if one_seed else look.colour,
            markersize=4.5,
            linestyle="-",
            lw=1.4,
            label=shorten(result.system, MOST_LETTERS)
            + (", one seed" if one_seed else f", {loss.seeds} seeds"),
        )
    beyond = 100 * _BEYOND
    low = max(min(reach, default=0.0), min(ends) - beyond)
    high = min(max(reach, default=0.0), max(ends) + beyond)
    low, high = min(low, *ends), max(high, *ends)
    margin = 0.04 * (high - low or 1)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(len(groups) + 0.55, -0.55)
    ax.axvline(0, color=PALE_INK, lw=0.8, zorder=0)
    ax.axhline(len(groups) - 0.5, color=PALE_INK, lw=0.8)
    for row in range(1, len(groups)):
        ax.axhline(row - 0.5, color=LINE, lw=0.6, zorder=0)
    ax.set_yticks(range(len(groups) + 1), [*groups, whole])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("Rel Loss in %: right of 0, the model that never saw the group is worse")
    if legend:
        ax.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(2, len(losses)), frameon=False
        )


def draw_grid(
    ax: Axes, columns: Sequence[str], rows: Mapping[str, Sequence[GridCell | None]]
) -> None:
    """Draw a grid of figures, the darker the larger their shade.

    Args:
        ax: where to draw.
        columns: the columns' names.
        rows: name -> a cell per column; `None` where there is no figure.
    """
    from matplotlib.patches import Rectangle

    for row, cells in enumerate(rows.values()):
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            shade = SHADES[round(min(max(cell.shade, 0.0), 1.0) * (len(SHADES) - 1))]
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=shade, lw=0))
            if cell.framed:
                corner = (column - 0.47, row - 0.45)
                # Above lines between rows, which would cut it.
                frame = Rectangle(corner, 0.94, 0.9, fill=False, lw=1.2, edgecolor=INK, zorder=2.5)
                ax.add_patch(frame).set_clip_on(False)
            ax.text(
                column,
                row - (0.15 if cell.note else 0),
                cell.text,
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if cell.framed else "normal",
            )
            if cell.note:
                ax.text(column, row + 0.24, cell.note, ha="center", va="center", fontsize=5.8)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(length=0, labelsize=8)
    for side in ax.spines.values():
        side.set_visible(False)
