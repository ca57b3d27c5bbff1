"""A result as one picture: what every system loses on every group, and every model on every group.

It is drawn for a page 600 pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from msshift_bench.evaluation import (
    FOR_ALL,
    Measure,
    Result,
    Scores,
    data_notes,
    parse_measure,
)
from msshift_bench.output import (
    PALE_INK,
    Look,
    check_plot,
    looks_of,
    picture_bytes,
    picture_style,
    say_level,
    shorten,
)
from msshift_bench.plumbing import write_atomically
from msshift_bench.report.drawing import (
    LETTERS,
    WHOLE,
    GridCell,
    draw_grid,
    draw_losses,
    group_rows,
    rule_between,
)
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.stats import SIGNIFICANT, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["draw_result"]

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


class _Block(NamedTuple):
    """What is drawn of a shift by a measure: losses, and below them the matrices in pairs.

    Attributes:
        shift: the shift.
        measure: the measure.
        figures: the figures of all systems.
        pairs: the systems whose matrices stand side by side, those of one row first.
    """

    shift: Shift
    measure: Measure
    figures: Figures
    pairs: Sequence[Sequence[Scores]]

    @property
    def losses(self) -> Figures:
        """The losses of the systems that have any."""
        return self.figures.where(figure="rel_loss")

    def heights(self) -> tuple[float, float]:
        """Return the inches of the losses, with the heading, and of the matrices below them."""
        systems = len(self.losses.names("system"))
        of_losses = (len(self.shift.tested) + 1) * (systems * _ROW + 0.1)
        of_losses += 0.75 + 0.2 * math.ceil(systems / 2)
        return (of_losses if systems else 0.4), sum(self.pair_heights())

    def pair_heights(self) -> list[float]:
        """Return the inches of each pair of matrices, which have as many rows."""
        return [_CELL * len(_models(pair[0])) + 0.55 for pair in self.pairs]


def draw_result(result: Result, path: str | Path) -> None:
    """Draw the losses of systems with their intervals, and the matrix of each, shift by shift.

    Args:
        result: the losses of run sets.
        path: the file to write: SVG, PNG or PDF, by its ending. Equal results give equal bytes with
            the same matplotlib.

    Raises:
        UnknownNameError: if its name ends on no format.
        MissingExtraError: if matplotlib is not installed.
    """
    plot_format = check_plot(path)
    from matplotlib.figure import Figure

    blocks = list(_blocks(result))
    looks = looks_of(part.system for part in result.scores)
    notes = [line for note in _notes(result) for line in wrap(note, _NOTE)]
    heights = [sum(block.heights()) for block in blocks]
    heights.append(0.16 * len(notes) + 0.1)
    with picture_style():
        drawing = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        parts = drawing.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
        *above, last = parts[:, 0]
        for part, block in zip(above, blocks, strict=True):
            _draw_block(part, block, looks)
        last.text(0.015, 0.98, "\n".join(notes), va="top", fontsize=7.5, color=PALE_INK)
        density = min(_PIXELS_PER_INCH, _MOST_PIXELS / drawing.get_figheight())
        picture = picture_bytes(drawing, plot_format, "Rel Loss and matrices", density=density)
    with write_atomically(Path(path)) as file:
        file.write(picture)


def _blocks(result: Result) -> Iterator[_Block]:
    measures = [parse_measure(name) for name in result.settings["measures"]]
    for (name,), figures in result.figures.where(slice="").each("shift"):
        scores = [part for part in result.scores if part.shift_name == name]
        scores.sort(key=lambda part: len(_models(part)))
        pairs: list[Sequence[Scores]] = []
        for _, alike in groupby(scores, key=lambda part: len(_models(part))):
            ordered = list(alike)
            pairs += [ordered[start : start + 2] for start in range(0, len(ordered), 2)]
        for measure in measures:
            yield _Block(get_shift(name), measure, figures.where(measure=measure.name), pairs)


def _models(scores: Scores) -> Mapping[str, str]:
    """Return the rows of a system's matrix: model -> the title of its row."""
    assert scores.shift is not None
    if not scores.trained_per_group:
        return {FOR_ALL: "all"}
    return {model: scores.shift.training_of(model) for model in scores.shift.groups}


def _draw_block(part: SubFigure, block: _Block, looks: Mapping[str, Look]) -> None:
    scale = " x 100" if block.measure.percent else ""
    title = f"{block.shift.title} ({block.shift.name}), {block.measure.mean_name}{scale}"
    part.suptitle(title, fontsize=10, fontweight="bold")
    below = part
    if block.losses:
        above, below = part.subfigures(2, 1, height_ratios=block.heights())
        ax, rows = above.subplots(), group_rows(block.shift, block.losses)
        draw_losses(ax, block.losses, looks, rows)
        rule_between(ax, [row in WHOLE for row in rows])
        ax.set_xlabel("Rel Loss in %: right of 0, the model that never saw the group is worse")
    grid = below.subplots(len(block.pairs), 2, squeeze=False, height_ratios=block.pair_heights())
    for axes, pair in zip(grid, block.pairs, strict=True):
        for ax, scores in zip(axes, pair, strict=False):
            _draw_matrix(ax, block, scores)
        for ax in axes[len(pair) :]:
            ax.set_axis_off()


def _draw_matrix(ax: Axes, block: _Block, scores: Scores) -> None:
    """Draw a system's means: a row per model, a column per evaluated group."""
    means = block.figures.where(figure="model_score")
    values = [row.number for row in means]
    low, room = min(values), max(values) - min(values) or 1.0

    def cell(group: str, model: str) -> GridCell | None:
        mean = means.first(system=scores.system, group=group, model=model)
        if mean is None:
            return None
        is_zero_shot = model == block.shift.unseen_by(group)
        shade = (mean.number - low) / room
        return GridCell(block.measure.show(mean.value), shade, is_framed=is_zero_shot)

    groups = list(block.shift.tested)
    rows = [
        (title, [cell(group, model) for group in groups])
        for model, title in _models(scores).items()
    ]
    draw_grid(ax, groups, rows)
    partial = " (partial)" if scores.missing_files else ""
    ax.set_title(f"{shorten(scores.system, LETTERS)}{partial}")


def _notes(result: Result) -> Iterator[str]:
    losses = result.figures.where(figure="rel_loss", slice="")
    if losses:
        level = say_level(result.settings["confidence"])
        yield (
            f"Lines: {level} intervals, of queries and seeds; with one seed (white markers) of "
            "queries only. The axis cuts what reaches far beyond all losses."
        )
    if max(losses.names("seeds"), default=1) > 1:
        yield (
            f"*: significant (p at most {SIGNIFICANT}, {result.settings['correction']}-corrected "
            "over the groups), with two seeds or more."
        )
    trained = {part.trained_per_group for part in result.scores}
    if True in trained:
        yield (
            "Matrices: rows are models, columns the group whose test queries count; framed: zero-"
            "shot. Darker: larger."
        )
    if False in trained:
        yield "A row 'all': one run, whichever group is held out."
    yield "; ".join(data_notes(result.data, result.figures.names("shift")))
