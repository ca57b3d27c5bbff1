"""A report as a picture: what every system loses on every group, and every model on every group.

It is drawn for a page 600 pixels wide. Colours are those of Okabe and Ito, which people who see
colours differently tell apart, and every system has a marker of its own beside its colour.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench.data import DataInfo
from msshift_bench.errors import UnknownNameError, require
from msshift_bench.evaluation.common_notes import data_notes
from msshift_bench.stats import SIGNIFICANT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from msshift_bench.evaluation.evaluator import SystemResult
    from msshift_bench.evaluation.measures import Measure
    from msshift_bench.stats import GroupLoss, ShiftLoss

__all__ = ["check_plot", "draw_results"]

_FORMATS = (".svg", ".png", ".pdf")
_WIDTH = 6.25
_PIXELS_PER_INCH = 192
"""Of a PNG: twice the 96 of a page, for screens that show four pixels in the place of one."""

_MOST_PIXELS = 60_000
"""Of a PNG's height; matplotlib draws no more than 65,535."""

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "msshift-bench",
    "text.parse_math": False,
}
"""Letters are outlines in SVG and whole fonts in PDF, so that they look alike everywhere."""

_ROW = 0.15
"""Inches of a system's loss on a group."""

_CELL = 0.26
_MOST_LETTERS = 34
_NOTE = 112
"""Letters of a line of the notes."""

_BEYOND = 0.5
"""How far the axis of losses may reach beyond the outermost one: two seeds make wide intervals."""


class _Look(NamedTuple):
    """How a system is drawn."""

    colour: str
    marker: str


def check_plot(path: str | Path) -> str:
    """Return the format of a plot, and check that it can be drawn here.

    Args:
        path: the file to write.

    Raises:
        UnknownNameError: if its name ends on no format.
        MissingExtraError: if matplotlib is not installed.
    """
    suffix = Path(path).suffix
    if suffix.lower() not in _FORMATS:
        raise UnknownNameError("ending of a plot's name", suffix, _FORMATS)
    require("matplotlib.figure", "plot", "a plot")
    return suffix.lower()[1:]


