"""Names beside points stand apart from each other."""

from __future__ import annotations

from itertools import combinations

import pytest

from msshift_bench.report.named_points import NamedPoint, name_points

pytest.importorskip("matplotlib")

SIZE = 7
"""Points, of the letters."""


def test_two_names_on_one_line_have_a_gap() -> None:
    from matplotlib.figure import Figure

    ax = Figure(figsize=(4.8, 2.15)).subplots()
    ax.set_xlim(0.18, 0.30)
    ax.set_ylim(-16, 20)
    # Between the last two there is room for both names, and for nothing between them.
    points = {"C0": (0.185, 4.3), "C1": (0.23, 1.7), "C2": (0.283, 1.5), "C4": (0.2965, 1.4)}
    named = [NamedPoint(x, y, name) for name, (x, y) in points.items()]
    name_points(ax, named, inches=1.6, wide=4.0)
    assert [text.get_text() for text in ax.texts] == list(points)
    across, up = 0.12 / (72 * 4.0), 36 / (72 * 1.6)
    for one, other in combinations(ax.texts, 2):
        (x, y), (u, v) = one.get_position(), other.get_position()
        letters = 0.62 * SIZE * 2 * across
        assert abs(x - u) >= letters + 3 * across or abs(y - v) > SIZE * up
