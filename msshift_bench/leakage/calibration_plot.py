"""Precision and recall by threshold as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from msshift_bench.leakage.threshold_curve import LowestThreshold, ThresholdCurve
from msshift_bench.output import COLOURS, LINE, PALE_INK, picture_bytes, picture_style
from msshift_bench.stats import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_thresholds"]

_BAND_POINTS = 60
_PIXELS_PER_INCH = 192
_ROUNDING = 1e-6


def draw_thresholds(curve: ThresholdCurve, lowest: LowestThreshold, picture_format: str) -> bytes:
    """Draw precision and recall by threshold, with bands, and the threshold of a precision.

    Args:
        curve: the curve.
        lowest: its lowest threshold with a wanted precision, and the interval.
        picture_format: ``svg``, ``png`` or ``pdf``.

    Returns:
        The file; equal curves give equal bytes with the same matplotlib.
    """
    from matplotlib.figure import Figure

    with picture_style():
        figure = Figure(figsize=(6.25, 3.4), layout="constrained")
        axes = figure.subplots()
        _draw_curves(axes, curve)
        _mark(axes, lowest)
        axes.set_xlabel("threshold: cosine at least")
        axes.set_ylim(0, 1.02)
        axes.grid(axis="y", color=LINE, linewidth=0.5)
        axes.legend(loc="lower left", frameon=False)
        return picture_bytes(
            figure, picture_format, "Precision and recall by threshold", density=_PIXELS_PER_INCH
        )


def _draw_curves(axes: Axes, curve: ThresholdCurve) -> None:
    thresholds, *lines = curve.every_point()
    # Cosines of equal texts differ from 1 by rounding; of these one is drawn.
    drawn = slice(0, int(np.searchsorted(thresholds, 1 - _ROUNDING)) + 1)
    thresholds, *lines = (values[drawn] for values in (thresholds, *lines))
    step = max(1, len(thresholds) // _BAND_POINTS)
    points = [curve.at(float(one)) for one in thresholds[::step]]
    shares = [[point.precision for point in points], [point.recall for point in points]]
    looks = zip(("precision", "recall"), lines, shares, COLOURS, strict=False)
    for (name, values, banded, colour), style in zip(looks, ("-", "--"), strict=True):
        axes.step(thresholds, values, style, where="pre", color=colour, label=name, linewidth=1.2)
        ends = [
            (point.threshold, *share.interval)
            for point, share in zip(points, banded, strict=True)
            if share is not None and share.interval is not None
        ]
        if ends:
            places, low, high = np.array(ends).T
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)


def _mark(axes: Axes, lowest: LowestThreshold) -> None:
    axes.axhline(lowest.wanted, color=PALE_INK, linewidth=0.6, linestyle=":")
    if lowest.point is None:
        return
    threshold, interval = lowest.point.threshold, lowest.interval
    axes.axvline(threshold, color=PALE_INK, linewidth=0.8)
    if interval is not None:
        axes.axvspan(*interval, color=PALE_INK, alpha=0.1, linewidth=0)
    axes.set_title(
        f"lowest threshold with precision {lowest.wanted:g}: {threshold:.4f}{_written(interval)}",
        loc="left",
    )


def _written(interval: Interval | None) -> str:
    return "" if interval is None else " [{:.4f}, {:.4f}]".format(*interval)
