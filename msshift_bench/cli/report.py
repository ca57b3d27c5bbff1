"""``msshift report``: figures of what run sets lose, on one page and as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, warn
from msshift_bench.cli.layout import in_panels
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.report import WrittenReport

__all__ = ["print_report_files", "register"]


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems)."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The folder to write; a report there is replaced.")
    ] = Path("report"),
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: Annotated[
        str,
        typer.Option(
            help="Measures by ir_measures' names; figures show the first one, tables all of them."
        ),
    ] = "RR@10",
    ties: options.Ties = "trec",
    missing: options.Missing = "zero",
    correction: options.Correction = "holm",
    average: options.Average = None,
    seed_variance: options.SeedVariance = "own",
    strict: options.Strict = False,
    allow_partial: options.AllowPartial = False,
    allow_identical: options.AllowIdentical = False,
    force_data: options.ForceData = False,
    no_links: Annotated[
        bool,
        typer.Option(
            "--no-links",
            help="Leave out what is lost against the similarity to the training queries, which "
            "takes longest, and needs the extra `analysis`.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Draw what run sets lose: one page to read and print, and every figure as a file.

    `report.html` holds everything that it needs, opens from a disk, and asks nothing of any server.
    Beside it, `figures/` holds each figure as SVG, PNG and PDF, with its numbers as CSV, and
    `tables/` the tables in the paper's layout as LaTeX and CSV. A figure whose data are not there
    is left out; the command and the page say which, and what would bring it.

    Example: `msshift report runs/ --out report`
    """
    from msshift_bench.evaluation import Settings
    from msshift_bench.plumbing import check_folder, progress_bars
    from msshift_bench.report import write_report

    check_folder(out)
    settings = Settings(
        measures=measures,
        ties=ties,
        missing=missing,
        strict=strict,
        correction=correction,
        average=average,
        seed_variance=seed_variance,
    )
    with progress_bars() as progress:
        written = write_report(
            runs,
            out,
            data,
            shift or (),
            settings,
            allow_partial=allow_partial,
            allow_identical=allow_identical,
            force_data=force_data,
            links=not no_links,
            progress=progress,
        )
    if as_json:
        from msshift_bench.output import plain

        print_json(plain({**plain(written), "page": str(written.page)}))
    else:
        print_report_files(written)
    warn(written.remarks)


def print_report_files(written: WrittenReport) -> None:
    """Print where a report is, what it holds, and what is left out of it."""
    figures, tables = len(written.figures), len(written.tables)
    print(f"open {written.page}")
    print(f"  {figures} figures in {written.page.parent / 'figures'}: .svg, .png, .pdf, .csv")
    print(f"  {tables} table{'s' * (tables > 1)} in {written.page.parent / 'tables'}: .tex, .csv")
    for left in written.left_out:
        note(f"left out: {left.title}: {left.why}; what would bring it: {left.remedy}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Statistics": ("ties", "missing", "correction", "average", "seed_variance"),
        "Checks": ("strict", "allow_partial", "allow_identical", "force_data"),
        "Figures": ("no_links",),
        "Output": ("out", "as_json"),
    }
    app.command("report", cls=in_panels(panels))(report)