def draw_results(
    systems: Sequence[SystemResult], measures: Sequence[Measure], data: DataInfo, plot_format: str
) -> bytes:
    """Draw the losses of systems with their intervals, and the matrix of each, shift by shift.

    Args:
        systems: the results, by shift.
        measures: the measures, each with a drawing per shift.
        data: the data that the notes name.
        plot_format: ``svg``, ``png`` or ``pdf``.

    Returns:
        The file; equal results give equal bytes with the same matplotlib.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    shifts = [
        list(results) for _, results in groupby(systems, key=lambda result: result.shift.name)
    ]
    blocks = [(results, measure) for results in shifts for measure in measures]
    names = list(dict.fromkeys(result.system for result in systems))
    looks = {
        name: _Look(_COLOURS[n % len(_COLOURS)], _MARKERS[(n // len(_COLOURS) + n) % len(_MARKERS)])
        for n, name in enumerate(names)
    }
    notes = [line for note in _notes(systems, measures, data) for line in wrap(note, _NOTE)]
    heights = [sum(_heights(*block)) for block in blocks]
    of_notes = 0.16 * len(notes) + 0.1
    with style.context(["default", _STYLE]):
        figure = Figure(figsize=(_WIDTH, sum(heights) + of_notes), layout="constrained")
        every = figure.subfigures(
            len(blocks) + 1, 1, squeeze=False, height_ratios=[*heights, of_notes]
        )
        *parts, last = every[:, 0]
        for part, (results, measure) in zip(parts, blocks, strict=True):
            _draw_block(part, results, measure, looks)
        last.text(0.015, 0.98, "\n".join(notes), va="top", fontsize=7.5, color="#444444")
        out = io.BytesIO()
        undated: dict[str, Any] = {
            "svg": {"Date": None, "Title": "Rel Loss and matrices"},
            "pdf": {"CreationDate": None},
            "png": {},
        }
        density = min(_PIXELS_PER_INCH, _MOST_PIXELS / figure.get_figheight())
        figure.savefig(out, format=plot_format, dpi=density, metadata=undated[plot_format])
    return out.getvalue()


def _losses(
    results: Sequence[SystemResult], measure: Measure
) -> list[tuple[SystemResult, ShiftLoss]]:
    found = [(result, result.measures[measure.name].loss) for result in results]
    return [(result, loss) for result, loss in found if loss is not None]


def _heights(results: Sequence[SystemResult], measure: Measure) -> tuple[float, float]:
    """Return the inches of the losses, with the heading, and of the matrices below them."""
    losses = len(_losses(results, measure))
    groups = len(results[0].shift.groups)
    of_losses = (groups + 1) * (losses * _ROW + 0.1) + 0.75 + 0.2 * math.ceil(losses / 2)
    rows = [max(map(_models, pair)) for pair in _in_pairs(results)]
    return (of_losses if losses else 0.4), sum(_CELL * count + 0.55 for count in rows)


def _models(result: SystemResult) -> int:
    return len(result.shift.groups) if result.scores.trained_per_group else 1


def _in_pairs(results: Sequence[SystemResult]) -> Iterator[Sequence[SystemResult]]:
    """Yield the systems whose matrices stand side by side: those of one row first, then others."""
    for _, alike in groupby(sorted(results, key=_models), key=_models):
        ordered = list(alike)
        yield from (ordered[start : start + 2] for start in range(0, len(ordered), 2))


def _draw_block(
    part: SubFigure, results: Sequence[SystemResult], measure: Measure, looks: dict[str, _Look]
) -> None:
    shift = results[0].shift
    scale = " x 100" if measure.percent else ""
    part.suptitle(
        f"{shift.title} ({shift.name}), {measure.mean_name}{scale}", fontsize=10, fontweight="bold"
    )
    losses = _losses(results, measure)
    below: SubFigure | Figure = part
    if losses:
        halves = part.subfigures(2, 1, squeeze=False, height_ratios=_heights(results, measure))
        above, below = halves[:, 0]
        _draw_losses(above.subplots(), losses, looks)
    pairs = list(_in_pairs(results))
    ratios = [_CELL * max(map(_models, pair)) + 0.55 for pair in pairs]
    grid = below.subplots(len(pairs), 2, squeeze=False, height_ratios=ratios)
    means = [cell.mean for result in results for cell in result.measures[measure.name].cells]
    for axes, pair in zip(grid, pairs, strict=True):
        for ax, result in zip(axes, pair, strict=False):
            _draw_matrix(ax, result, measure, (min(means), max(means)))
        for ax in axes[len(pair) :]:
            ax.set_axis_off()


def _draw_losses(
    ax: Axes, losses: Sequence[tuple[SystemResult, ShiftLoss]], looks: dict[str, _Look]
) -> None:
    """Draw a point with its interval for every system on every group, and on the whole."""
    groups = list(losses[0][0].shift.groups)
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
            label=_short(result.system) + (", one seed" if one_seed else f", {loss.seeds} seeds"),
        )
    beyond = 100 * _BEYOND
    low = max(min(reach, default=0.0), min(ends) - beyond)
    high = min(max(reach, default=0.0), max(ends) + beyond)
    low, high = min(low, *ends), max(high, *ends)
    margin = 0.04 * (high - low or 1)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(len(groups) + 0.55, -0.55)
    ax.axvline(0, color="#999999", lw=0.8, zorder=0)
    ax.axhline(len(groups) - 0.5, color="#999999", lw=0.8)
    for row in range(1, len(groups)):
        ax.axhline(row - 0.5, color="#dddddd", lw=0.6, zorder=0)
    ax.set_yticks(range(len(groups) + 1), [*groups, whole])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("Rel Loss in %: right of 0, the model that never saw the group is worse")
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(2, len(losses)), frameon=False
    )


def _draw_matrix(
    ax: Axes, result: SystemResult, measure: Measure, limits: tuple[float, float]
) -> None:
    """Draw a system's means: a row per model, a column per evaluated group."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    groups = list(result.shift.groups)
    trained = result.scores.trained_per_group
    models: list[str | None] = [*groups] if trained else [None]
    found = result.measures[measure.name]
    values = [[found.mean(group, model) for group in groups] for model in models]
    # Only the lighter colours, on which black figures can be read.
    blues = colormaps["Blues"](np.linspace(0.05, 0.6, 64))
    light = LinearSegmentedColormap.from_list("light", blues)
    filled = np.array([[np.nan if one is None else one for one in row] for row in values])
    low, high = limits
    ax.imshow(filled, cmap=light, vmin=low, vmax=high if high > low else low + 1, aspect="auto")
    for row, (model, of_model) in enumerate(zip(models, values, strict=True)):
        for column, (group, value) in enumerate(zip(groups, of_model, strict=True)):
            unseen = model == group
            ax.text(
                column,
                row,
                measure.show(value),
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if unseen else "normal",
            )
            if unseen:
                corner = (column - 0.48, row - 0.46)
                ax.add_patch(Rectangle(corner, 0.96, 0.92, fill=False, lw=1.2))
    ax.set_title(_short(result.system) + (" (partial)" if result.partial else ""))
    ax.set_xticks(range(len(groups)), groups)
    ax.set_yticks(range(len(models)), [f"without {model}" if model else "all" for model in models])
    ax.tick_params(length=0, labelsize=8)
    for side in ax.spines.values():
        side.set_visible(False)


def _short(name: str) -> str:
    """Return a name that fits beside another, its middle left out if it is too long."""
    if len(name) <= _MOST_LETTERS:
        return name
    half = _MOST_LETTERS // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def _notes(
    systems: Sequence[SystemResult], measures: Sequence[Measure], data: DataInfo
) -> list[str]:
    losses = [
        loss
        for result in systems
        for measure in measures
        if (loss := result.measures[measure.name].loss) is not None
    ]
    lines = []
    if losses:
        percent = f"{losses[0].intervals.confidence:.0%}" if losses[0].intervals else ""
        lines.append(
            f"Lines: {percent} intervals, of queries and seeds; with one seed (white markers) of "
            "queries only. The axis cuts what reaches far beyond all losses."
        )
        if any(loss.seeds > 1 for loss in losses):
            lines.append(
                f"*: significant (p at most {SIGNIFICANT}, {losses[0].correction}-corrected over "
                "the groups), with two seeds or more."
            )
    if any(result.scores.trained_per_group for result in systems):
        lines.append(
            "Matrices: rows are models, columns the group whose test queries count; framed: zero-"
            "shot. Darker: larger."
        )
    if any(not result.scores.trained_per_group for result in systems):
        lines.append("A row 'all': one run, whichever group is held out.")
    return [*lines, "; ".join(data_notes(data, {result.shift.name for result in systems}))]
