"""Results as text: tables as text, Markdown or LaTeX; CSV; JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench._version import __version__
from msshift_bench.output.tables import Table, TableCell
from msshift_bench.stats import DAGGER, STAR

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "RENDERERS",
    "csv_text",
    "plain",
    "render_notes",
    "report_head",
    "to_latex",
    "to_markdown",
    "to_text",
    "with_head",
]

_DIGITS = 10
"""Significant digits of a number in CSV: more than any measure has, fewer than rounding shows."""

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


_LATEX_MARKS = {"": "", STAR: "$^{*}$", DAGGER: r"$^{\dagger}$"}


def to_text(table: Table, rule: str = "─", *, is_styled: bool = False) -> str:
    """Return the table as a terminal shows it, without its title.

    Args:
        table: the table.
        rule: the letter that the rule below the header is made of.
        is_styled: whether the best cells are bold, by the codes of terminals.
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
    columns = zip(table.header, *rows, strict=True)
    widths = [max(map(width, column)) for column in columns]
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


def to_markdown(table: Table) -> str:
    """Return the table as GitHub's Markdown, its title as a bold line above."""

    def show(cell: TableCell) -> str:
        text = _marked(cell).replace("|", r"\|").replace("*", r"\*")
        return f"**{text}**" if text and cell.best else text

    rule = ["---" if number < table.names else "---:" for number in range(len(table.header))]
    lines = [f"**{table.title}**", "", _pipe(table.header), _pipe(rule)]
    lines += [_pipe([show(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines) + "\n"


def _pipe(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_latex(table: Table) -> str:
    r"""Return the table in the layout of the paper's Tables 2 and 3, for booktabs.

    The best figure of a column is ``\textbf``, a significant loss carries ``$^{*}$``; the caption
    ends with what p-values are corrected over.
    """

    def show(cell: TableCell) -> str:
        text = cell.text.translate(_LATEX_ESCAPES)
        if text and cell.best:
            text = rf"\textbf{{{text}}}"
        return text + _LATEX_MARKS[cell.mark]

    columns = "l" * table.names + "r" * (len(table.header) - table.names)
    caption = f"{table.title}. {table.note}" if table.note else table.title
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption.translate(_LATEX_ESCAPES)}}}",
        rf"\label{{tab:{_slug(table.label or table.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(name.translate(_LATEX_ESCAPES) for name in table.header) + r" \\",
    ]
    for number, row in enumerate(table.rows):
        if number in table.sections or number == 0:
            lines.append(r"\midrule")
        lines.append(" & ".join(show(cell) for cell in row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


RENDERERS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"markdown": to_markdown, "latex": to_latex}
)
"""The text formats of tables."""

_NOTES = {"markdown": "- ", "latex": "% "}


def render_notes(lines: Sequence[str], table_format: str) -> str:
    """Return the notes below a table, for one of `RENDERERS`.

    They are a list in Markdown, and comments in LaTeX.
    """
    return "".join(f"{_NOTES[table_format]}{line}\n" for line in lines)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Return rows as CSV with a header line; what is not known is an empty field."""
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
    """Return a report's head: the version of its layout, and of the package that wrote it.

    The layout's version changes when readers of the report must change.
    """
    return {"schema": _SCHEMA, "msshift_bench": __version__}


def with_head(table: pa.Table, head: Mapping[str, Any]) -> pa.Table:
    """Return a table whose schema carries a report's head, as JSON under ``msshift_bench``."""
    text = json.dumps(head, ensure_ascii=False, allow_nan=False)
    return table.replace_schema_metadata({"msshift_bench": text})


def plain(value: Any) -> Any:
    """Return a value for JSON: dataclasses become objects, NaN and infinities null."""
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
