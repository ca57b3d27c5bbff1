"""``msshift evaluate``: run sets in; Avg In, Out and Rel Loss out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli.console import note, print_json, print_table, stdout
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.report import Report
    from msshift_bench.scoring import Settings

__all__ = ["evaluate_run_sets", "print_report", "register"]

FORMATS = ("text", "markdown", "latex", "csv", "json")


def evaluate(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders: a system's (<system>/<shift>/...), or one of several."),
    ],
    data: Annotated[
        str, typer.Option(help="The built data set; MSSHIFT_HOME or ./msshift by default.")
    ] = DATASET_NAME,
    shift: Annotated[
        list[str] | None, typer.Option(help="Only this shift; may be repeated.")
    ] = None,
    measures: Annotated[
        str, typer.Option(help="Measures as ir_measures names them, separated by spaces.")
    ] = "RR@10",
    ties: Annotated[str, typer.Option(help="How equal scores are ordered.")] = "trec",
    missing: Annotated[
        str, typer.Option(help="Test queries that a run does not hold: zero, skip or error.")
    ] = "zero",
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap resamples for the intervals; 0 for none.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
    correction: Annotated[
        str, typer.Option(help="Of the p-values across groups: holm or benjamini-hochberg.")
    ] = "holm",
    strict: Annotated[bool, typer.Option(help="Make warnings about a run file errors.")] = False,
    allow_partial: Annotated[
        bool, typer.Option(help="Compute what can be computed without the missing run files.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write the whole report as JSON to this file.")
    ] = None,
    table_format: Annotated[
        str, typer.Option("--format", help=f"Of the tables: {', '.join(FORMATS)}.")
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Evaluate run sets: Avg In, Out, Rel Loss with their intervals, for every shift and system.

    For each group of a shift, Avg In is the mean score of the models that saw the group in
    training, Out the score of the one that did not, Rel Loss = (Avg In - Out) / Avg In.

    Example: `msshift evaluate runs/ --measures "RR@10 nDCG@10" --output report.json`
    """
    from msshift_bench.files import write_json
    from msshift_bench.scoring import Settings

    chosen = "json" if as_json else table_format
    if chosen not in FORMATS:
        raise UnknownNameError("format", chosen, FORMATS)
    settings = Settings(
        measures=tuple(measures.replace(",", " ").split()),
        ties=ties,
        missing=missing,
        strict=strict,
        resamples=resamples,
        seed=seed,
        correction=correction,
    )
    report = evaluate_run_sets(runs, data, shift, settings, allow_partial=allow_partial)
    if output is not None:
        write_json(output, report.to_json())
        note(f"wrote {output}")
    print_report(report, chosen)


def evaluate_run_sets(
    runs: list[Path],
    data: str | Path,
    shifts: list[str] | None,
    settings: Settings,
    *,
    allow_partial: bool = False,
) -> Report:
    """Find run sets and evaluate them on a built data set.

    Raises:
        UsageError: if none of the run sets is of the shifts that are asked for.
    """
    from msshift_bench.evaluation import Evaluator
    from msshift_bench.report import Report
    from msshift_bench.runsets import find_run_sets
    from msshift_bench.shifts import get_shift

    wanted = {get_shift(name).name for name in shifts or ()}
    run_sets = find_run_sets(runs)
    selected = [run_set for run_set in run_sets if not wanted or run_set.shift.name in wanted]
    if not selected:
        held = ", ".join(dict.fromkeys(run_set.shift.name for run_set in run_sets))
        raise UsageError(f"no run set of {', '.join(sorted(wanted))}; the folders hold {held}")
    evaluators: dict[str, Evaluator] = {}
    results = []
    for run_set in selected:
        name = run_set.shift.name
        if name not in evaluators:
            evaluators[name] = Evaluator.from_dataset(name, data, settings)
        results.append(evaluators[name].evaluate(run_set, allow_partial=allow_partial))
    return Report(next(iter(evaluators.values())).data, settings, results)


def print_report(report: Report, table_format: str = "text") -> None:
    """Print a report's tables: per shift and measure the losses, then each system's matrix."""
    from msshift_bench.rendering import FORMATS as RENDERERS
    from msshift_bench.tables import loss_table, matrix_table, notes

    if table_format == "json":
        print_json(report.to_json())
        return
    console = stdout()
    for shift, results in report.by_shift().items():
        for measure in report.settings.measures:
            table = loss_table(report, shift, measure)
            if table_format != "text":
                print(RENDERERS[table_format](table))
                continue
            trained = [r for r in results if any(run.held_out for run in r.scores.runs)]
            for drawn in (table, *(matrix_table(result, measure) for result in trained)):
                print_table(drawn)
        if table_format == "text":
            for line in notes(report, results):
                console.print(f"  {line}", style="dim", markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("evaluate")(evaluate)
