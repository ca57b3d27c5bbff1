"""A figure of the report: the picture, the numbers behind it, and its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msshift_bench.output import Look, csv_text, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "WIDTH",
    "Drawn",
    "LeftOut",
    "ReportFigure",
    "Value",
    "blank_figure",
    "counted_seeds",
    "figure_name",
    "share_legend",
]

WIDTH = 4.8
"""Inches: the width of the text in Springer's LNCS; on a phone it fills the screen."""

Value = str | float | None
"""A field of the numbers behind a figure; `None` where it is not known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReportFigure:
    """One figure.

    Attributes:
        name: the name of its files, unique in the report.
        title: one line.
        caption: what is drawn, with units and sample sizes, in full sentences.
        alternative: what the picture shows, for those who do not see it.
        columns: the names of the fields of `rows`.
        rows: every number that is drawn, a row each.
        figure: the picture.
    """

    name: str
    title: str
    caption: str
    alternative: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]
    figure: Figure

    def __repr__(self) -> str:
        return f"<ReportFigure: {self.name}, {len(self.rows)} rows>"

    def to_csv(self) -> str:
        """Return the numbers behind the figure as CSV with a header line."""
        return csv_text(self.columns, self.rows)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure that is not drawn, since its data are not there.

    Attributes:
        title: the figure's title.
        why: what is not there.
        remedy: what would bring it.
    """

    title: str
    why: str
    remedy: str


Drawn = ReportFigure | LeftOut
"""What a module of a figure returns."""


def blank_figure(height: float) -> Figure:
    """Return an empty figure of the report's width.

    Args:
        height: in inches.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def figure_name(kind: str, shift: str, system: str) -> str:
    """Return the name of a system's figure, which its files can have.

    A system's own name holds slashes where folders of one name are told apart.
    """
    return f"{kind}-{shift}-{system.replace('/', '-')}"


def counted_seeds(seeds: int) -> str:
    """Return a number of seeds as captions say it."""
    return "one seed, so intervals count queries only" if seeds == 1 else f"{seeds} seeds"


def share_legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Say above all panels of a figure which system looks how."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=look.colour, marker=look.marker, ms=5, ls="")
        for look in looks.values()
    ]
    names = [shorten(name, 30) for name in looks]
    figure.legend(marks, names, loc="outside upper center", ncols=min(3, len(names)), frameon=False)
