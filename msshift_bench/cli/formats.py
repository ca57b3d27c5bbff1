"""Results on stdout: tables with the notes below them, in several formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from msshift_bench.cli.console import print_json, print_notes, print_table
from msshift_bench.errors import UnknownNameError

if TYPE_CHECKING:
    from msshift_bench.output import Table

__all__ = ["ResultFormat", "print_result", "print_tables"]

_FORMATS = ("text", "markdown", "latex", "json")


def _known(chosen: str) -> str:
    if chosen not in _FORMATS:
        raise UnknownNameError("format", chosen, _FORMATS)
    return chosen


ResultFormat = Annotated[
    str,
    typer.Option(
        "--format", callback=_known, help=f"How results are printed: {', '.join(_FORMATS)}."
    ),
]
"""The format of a result that has no figures; it is checked before anything is computed."""


class _Tables(Protocol):
    def tables(self) -> Sequence[Table]: ...
    def notes(self) -> Sequence[str]: ...
    def to_json(self) -> dict[str, Any]: ...


def print_result(result: _Tables, chosen: str) -> None:
    """Print a result as JSON, or its tables with the notes below them."""
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
