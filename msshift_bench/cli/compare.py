"""``msshift compare``: which of several systems is better, and which loses less?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.layout import Command
from msshift_bench.cli.targets import check_outputs
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


@options.with_values
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(help="Folders of systems, or a folder that holds several."),
    ],
    scoring: options.Scoring,
    checking: options.Checking,
    printing: options.Printing,
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Compare the others with this system (its name or its folder) alone. Default: "
            "every two are compared."
        ),
    ] = None,
) -> None:
    """Compare systems: what they score, and what they lose.

    Every two systems are compared by Avg In, Out and Rel Loss, on each group and on a shift as a
    whole: the difference with an interval and a corrected p-value, which count other queries and
    other seeds. A system that was not trained per group, such as BM25, has no Rel Loss. Systems
    are ranked by their average Rel Loss as far as the data tell them apart; one with a single seed
    gets no star and no rank. Run files are compared by `msshift score --reference`.

    Example: `msshift compare runs/bi-encoder runs/splade-max`

    Example: `msshift compare runs/ --reference bm25 --format markdown`
    """
    from msshift_bench.data import locate
    from msshift_bench.evaluation import compare_run_sets
    from msshift_bench.plumbing import in_line, keep_freed_memory, progress_bars
    from msshift_bench.runs import find_run_sets

    keep_freed_memory()
    printing.check()
    read = list(runs)
    if printing.output is not None:
        folders = [run for run in runs if Path(run).is_dir()]
        systems = {run_set.system for run_set in find_run_sets(folders)} if folders else set()
        if reference is not None and Path(reference).exists() and reference not in systems:
            read.append(reference)
    check_outputs(printing.output, runs=read, inputs=[locate(data)])
    with progress_bars(), in_line("evaluating"):
        result = compare_run_sets(
            runs,
            data,
            shift or (),
            scoring.settings(),
            reference=reference,
            allow=checking.allow or (),
        )
    printing.show(result)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("compare", cls=Command)(compare)
