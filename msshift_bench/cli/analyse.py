"""``msshift analyse``: does what systems lose depend on how similar queries are to training?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, warn
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.analysis import Analysis

__all__ = ["register"]


def analyse(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems)."
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="Analyse the figures that the paper prints instead."),
    ] = False,
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: options.Measures = "RR@10 ASL@100",
    indicator: Annotated[
        list[str] | None,
        typer.Option(
            help="An indicator of similarity; repeat it for several. `msshift list` lists them. "
            "Default: those that need nothing but the queries.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="The groups' queries that are compared: test, train, or all.")
    ] = "test",
    control: Annotated[
        str | None,
        typer.Option(
            help="What tells how difficult queries are: an indicator, or a system among the runs "
            "that was not trained per group. Default: the first such system."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder of mean-cosine and nearest-query; see similarity --help."),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="The bi-encoders of model-based: run sets made with `msshift baseline run "
            "--keep-model`."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(help="Intervals in which losses of queries are shown.")] = 6,
    allow_identical: options.AllowIdentical = False,
    force_data: options.ForceData = False,
    output: options.Output = None,
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Say whether losses depend on similarity to the training queries, and how sure that is.

    For every shift: Rel Loss against the similarity of the groups, with a line, its test, and rank
    correlations, each with its interval; the losses of queries in intervals of an indicator; how
    much is lost on queries with words that were never met in training; and the loss that the test
    sets can show. Below each table stands a plain verdict with its evidence. Groups are the
    witnesses, not queries. `docs/analysis.md` explains it.

    `msshift predict` takes what --output writes.

    Example: `msshift analyse --published`

    Example: `msshift analyse runs/ --shift wh-words --output analysis.json`
    """
    from msshift_bench.data import locate

    chosen = choose_format(table_format, as_json=as_json)
    if published == bool(runs):
        raise UsageError("give folders of run sets, or --published for the paper's own figures")
    read = [] if models is None else [models]
    if not published:
        read.append(Path(locate(data)))
    check_outputs(output, runs=runs or (), inputs=read)
    if published:
        from msshift_bench.analysis import analyse_published

        found = analyse_published()
    else:
        from msshift_bench.analysis import analyse_run_sets
        from msshift_bench.evaluation import Settings
        from msshift_bench.plumbing import in_line, progress_bars

        given = {"encoder": encoder, "models": models}
        said: Any = {name: value for name, value in given.items() if value is not None}
        with progress_bars() as progress:
            said["progress"] = in_line(progress, "analysing")
            found = analyse_run_sets(
                runs or (),
                data,
                shift or (),
                Settings(measures=measures),
                indicators=indicator or (),
                split=split,
                control=control,
                bins=bins,
                allow_identical=allow_identical,
                force_data=force_data,
                **said,
            )
    # The file comes first: whoever reads the tables may stop before their end.
    if output is not None:
        from msshift_bench.plumbing import with_checksum, write_json

        write_json(output, with_checksum(found.to_json()))
        note(f"wrote {output}")
    _print(found, chosen)


def _print(found: Analysis, chosen: str) -> None:
    from msshift_bench.analysis import analysis_panels

    panels = analysis_panels(found)
    notes = list(dict.fromkeys(line for _, lines in panels for line in lines))
    if not print_values(found, chosen, notes):
        for tables, lines in panels:
            print_tables(tables, lines, chosen)
    if found.data is not None:
        warn(found.remarks)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Indicators": ("indicator", "split", "encoder", "models", "control", "bins"),
        "Checks": ("allow_identical", "force_data"),
        "Output": ("table_format", "as_json", "output"),
    }
    app.command("analyse", cls=in_panels(panels))(analyse)
