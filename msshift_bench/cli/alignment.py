"""``msshift analyse alignment``: does extrapolation say how models do elsewhere?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError

__all__ = ["register"]


def alignment(
    scores: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV file, or one with tabs: columns model, interpolation, extrapolation, and "
            "one for each test set elsewhere."
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="Take the figures that Zhan et al. (2022) print."),
    ] = False,
    output: options.Output = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the points, as in Figure 2 of the paper: .svg, .png or .pdf."),
    ] = None,
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Say whether extrapolation says how models do elsewhere, better than interpolation does.

    For every test set elsewhere: Spearman's and Kendall's correlations of the models' interpolation
    and extrapolation with their scores there, the difference, and two tests of it that know that
    both are of the same models. `docs/analysis.md` explains it.

    Example: `msshift analyse alignment --published`

    Example: `msshift analyse alignment scores.csv --plot points.svg --output alignment.json`
    """
    chosen = choose_format(table_format, as_json=as_json)
    if published == (scores is not None):
        raise UsageError("give a file of scores, or --published for the paper's own figures")
    check_outputs(output, plot, inputs=[] if scores is None else [scores])
    if plot is not None:
        from msshift_bench.output import check_plot

        check_plot(plot)
    from msshift_bench.analysis import align_scores, alignment_panels, read_model_scores

    if scores is None:
        from msshift_bench.analysis import align_published

        found = align_published()
    else:
        found = align_scores(read_model_scores(scores), str(scores))
    # Files come first: whoever reads the tables may stop before their end.
    if output is not None:
        from msshift_bench.plumbing import write_json

        write_json(output, found.to_json())
        note(f"wrote {output}")
    if plot is not None:
        note(f"wrote {found.plot(plot)}")
    panels = alignment_panels(found)
    notes = [line for _, lines in panels for line in lines]
    if not print_values(found, chosen, notes):
        for tables, lines in panels:
            print_tables(tables, lines, chosen)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {"Output": ("table_format", "as_json", "output", "plot")}
    app.command("analyse alignment", cls=in_panels(panels))(alignment)
