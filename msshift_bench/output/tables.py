"""Tables of figures, and their formats: text, Markdown, LaTeX, CSV, JSON.

A table is two lists of heads: each selects the figures of its row or column, and their format.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import starmap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench._version import __version__
from msshift_bench.stats import DAGGER, QUERIES_ONLY, SIGNIFICANT, STAR, Figure, Figures

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell: its text and its marks.

    Attributes:
        text: the text to print.
        best: whether it is the best figure of its column.
        mark: the mark of its significance, `STAR`, `DAGGER` or "".
    """

    text: str = ""
    best: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a title, a header, and rows of cells that begin with names.

    Attributes:
        title: one line.
        header: the columns' names.
        rows: each as long as the header.
        sections: indices of the rows that begin a section.
        names: number of first columns with names, not figures.
        label: the label in LaTeX; by default its title.
        note: the family of its p-values and the meaning of its marks; "" without any.
        spans: titles above the columns of figures, each with its number of columns; LaTeX has them.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    sections: frozenset[int] = field(default_factory=frozenset)
    names: int = 1
    label: str = ""
    note: str = ""
    spans: tuple[tuple[str, int], ...] = ()

    @classmethod
    def plain(
        cls, title: str, header: Sequence[str], rows: Iterable[Sequence[object]], names: int = 1
    ) -> Table:
        """Return a table of values without marks."""
        cells = tuple(tuple(TableCell(str(value)) for value in row) for row in rows)
        return cls(title, tuple(header), cells, names=names)


@dataclass(frozen=True, slots=True)
class Summary:
    """A result without figures of systems, e.g. the counts of an audit.

    Attributes:
        facts: the facts, as JSON values.
        tables: the facts, as tables.
        notes: lines below the tables.
    """

    facts: Mapping[str, Any]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def show_p(value: float | None) -> str:
    """Return a p-value as tables print it: ``0.012``, ``<0.001``, or ``-`` for `None`."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def p_text(value: float) -> str:
    """Return a p-value as text in sentences: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def level_text(confidence: float) -> str:
    """Return the level of an interval, between 0 and 1, as text in sentences: ``97.5%``."""
    return f"{100 * confidence:g}%"


def show_percent(value: float | None) -> str:
    """Return a Rel Loss, a fraction, as tables print it: ``5.0%``, or ``-`` for `None`."""
    return "-" if value is None else f"{100 * value:z.1f}%"


def show_percent_interval(interval: tuple[float, float] | None) -> str:
    """Return the interval of a Rel Loss as tables print it: ``[4.0, 6.0]``, or ``-`` for `None`."""
    if interval is None:
        return "-"
    low, high = interval
    return f"[{100 * low:z.1f}, {100 * high:z.1f}]"


class Format(NamedTuple):
    """Format of a figure in a table.

    Attributes:
        text: function that returns its text.
        is_marked: whether its mark of significance is shown, and the best figure is bold.
    """

    text: Callable[[Figure], str]
    is_marked: bool = False


class Head(NamedTuple):
    """A row or a column of a table.

    Attributes:
        names: the cells that name it; a column has one.
        where: the selection of its figures, as arguments of `Figures.where`.
        format: the format of its figures; `None` for the format of the cell's other head.
    """

    names: tuple[str, ...]
    where: Mapping[str, object]
    format: Format | None = None


def column_format(column: str, show: Callable[[Any], str], *, is_marked: bool = False) -> Format:
    """Return the format that prints an attribute of a `Figure`.

    Args:
        column: the attribute.
        show: returns the text of its value.
        is_marked: whether its mark of significance is shown, and the best figure is bold.
    """

    def text(figure: Figure) -> str:
        return show(getattr(figure, column))

    return Format(text, is_marked)


REL_LOSS = column_format("value", show_percent, is_marked=True)
"""A fraction in percent."""

PERCENT_ENDS = column_format("interval", show_percent_interval)
"""The interval of a fraction in percent."""

