"""Tables: strings with a little markup, and pivots of figures into them.

A table is two lists of heads: each says which figures stand in its row or its column, and how they
are printed. `msshift_bench.output.rendering` renders tables for the terminal, Markdown or LaTeX.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msshift_bench.stats import DAGGER, QUERIES_ONLY, SIGNIFICANT, STAR, Figure, Figures

__all__ = [
    "COUNT",
    "PERCENT_ENDS",
    "P_VALUE",
    "QUERIES",
    "REL_LOSS",
    "Format",
    "Head",
    "Table",
    "TableCell",
    "heads_of",
    "note_of",
    "number",
    "pivot",
    "say_level",
    "say_p",
    "show_p",
    "show_percent",
    "show_percent_interval",
    "tabulate",
]


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell: its text and its marks.

    Attributes:
        text: the text to print.
        best: whether it is the best of its kind in its column.
        mark: the mark of its significance, `STAR`, `DAGGER` or "".
    """

    text: str = ""
    best: bool = False
    mark: str = ""


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
        note: what its p-values are corrected over, and what its marks mean; "" without any.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    sections: frozenset[int] = field(default_factory=frozenset)
    names: int = 1
    label: str = ""
    note: str = ""

    @classmethod
    def plain(
        cls, title: str, header: Sequence[str], rows: Iterable[Sequence[object]], names: int = 1
    ) -> Table:
        """Return a table of values without marks."""
        cells = tuple(tuple(TableCell(str(value)) for value in row) for row in rows)
        return cls(title, tuple(header), cells, names=names)


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


class Format(NamedTuple):
    """How a figure is printed.

    Attributes:
        text: what returns its text.
        is_marked: whether its mark and its weight are shown.
    """

    text: Callable[[Figure], str]
    is_marked: bool = False


class Head(NamedTuple):
    """A row or a column of a table.

    Attributes:
        names: the cells that name it; a column has one.
        where: which figures stand in it, as `Figures.where` takes it.
        format: how they are printed; `None` leaves it to the other head of the cell.
    """

    names: tuple[str, ...]
    where: Mapping[str, object]
    format: Format | None = None


def _p_text(figure: Figure) -> str:
    return show_p(figure.p)


def _queries_text(figure: Figure) -> str:
    return f"{figure.queries or 0:,}"


def _percent_text(figure: Figure) -> str:
    return show_percent(figure.value)


def _ends_text(figure: Figure) -> str:
    return show_percent_interval(figure.interval)


REL_LOSS = Format(_percent_text, is_marked=True)
"""A fraction in percent."""

PERCENT_ENDS = Format(_ends_text)
"""The interval of a fraction in percent."""

P_VALUE = Format(_p_text)
"""A corrected p-value."""

QUERIES = Format(_queries_text)
"""The number of queries that count."""

COUNT = Format("{0.value:,.0f}".format)
"""A number of things, which is known."""


def number(digits: int, ends: int | None = None, *, is_marked: bool = False) -> Format:
    """Return the format of a plain number; a dash, if it is not known.

    Args:
        digits: how many are printed behind the point.
        ends: how many of its interval's ends; `None` leaves the interval out.
        is_marked: whether its mark and its weight are shown.
    """

    def text(figure: Figure) -> str:
        if figure.value is None:
            return "-"
        shown = f"{figure.value:.{digits}f}"
        if ends is None or figure.interval is None:
            return shown
        low, high = figure.interval
        return f"{shown} [{low:.{ends}f}, {high:.{ends}f}]"

    return Format(text, is_marked)


def heads_of(figures: Figures, *columns: str) -> list[Head]:
    """Return a head for each combination of values of some columns, in the order of the figures."""
    return [
        Head(values, dict(zip(columns, values, strict=True)))
        for values, _ in figures.each(*columns)
    ]


def pivot(
    figures: Figures,
    title: str,
    corner: Sequence[str],
    rows: Iterable[Head],
    columns: Sequence[Head],
    *,
    ruled: int = 0,
    best: Collection[Figure] = (),
    label: str = "",
) -> Table:
    """Put figures into the cells of a table; where a cell has several, the first.

    Args:
        figures: the figures.
        title: one line.
        corner: the header above the names of the rows.
        rows: the rows.
        columns: the columns. A column's format comes before that of a row. A cell without a
            format is empty, one without a figure holds a dash.
        ruled: how many of a row's names make a section, which has a rule above it and names them
            once.
        best: the figures that are printed bold, where their format is marked.
        label: what LaTeX refers to the table by; by default its title.
    """
    lines: list[tuple[TableCell, ...]] = []
    sections: set[int] = set()
    section: tuple[str, ...] | None = None
    printed: list[Figure] = []
    for row in rows:
        of_row, names = figures.where(**row.where), row.names
        if ruled and names[:ruled] == section:
            names = ("",) * ruled + names[ruled:]
        elif ruled:
            section = names[:ruled]
            sections.add(len(lines))
        cells = [TableCell(name) for name in names]
        for column in columns:
            shown = column.format or row.format
            figure = of_row.first(**column.where)
            if shown is None:
                cells.append(TableCell())
            elif figure is None:
                cells.append(TableCell("-"))
            else:
                is_best = shown.is_marked and figure in best
                mark = figure.mark if shown.is_marked else ""
                cells.append(TableCell(shown.text(figure), is_best, mark))
                printed.append(figure)
        lines.append(tuple(cells))
    header = (*corner, *(column.names[0] for column in columns))
    return Table(
        title, header, tuple(lines), frozenset(sections), len(corner), label, note_of(printed)
    )


def tabulate(
    figures: Figures,
    title: str,
    rows: Mapping[str, str],
    columns: Mapping[str, tuple[str, Format]],
) -> Table:
    """Return a table of a row per combination of names, and a column per kind of figure.

    Args:
        figures: the figures; others than those of the columns have no row.
        title: one line.
        rows: the columns of figures that name a row -> the headers above the names.
        columns: what figures are -> the header above them, and how they are printed.
    """
    shown = figures.where(figure=tuple(columns))
    heads = [Head((name,), {"figure": figure}, form) for figure, (name, form) in columns.items()]
    return pivot(shown, title, tuple(rows.values()), heads_of(shown, *rows), heads)


def note_of(figures: Iterable[Figure]) -> str:
    """Return what the p-values of figures are corrected over, and what their marks mean."""
    families = dict.fromkeys(figure.family for figure in figures if figure.family)
    marks = {figure.mark for figure in figures}
    meaning = f"p at most {SIGNIFICANT}"
    parts = [f"p: {', '.join(families)}"] if families else []
    parts += [f"{STAR}: {meaning}"] if STAR in marks else []
    if DAGGER in marks:
        parts.append(
            f"{DAGGER}: {meaning}, {QUERIES_ONLY}, of these very models: it says nothing of others "
            "trained alike"
        )
    return "; ".join(parts)
