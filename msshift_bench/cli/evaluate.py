"""``msshift evaluate``: what the systems of run sets score and lose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.layout import Command
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


@options.with_values
def evaluate(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems)."
        ),
    ],
    scoring: options.Scoring,
    checking: options.Checking,
    printing: options.Printing,
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    also_test: options.AlsoTest = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break the results down by the labels in this file (lines of query_id, tab, "
            "label), or by the groups of a shift of the data set, e.g. wh-words."
        ),
    ] = None,
    without_leaked: options.WithoutLeaked = None,
    delta: Annotated[
        bool,
        typer.Option(
            "--delta",
            help="Print Inter., Extra. and Delta = Extra. / Inter. - 1, one row per system, in "
            "place of Avg In, Out and Rel Loss per group. They are the same figures: Delta is "
            "minus Rel Loss.",
        ),
    ] = False,
    per_query: options.PerQuery = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the losses with their intervals, and the matrix of every system, to "
            "this file: .svg, .png or .pdf."
        ),
    ] = None,
) -> None:
    """Evaluate run sets: Avg In, Out and Rel Loss with intervals, for every shift and system.

    Avg In of a group is the mean score of the models that saw the group in training, Out is the
    score of the model that did not, and Rel Loss = (Avg In - Out) / Avg In. Intervals and p-values
    count other queries and other seeds (`seed-<n>` folders). With one seed they count queries
    only, and say so. Run files alone are for `msshift score`.

    With --also-test, run sets are scored on extra test sets in place of the shifts' own: every
    model, and their mean. The runs are those of `msshift run --also-test`. For variants of
    queries, e.g. with typing errors, it prints what every model loses on them.

    With --without-leaked, every figure is also computed without the test queries that leaked into
    the training queries, and the difference has an interval.

    Example: `msshift evaluate runs/ --measures "RR@10 nDCG@10" --output figures.json`

    Example: `msshift evaluate runs/ --plot losses.svg`

    Example: `msshift evaluate runs/ --delta --measures "RR@10 R@100"`

    Example: `msshift evaluate runs/ --without-leaked found/`

    Example: `msshift evaluate runs/ --also-test dl19=./dl19 --measures "nDCG@10 R@1000"`
    """
    from msshift_bench.data import Dataset, locate, open_dataset
    from msshift_bench.evaluation import evaluate_also_tests, evaluate_run_sets, read_labels
    from msshift_bench.plumbing import in_line, keep_freed_memory, progress_bars, write_parquet

    keep_freed_memory()
    printing.check()
    if plot is not None:
        from msshift_bench.output import check_plot

        check_plot(plot)
    folders = options.extra_folders(also_test)
    alone = {
        "--by": by,
        "--per-query": per_query,
        "--plot": plot,
        "--delta": delta or None,
        "--without-leaked": without_leaked,
    }
    for option in (name for name, value in alone.items() if folders and value is not None):
        raise UsageError(f"{option} and --also-test do not go together; leave one of them out")
    if delta and by is not None:
        raise UsageError("--delta is for whole run sets, without --by")
    inputs = [locate(data), *folders.values()]
    inputs += [] if by is None else [Path(by)]
    inputs += [] if without_leaked is None else [without_leaked]
    check_outputs(printing.output, per_query, plot, runs=runs, inputs=inputs)
    settings, allow = scoring.settings(), checking.allow or ()
    if folders:
        printing.show(evaluate_also_tests(runs, folders, data, shift or (), settings, allow=allow))
        return
    dataset: Dataset | str = data if by is None and without_leaked is None else open_dataset(data)
    without = None
    if without_leaked is not None:
        from msshift_bench.leakage import read_left_out

        without = read_left_out(without_leaked, dataset)
    with progress_bars(), in_line("evaluating"):
        result = evaluate_run_sets(
            runs,
            dataset,
            shift or (),
            settings,
            labels=None if by is None else read_labels(by, dataset),
            without=without,
            allow=allow,
        )
    # Files come first: the pipe that the tables go to may close, and end the command.
    if plot is not None:
        from msshift_bench.report import draw_result

        draw_result(result, plot)
        note(f"wrote {plot}")
    if per_query is not None:
        write_parquet(per_query, result.per_query())
        note(f"wrote {per_query}")
    printing.show(result, delta=delta, matrices=printing.format == "text")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("evaluate", cls=Command)(evaluate)
