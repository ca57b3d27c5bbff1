"""Tables as plain cells.

A table holds strings with a little markup; `msshift_bench.output.rendering` renders it for the
terminal, Markdown or LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "Table",
    "TableCell",
    "say_level",
    "say_p",
    "show_p",
    "show_percent",
    "show_percent_interval",
]


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell: its text and its marks.

    Attributes:
        text: the text to print.
        best: whether it is the best of its kind in its column.
        significant: whether it is a loss or a difference that is significant.
        held_out: whether it is a zero-shot cell of a matrix.
    """

    text: str = ""
    best: bool = False
    significant: bool = False
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a title, a header, and rows of cells, the first of each being its name.

    Attributes:
        title: one line.
        header: the columns' names.
        rows: each as long as the header.
        sections: the rows before which a rule is drawn.
        names: how many of the first columns hold names rather than figures.
        label: what LaTeX refers to the table by; by default its title.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    sections: frozenset[int] = field(default_factory=frozenset)
    names: int = 1
    label: str = ""

    @classmethod
    def plain(
        cls,
        title: str,
        header: Sequence[str],
        rows: Iterable[Sequence[object]],
        names: int = 1,
        label: str = "",
    ) -> Table:
        """Return a table of values without marks."""
        cells = tuple(tuple(TableCell(str(value)) for value in row) for row in rows)
        return cls(title, tuple(header), cells, names=names, label=label)


def show_p(value: float | None) -> str:
    """Return a p-value as tables print it."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def say_p(value: float) -> str:
    """Return a p-value as sentences say it: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def say_level(confidence: float) -> str:
    """Return the level of an interval, between 0 and 1, as sentences say it: ``97.5%``."""
    return f"{100 * confidence:g}%"


def show_percent(value: float | None) -> str:
    """Return a Rel Loss as tables print it; a zero has no minus."""
    return "-" if value is None else f"{100 * value:z.1f}%"


def show_percent_interval(interval: tuple[float, float] | None) -> str:
    """Return the interval of a Rel Loss, low and high, as tables print it."""
    if interval is None:
        return "-"
    low, high = interval
    return f"[{100 * low:z.1f}, {100 * high:z.1f}]"
