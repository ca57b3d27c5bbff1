"""The points of an alignment as a picture: Figure 2 of Zhan et al. (CIKM 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msshift_bench.output import COLOURS, LINE, PALE_INK, picture_bytes, picture_style, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from msshift_bench.analysis.dependent_correlations import OutsideAlignment
    from msshift_bench.analysis.model_scores import ModelScores

__all__ = ["draw_alignment"]

_WIDTH, _HEIGHT = 6.25, 2.6
"""Inches of a page, and of the row of one test set."""

_PIXELS_PER_INCH = 192
_LETTERS = 16


def draw_alignment(
    scores: Sequence[ModelScores], alignments: Sequence[OutsideAlignment], picture_format: str
) -> bytes:
    """Draw every model's score elsewhere over its interpolation, and over its extrapolation.

    Args:
        scores: the models.
        alignments: the test sets elsewhere, each a row of the picture.
        picture_format: ``svg``, ``png`` or ``pdf``.

    Returns:
        The file; equal figures give equal bytes with the same matplotlib.
    """
    from matplotlib.figure import Figure

    rows = len(alignments)
    with picture_style():
        figure = Figure(figsize=(_WIDTH, _HEIGHT * rows), layout="constrained")
        grid = figure.subplots(rows, 2, sharey="row", squeeze=False)
        for pair, aligned in zip(grid, alignments, strict=True):
            pair[0].set_ylabel(shorten(aligned.outside, 40))
            for axes, regime in zip(pair, ("interpolation", "extrapolation"), strict=True):
                _draw(axes, scores, aligned, regime)
        title = "Alignment with scores elsewhere"
        return picture_bytes(figure, picture_format, title, density=_PIXELS_PER_INCH)


def _draw(
    axes: Axes, scores: Sequence[ModelScores], aligned: OutsideAlignment, regime: str
) -> None:
    points = [(getattr(one, regime), one.outside[aligned.outside]) for one in scores]
    axes.grid(color=LINE, linewidth=0.4)
    axes.set_axisbelow(True)
    colour = COLOURS[0] if regime == "interpolation" else COLOURS[1]
    axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4)
    for one, point in zip(scores, points, strict=True):
        axes.annotate(
            shorten(one.model, _LETTERS),
            point,
            (3, 3),
            textcoords="offset points",
            fontsize=6,
            color=PALE_INK,
        )
    spearman = aligned.correlations[0]
    value = spearman.first if regime == "interpolation" else spearman.second
    axes.set_xlabel(regime)
    axes.set_title("" if value is None else f"Spearman {value:.2f}", loc="left")
