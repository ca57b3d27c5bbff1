"""A report as a picture: what every system loses on every group, and every model on every group.

It is drawn for a page 600 pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from msshift_bench.data import DataInfo
from msshift_bench.errors import UnknownNameError, require
from msshift_bench.evaluation.common_notes import data_notes
from msshift_bench.evaluation.drawn_parts import MOST_LETTERS, GridCell, draw_grid, draw_losses
from msshift_bench.output import (
    PALE_INK,
    PICTURE_FORMATS,
    Look,
    looks_of,
    picture_bytes,
    picture_style,
    say_level,
    shorten,
)
from msshift_bench.stats import SIGNIFICANT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from msshift_bench.evaluation.evaluator import SystemResult
    from msshift_bench.evaluation.measures import Measure
    from msshift_bench.stats import ShiftLoss

__all__ = ["check_plot", "draw_results"]

_FORMATS = tuple(f".{name}" for name in PICTURE_FORMATS)
_WIDTH = 6.25
_PIXELS_PER_INCH = 192
"""Of a PNG: twice the 96 of a page, for screens that show four pixels in the place of one."""

_MOST_PIXELS = 60_000
"""Of a PNG's height; matplotlib draws no more than 65,535."""

_ROW = 0.15
"""Inches of a system's loss on a group."""

_CELL = 0.26
_NOTE = 112
"""Letters of a line of the notes."""


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
    require("matplotlib.figure", "plots", "a plot")
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
    from matplotlib.figure import Figure

    shifts = [
        list(results) for _, results in groupby(systems, key=lambda result: result.shift.name)
    ]
    blocks = [(results, measure) for results in shifts for measure in measures]
    looks = looks_of(result.system for result in systems)
    notes = [line for note in _notes(systems, measures, data) for line in wrap(note, _NOTE)]
    heights = [sum(_heights(*block)) for block in blocks]
    of_notes = 0.16 * len(notes) + 0.1
    with picture_style():
        figure = Figure(figsize=(_WIDTH, sum(heights) + of_notes), layout="constrained")
        every = figure.subfigures(
            len(blocks) + 1, 1, squeeze=False, height_ratios=[*heights, of_notes]
        )
        *parts, last = every[:, 0]
        for part, (results, measure) in zip(parts, blocks, strict=True):
            _draw_block(part, results, measure, looks)
        last.text(0.015, 0.98, "\n".join(notes), va="top", fontsize=7.5, color=PALE_INK)
        density = min(_PIXELS_PER_INCH, _MOST_PIXELS / figure.get_figheight())
        return picture_bytes(figure, plot_format, "Rel Loss and matrices", density=density)


def _losses(
    results: Sequence[SystemResult], measure: Measure
) -> list[tuple[SystemResult, ShiftLoss]]:
    found = [(result, result.measures[measure.name].loss) for result in results]
    return [(result, loss) for result, loss in found if loss is not None]


def _heights(results: Sequence[SystemResult], measure: Measure) -> tuple[float, float]:
    """Return the inches of the losses, with the heading, and of the matrices below them."""
    losses = len(_losses(results, measure))
    groups = len(results[0].shift.tested)
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
    part: SubFigure, results: Sequence[SystemResult], measure: Measure, looks: dict[str, Look]
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
        draw_losses(above.subplots(), losses, looks)
    pairs = list(_in_pairs(results))
    ratios = [_CELL * max(map(_models, pair)) + 0.55 for pair in pairs]
    grid = below.subplots(len(pairs), 2, squeeze=False, height_ratios=ratios)
    means = [cell.mean for result in results for cell in result.measures[measure.name].cells]
    for axes, pair in zip(grid, pairs, strict=True):
        for ax, result in zip(axes, pair, strict=False):
            _draw_matrix(ax, result, measure, (min(means), max(means)))
        for ax in axes[len(pair) :]:
            ax.set_axis_off()


def _draw_matrix(
    ax: Axes, result: SystemResult, measure: Measure, limits: tuple[float, float]
) -> None:
    """Draw a system's means: a row per model, a column per evaluated group."""
    groups = list(result.shift.tested)
    models: list[str | None] = [*result.shift.groups] if result.scores.trained_per_group else [None]
    new_to = {group: result.shift.unseen_by(group) for group in groups}
    found = result.measures[measure.name]
    low, high = limits

    def cell(group: str, model: str | None) -> GridCell | None:
        mean = found.mean(group, model)
        if mean is None:
            return None
        shade = (mean - low) / (high - low) if high > low else 0.0
        return GridCell(measure.show(mean), shade, framed=model == new_to[group])

    trained = result.shift.training_of
    rows = {
        trained(model) if model else "all": [cell(group, model) for group in groups]
        for model in models
    }
    draw_grid(ax, groups, rows)
    ax.set_title(shorten(result.system, MOST_LETTERS) + (" (partial)" if result.partial else ""))


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
        percent = say_level(losses[0].intervals.confidence) if losses[0].intervals else ""
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
