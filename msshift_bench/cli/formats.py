"""The formats of results on stdout: ``--format``, and ``--json`` for short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.errors import UnknownNameError

if TYPE_CHECKING:
    from msshift_bench.output import LongTable, Table

__all__ = [
    "ResultFormat",
    "TableFormat",
    "choose_format",
    "print_result",
    "print_values",
    "print_tables",
]

_FORMATS = ("text", "markdown", "latex", "csv", "json")

TableFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"How results are printed: {', '.join(_FORMATS)}. csv is one long table of numbers, "
        "a row per figure; its notes go to stderr.",
    ),
]


_NO_CSV = tuple(name for name in _FORMATS if name != "csv")

ResultFormat = Annotated[
    str, typer.Option("--format", help=f"How results are printed: {', '.join(_NO_CSV)}.")
]


class _Tables(Protocol):
    def tables(self) -> Sequence[Table]: ...
    def notes(self) -> Sequence[str]: ...
    def to_json(self) -> dict[str, Any]: ...


class _Result(Protocol):
    @property
    def remarks(self) -> Sequence[str]: ...
    def to_json(self) -> dict[str, Any]: ...
    def tidy(self) -> LongTable: ...


def choose_format(table_format: str, *, as_json: bool) -> str:
    """Return the format that ``--format`` and ``--json`` ask for.

    Raises:
        UnknownNameError: if there is no such format.
    """
    if table_format not in _FORMATS:
        raise UnknownNameError("format", table_format, _FORMATS)
    return "json" if as_json else table_format


def print_values(result: _Result, chosen: str, notes: Sequence[str]) -> bool:
    """Print a result as JSON or CSV if that was chosen.

    Args:
        result: the result.
        chosen: the format.
        notes: what tables have below them, which JSON holds already. Remarks are left out, since
            they are printed as warnings in any case.

    Returns:
        Whether it was.
    """
    if chosen == "json":
        print_json(result.to_json())
    elif chosen == "csv":
        print(result.tidy().to_csv(), end="")
        for line in notes:
            if line not in result.remarks:
                note(line)
    return chosen in ("json", "csv")


def print_result(result: _Tables, chosen: str) -> None:
    """Print a result as JSON, or its tables with the notes below them.

    Raises:
        UnknownNameError: if there is no such format.
    """
    if chosen not in _NO_CSV:
        raise UnknownNameError("format", chosen, _NO_CSV)
    if chosen == "json":
        print_json(result.to_json())
    else:
        print_tables(result.tables(), result.notes(), chosen)


def print_tables(tables: Iterable[Table], notes: Sequence[str], chosen: str) -> None:
    """Print tables and the notes below them, as text, Markdown or LaTeX."""
    from msshift_bench.output import RENDERERS, render_notes

    cells = []
    for table in tables:
        cells += [cell for row in table.rows for cell in row]
        if chosen == "text":
            print_table(table)
        else:
            print(RENDERERS[chosen](table))
    if chosen == "text":
        print_notes(notes)
        return
    bold = []
    if any(cell.best for cell in cells):
        bold.append("bold: the best of the systems that were trained per group")
    print(render_notes([*notes, *bold], chosen))