P_VALUE = column_format("p", show_p)
"""A corrected p-value."""


QUERIES = Format("{0.queries:,}".format)
"""The number of queries that count."""

COUNT = Format("{0.value:,.0f}".format)
"""A known number of things."""


def number(digits: int, ends: int | None = None, *, is_marked: bool = False) -> Format:
    """Return the format of a plain number: zero without minus, a dash if not known.

    Args:
        digits: number of decimals.
        ends: number of decimals of its interval; `None` leaves the interval out.
        is_marked: whether its mark of significance is shown, and the best figure is bold.
    """

    def text(figure: Figure) -> str:
        if figure.value is None:
            return "-"
        shown = f"{figure.value:z.{digits}f}"
        if ends is None or figure.interval is None:
            return shown
        low, high = figure.interval
        return f"{shown} [{low:z.{ends}f}, {high:z.{ends}f}]"

    return Format(text, is_marked)


def heads_of(figures: Figures, *columns: str) -> list[Head]:
    """Return a head for each combination of values of columns, in the order of the figures."""
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
    """Return a table with the first figure that each row and column select.

    Args:
        figures: the figures.
        title: one line.
        corner: the header above the names of the rows.
        rows: the rows.
        columns: the columns. A column's format has priority over a row's format. A cell without a
            format is empty, a cell without a figure has a dash.
        ruled: number of a row's names that make a section, with a rule above it and the names once.
        best: the figures printed bold, if their format is marked.
        label: the label in LaTeX; by default its title.
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
                printed.append(figure if shown.is_marked else figure._replace(mark=""))
                cells.append(TableCell(shown.text(figure), is_best, printed[-1].mark))
        lines.append(tuple(cells))
    header = (*corner, *(column.names[0] for column in columns))
    return Table(
        title, header, tuple(lines), frozenset(sections), len(corner), label, note_of(printed)
    )


def tabulate(
    figures: Figures, title: str, rows: Mapping[str, str], columns: Mapping[str, tuple[str, Format]]
) -> Table:
    """Return a table with a row per combination of names, and a column per kind of figure.

    Args:
        figures: the figures; figures of other kinds, or without a name for the row, are left out.
        title: one line.
        rows: columns of `Figures` that name a row -> header.
        columns: kind of figure -> its header and its format.
    """
    shown = figures.where(figure=tuple(columns))
    heads = [Head((name,), {"figure": figure}, form) for figure, (name, form) in columns.items()]
    named = [head for head in heads_of(shown, *rows) if any(head.names)]
    return pivot(shown, title, tuple(rows.values()), named, heads)


def note_of(figures: Iterable[Figure]) -> str:
    """Return the families of p-values, the meaning of marks, and warnings about intervals; or "".

    Args:
        figures: the figures, with only the marks that are printed.
    """
    figures = list(figures)
    families = dict.fromkeys(figure.family for figure in figures if figure.family)
    marks = {figure.mark for figure in figures}
    meaning = f"p at most {SIGNIFICANT}"
    parts = [f"p: {', '.join(families)}"] if families else []
    parts += [f"{STAR}: {meaning}"] if STAR in marks else []
    if DAGGER in marks:
        parts.append(f"{DAGGER}: {meaning}, {QUERIES_ONLY}, of exactly these models, not of others")
    wide = [(row, *row.interval) for row in figures if row.counts and row.interval]
    if any((row.p or 0.0) > SIGNIFICANT and not low <= 0 <= high for row, low, high in wide):
        parts.append(
            "intervals are not corrected for the number of tests: one may exclude 0 where p is "
            f"above {SIGNIFICANT}"
        )
    if any(row.value and low == high for row, low, high in wide):
        parts.append(
            "interval of one point: all queries have the same value, so that there is no variance "
            "to compute an interval or p from"
        )
    return "; ".join(parts)


_DIGITS = 10
"""Significant digits of a number in CSV: enough for every measure, without rounding errors."""

_LATEX_ESCAPES = str.maketrans(
    {
        "%": r"\%",
        "_": r"\_",
        "&": r"\&",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        DAGGER: r"$\dagger$",
        "<": r"$<$",
        ">": r"$>$",
    }
)


_MINUS = re.compile(r"(?<![\w.])-(?=\d)")

_LATEX_MARKS = {"": "", STAR: "$^{*}$", DAGGER: r"$^{\dagger}$"}


def to_text(table: Table, rule: str = "─", *, is_styled: bool = False) -> str:
    """Return the table as text for a terminal, without its title and note.

    Args:
        table: the table.
        rule: the letter of the rule below the header.
        is_styled: whether the best cells are bold, with codes for terminals.
    """

    def width(text: str) -> int:
        if text.isascii():
            return len(text)
        from rich.cells import cell_len

        return cell_len(text)

    def line(cells: Sequence[str], best: Collection[int] = ()) -> str:
        gaps = [
            " " * (column_width - width(text))
            for text, column_width in zip(cells, widths, strict=True)
        ]
        places = enumerate(zip(cells, gaps, strict=True))
        padded = [text + gap if at < table.names else gap + text for at, (text, gap) in places]
        for at in best:
            padded[at] = f"\x1b[1m{padded[at]}\x1b[0m"
        return f"  {'   '.join(padded)}  "

    rows = [[_marked(cell) for cell in row] for row in table.rows]
    widths = [max(map(width, column)) for column in zip(table.header, *rows, strict=True)]
    empty = line([""] * len(widths))
    lines = [empty, line(table.header), f" {rule * (len(empty) - 2)} "]
    for number, row in enumerate(rows):
        if number in table.sections and number:
            lines.append(empty)
        best = [at for at, cell in enumerate(table.rows[number]) if cell.best and is_styled]
        lines.append(line(row, best))
    return "\n".join([*lines, empty]) + "\n"


def _marked(cell: TableCell) -> str:
    return cell.text + cell.mark


_MARKDOWN_MARKUP = re.compile(r"[|*]|(?<![^\W_])_|_(?![^\W_])|<(?=[a-zA-Z/!?])")
"""Markdown syntax of columns, emphasis and tags; an underscore inside a word is none."""


def _markdown_text(text: str) -> str:
    return _MARKDOWN_MARKUP.sub(r"\\\g<0>", text)


def to_markdown(table: Table) -> str:
    """Return the table without its note as GitHub's Markdown, its title as a bold line above."""

    def show(cell: TableCell) -> str:
        text = _markdown_text(_marked(cell))
        return f"**{text}**" if text and cell.best else text

    rule = ["---" if number < table.names else "---:" for number in range(len(table.header))]
    header = list(map(_markdown_text, table.header))
    lines = [f"**{_markdown_text(table.title)}**", "", _pipe(header), _pipe(rule)]
    lines += [_pipe([show(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines) + "\n"


def _pipe(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_html(table: Table) -> str:
    """Return the table without its note as HTML, its title as caption; every text is escaped."""

    def show(cell: TableCell) -> str:
        text = html.escape(_marked(cell))
        return f"<b>{text}</b>" if text and cell.best else text

    head = [f"<th>{html.escape(name)}</th>" for name in table.header]
    rows = [head, *([f"<td>{show(cell)}</td>" for cell in cells] for cells in table.rows)]
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><caption>{html.escape(table.title)}</caption>\n{body}\n</table>"


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Return path -> the path without the first and last parts that all paths share."""
    parts = {name: name.split("/") for name in names if name}
    for end in (0, -1):
        while (
            all(len(part) > 1 for part in parts.values())
            and len({part[end] for part in parts.values()}) == 1
        ):
            for part in parts.values():
                del part[end]
    return {name: "/".join(part) for name, part in parts.items()}


_IF_SCALED = r"\ifcsname adjustbox\endcsname"
"""Start of LaTeX for papers with the package adjustbox only."""


def to_latex(table: Table) -> str:
    r"""Return the table in the layout of the paper's Tables 2 and 3, for booktabs.

    The best figure of a column is ``\textbf``, a significant figure has ``$^{*}$`` or a dagger, and
    the caption ends with the note. Paths are shortened. If the paper loads adjustbox, a wide table
    without `spans` is scaled down.
    """
    short = _short_names(row[0].text for row in table.rows)

    def show(place: int, cell: TableCell) -> str:
        text = (cell.text if place else short.get(cell.text, "")).translate(_LATEX_ESCAPES)
        if place >= table.names:
            text = "--" if text == "-" else _MINUS.sub("$-$", text)
        if text and cell.best:
            text = rf"\textbf{{{text}}}"
        return text + _LATEX_MARKS[cell.mark]

    columns = "l" * table.names + "r" * (len(table.header) - table.names)
    caption = f"{table.title}. {table.note}" if table.note else table.title
    label = re.sub(r"[^a-z0-9]+", "-", (table.label or table.title).lower()).strip("-")
    scaled = not table.spans
    lines = [
        r"% needs \usepackage{booktabs}" + r"; \usepackage{adjustbox} scales it if wide" * scaled,
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption.translate(_LATEX_ESCAPES)}}}",
        rf"\label{{tab:{label}}}",
        *[rf"{_IF_SCALED}\begin{{adjustbox}}{{max width=\linewidth}}\fi"] * scaled,
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_latex_spans(table),
        " & ".join(name.translate(_LATEX_ESCAPES) for name in table.header) + r" \\",
    ]
    for number, row in enumerate(table.rows):
        if number in table.sections or number == 0:
            lines.append(r"\midrule")
        lines.append(" & ".join(starmap(show, enumerate(row))) + r" \\")
    end = [rf"{_IF_SCALED}\end{{adjustbox}}\fi"] * scaled
    lines += [r"\bottomrule", r"\end{tabular}", *end, r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_spans(table: Table) -> Iterator[str]:
    """Yield the line of titles above columns, and the rules below them; nothing without `spans`."""
    titles, rules, first = [""] * table.names, [], table.names + 1
    for title, columns in table.spans:
        titles.append(rf"\multicolumn{{{columns}}}{{c}}{{{title.translate(_LATEX_ESCAPES)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + columns - 1}}}")
        first += columns
    if rules:
        yield " & ".join(titles) + r" \\"
        yield " ".join(rules)


RENDERERS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"markdown": to_markdown, "latex": to_latex, "latex-full": to_latex}
)
"""The text formats of tables."""


def render_notes(lines: Sequence[str], table_format: str) -> str:
    """Return the notes below a table, for one of `RENDERERS`.

    Notes are a list in Markdown, and comments in LaTeX.
    """
    if table_format != "markdown":
        return "".join(f"% {line}\n" for line in lines)
    return "".join(f"- {_markdown_text(line)}\n" for line in lines)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Return rows as CSV with a header line; `None` and NaN are empty fields."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_written, row) for row in rows)
    return out.getvalue()


def _written(value: str | float | None) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value + 0.0:.{_DIGITS}g}"
    return "" if value is None else str(value)


_SCHEMA = 3


def report_head() -> dict[str, Any]:
    """Return a report's head: the versions of its layout and of this package.

    The layout's version changes when programs that read reports must change.
    """
    return {"schema": _SCHEMA, "msshift_bench": __version__}


def with_head(table: pa.Table, head: Mapping[str, Any]) -> pa.Table:
    """Return a table with a report's head in its schema, as JSON under ``msshift_bench``."""
    return table.replace_schema_metadata(
        {"msshift_bench": json.dumps(head, ensure_ascii=False, allow_nan=False)}
    )


def figure_values(figure: Figure) -> dict[str, Any]:
    """Return a figure's fields that are neither "" nor `None`, as JSON values."""
    return {name: plain(v) for name, v in figure._asdict().items() if v not in ("", None)}


def plain(value: Any) -> Any:
    """Return a value for JSON: dataclasses, named tuples as objects, NaN and infinities as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
