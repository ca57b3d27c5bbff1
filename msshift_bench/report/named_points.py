"""Names beside the points of a picture, placed so that they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msshift_bench.output import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NamedPoint", "name_points"]

_SIZE = 7.0
"""Points, of the letters."""

_LETTER = 0.62
"""The width of a letter as a share of its size; few are wider."""

_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (1, 0), (-1, 0), (0, -1))
"""Beside a point, its intervals run straight up and across."""
_GAP = 6.5
"""Points between a mark's middle and its name."""

_BETWEEN = 4.0
"""Points between two names, at least."""


class NamedPoint(NamedTuple):
    """A point and its name, in the units of the axes."""

    x: float
    y: float
    name: str


class _Box(NamedTuple):
    left: float
    right: float
    low: float
    high: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


def name_points(
    ax: Axes, points: Sequence[NamedPoint], *, inches: float, wide: float | None = None
) -> None:
    """Write the name of each point beside it, where there is room; crowded points have none.

    Args:
        ax: the axes, their limits set.
        points: the points; the first ones get their names first.
        inches: the length of the axes, about.
        wide: the length of the horizontal axis, if it differs.
    """
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, up = (right - left) / (72 * (wide or inches)), (top - bottom) / (72 * inches)
    taken = [_Box(p.x - 4 * across, p.x + 4 * across, p.y - 4 * up, p.y + 4 * up) for p in points]
    for point in points:
        half = _LETTER * _SIZE * len(point.name) / 2
        room = half + _BETWEEN / 2
        for side, level in _SIDES:
            x = point.x + side * (_GAP + half) * across
            y = point.y + level * (_GAP + _SIZE / 4) * up
            box = _Box(
                x - room * across, x + room * across, y - 0.55 * _SIZE * up, y + 0.55 * _SIZE * up
            )
            inside = left <= box.left and box.right <= right and bottom <= box.low
            if inside and box.high <= top and not any(box.meets(other) for other in taken):
                taken.append(box)
                ax.text(x, y, point.name, ha="center", va="center", fontsize=_SIZE, color=INK)
                break
