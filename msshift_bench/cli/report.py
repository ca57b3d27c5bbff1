"""``msshift report``: pictures of what run sets lose, on one page and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, warn
from msshift_bench.cli.layout import Command
from msshift_bench.errors import UnknownNameError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.report import WrittenReport

__all__ = ["register"]


@options.with_values
def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems)."
        ),
    ],
    scoring: options.Scoring,
    checking: options.Checking,
    out: Annotated[
        Path, typer.Option(help="The folder to write; a report there is replaced.")
    ] = Path("report"),
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    no_links: Annotated[
        bool,
        typer.Option(
            "--no-links",
            help="Leave out what is lost against the similarity to the training queries, which "
            "takes longest.",
        ),
    ] = False,
    format: Annotated[  # noqa: A002
        str, typer.Option(help="How what was written is printed: text or json.")
    ] = "text",
) -> None:
    """Draw what run sets lose: one page to read and print, and every picture as a file.

    `report.html` holds everything that it needs, opens from a disk, and asks nothing of any server.
    Beside it, `figures/` holds each picture as SVG, PNG and PDF, with its numbers as CSV, and
    `tables/` the tables in the paper's layout as LaTeX and CSV. A picture whose data are not there
    is left out; the command and the page say which, and what would bring it.

    Example: `msshift report runs/ --out report`
    """
    from msshift_bench.plumbing import check_folder, progress_bars
    from msshift_bench.report import write_report

    if format not in ("text", "json"):
        raise UnknownNameError("format", format, ("text", "json"))
    check_folder(out)
    with progress_bars():
        written = write_report(
            runs,
            out,
            data,
            shift or (),
            scoring.settings(),
            allow=checking.allow or (),
            links=not no_links,
        )
    if format == "json":
        from msshift_bench.output import plain

        print_json(plain({**plain(written), "page": str(written.page)}))
    else:
        _print_written(written)
    warn(written.doubts)


def _print_written(written: WrittenReport) -> None:
    """Print where a report is, what it holds, and what is left out of it."""
    pictures, tables = len(written.figures), len(written.tables)
    print(f"open {written.page}")
    print(f"  {pictures} figures in {written.page.parent / 'figures'}: .svg, .png, .pdf, .csv")
    print(f"  {tables} table{'s' * (tables > 1)} in {written.page.parent / 'tables'}: .tex, .csv")
    for title, why, remedy in written.left_out:
        note(f"left out: {title}: {why}; what would bring it: {remedy}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("report", cls=Command)(report)
