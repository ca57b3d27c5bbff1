"""A result as one picture: what every system loses on every group, and every model on every group.

It is drawn for a page 600 pixels wide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from msshift_bench.errors import UsageError
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
    note_of,
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
    matrix,
    rule_between,
)
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.stats import Figure, Figures

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


def draw_result(result: Result, path: str | Path) -> None:
    """Draw the losses of systems with their intervals, and the matrix of each, shift by shift.

    Args:
        result: what `evaluate_run_sets`, `evaluate` or `compare_run_sets` returned.
        path: the file to write: SVG, PNG or PDF, by its ending. Equal results give equal pictures;
            their bytes may differ in the last digits of the layout.

    Raises:
        UnknownNameError: if its name ends on no format.
        MissingExtraError: if matplotlib is not installed.
        UsageError: if the result holds no scores of run sets on the groups of a shift.

    Examples:
        >>> result = evaluate_run_sets("runs", shifts=["length"])
        >>> draw_result(result, "losses.svg")
        >>> Path("losses.svg").read_text().startswith("<?xml")
        True
    """
    plot_format = check_plot(path)
    if not result.figures.where(figure="model_score"):
        raise UsageError(
            f"a result of kind {result.kind!r} holds no scores of run sets on the groups of a "
            "shift; draw what evaluate_run_sets returns"
        )
    from matplotlib.figure import Figure as Drawing

    looks = looks_of(part.system for part in result.scores)
    blocks = list(_blocks(result))
    notes = [line for note in _notes(result) for line in wrap(note, _NOTE)]
    heights = [*(sum(block.heights) for block in blocks), 0.16 * len(notes) + 0.1]
    with picture_style():
        drawing = Drawing(figsize=(_WIDTH, sum(heights)), layout="constrained")
        parts = drawing.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, block in zip(parts, blocks, strict=False):
            block.draw(part, looks)
        parts[-1].text(0.015, 0.98, "\n".join(notes), va="top", fontsize=7.5, color=PALE_INK)
        density = min(_PIXELS_PER_INCH, _MOST_PIXELS / drawing.get_figheight())
        picture = picture_bytes(drawing, plot_format, "Rel Loss and matrices", density=density)
    with write_atomically(Path(path)) as file:
        file.write(picture)


class _Block(NamedTuple):
    """What is drawn of a shift by a measure: losses, and below them the matrices, two in a row.

    Attributes:
        shift: the shift.
        measure: the measure.
        figures: the figures of all systems.
        pairs: the systems whose matrices stand side by side: untrained ones first.
    """

    shift: Shift
    measure: Measure
    figures: Figures
    pairs: Sequence[Sequence[Scores]]

    @property
    def losses(self) -> Figures:
        """The losses of the systems that have any."""
        return self.figures.where(figure="rel_loss")

    @property
    def heights(self) -> list[float]:
        """The inches of the losses, with the heading, and of each pair of matrices."""
        systems = len(self.losses.names("system"))
        of_losses = (len(self.shift.tested) + 1) * (systems * _ROW + 0.1)
        of_losses += 0.75 + 0.2 * math.ceil(systems / 2)
        rows = [len(self.shift.groups) if pair[0].trained_per_group else 1 for pair in self.pairs]
        return [of_losses if systems else 0.4, *(_CELL * count + 0.55 for count in rows)]

    def draw(self, part: SubFigure, looks: Mapping[str, Look]) -> None:
        """Draw it."""
        scale = " x 100" if self.measure.percent else ""
        title = f"{self.shift.title} ({self.shift.name}), {self.measure.mean_name}{scale}"
        part.suptitle(title, fontsize=10, fontweight="bold")
        of_losses, *of_pairs = self.heights
        below = part
        if self.losses:
            heights = [of_losses, sum(of_pairs)]
            above, below = part.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
            ax, rows = above.subplots(), group_rows(self.shift, self.losses)
            draw_losses(ax, self.losses, looks, rows)
            rule_between(ax, [row in WHOLE for row in rows])
            ax.set_xlabel("Rel Loss in %: right of 0, the model that never saw the group is worse")
        grid = below.subplots(len(self.pairs), 2, squeeze=False, height_ratios=of_pairs)
        for axes, pair in zip(grid, self.pairs, strict=True):
            for ax, scores in itertools.zip_longest(axes, pair):
                if scores is None:
                    ax.set_axis_off()
                else:
                    self.draw_matrix(ax, scores)

    def draw_matrix(self, ax: Axes, scores: Scores) -> None:
        """Draw a system's means: a row per model, a column per evaluated group."""
        means = self.figures.where(figure="model_score")
        values = [row.number for row in means]
        low, room = min(values), max(values) - min(values) or 1.0

        def cell(mean: Figure) -> GridCell:
            is_zero_shot = mean.model == self.shift.unseen_by(mean.group)
            shade = (mean.number - low) / room
            return GridCell(self.measure.show(mean.value), shade, is_framed=is_zero_shot)

        models = {FOR_ALL: "all"}
        if scores.trained_per_group:
            models = {model: self.shift.training_of(model) for model in self.shift.groups}
        rows = [(scores.system, model, name) for model, name in models.items()]
        draw_grid(ax, list(self.shift.tested), matrix(self.shift, means, rows, cell))
        partial = " (partial)" if scores.missing_files else ""
        ax.set_title(f"{shorten(scores.system, LETTERS)}{partial}")


def _blocks(result: Result) -> Iterator[_Block]:
    for (name, measure), figures in result.figures.where(slice="").each("shift", "measure"):
        pairs: list[Sequence[Scores]] = []
        for is_trained in (False, True):
            alike = [
                part
                for part in result.scores
                if part.shift_name == name and part.trained_per_group == is_trained
            ]
            pairs += [alike[start : start + 2] for start in range(0, len(alike), 2)]
        yield _Block(get_shift(name), parse_measure(measure), figures, pairs)


def _notes(result: Result) -> Iterator[str]:
    losses = result.figures.where(figure="rel_loss", slice="")
    if losses:
        level = say_level(result.settings["confidence"])
        yield (
            f"Lines: {level} intervals, of queries and seeds; with one seed (white markers) of "
            "queries only. The axis cuts what reaches far beyond all losses."
        )
    note = note_of(losses)
    if note:
        yield f"{note}."
    trained = {part.trained_per_group for part in result.scores}
    if True in trained:
        yield (
            "Matrices: rows are models, columns the group whose test queries count; framed: zero-"
            "shot. Darker: larger."
        )
    if False in trained:
        yield "A row 'all': one run, whichever group is held out."
    yield "; ".join(data_notes(result.data, result.figures.names("shift")))
