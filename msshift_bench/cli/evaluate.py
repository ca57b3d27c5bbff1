"""``msshift evaluate``: score run sets and single run files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, warn
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.score_effect import leakage_of, print_effect
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.evaluation import (
        EvaluatedRuns,
        ExtraTestReport,
        JudgedQueries,
        Report,
        Settings,
        SystemResult,
        VariantReport,
    )
    from msshift_bench.leakage import LeakageEffect

__all__ = ["choose_test_set", "print_report", "register"]


def evaluate(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems). "
            "With --test or --qrels: run files, or - for standard input."
        ),
    ],
    test: options.TestConfig = None,
    qrels: options.TestQrels = None,
    also_test: options.AlsoTest = None,
    run_format: options.RunFormat = "auto",
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: options.Measures = "RR@10",
    ties: options.Ties = "trec",
    missing: options.Missing = "zero",
    correction: options.Correction = "holm",
    average: options.Average = None,
    seed_variance: options.SeedVariance = "own",
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="For run files, print the 95% interval over queries beside each mean. Run sets, "
            "csv and JSON always have intervals.",
        ),
    ] = False,
    strict: options.Strict = False,
    allow_partial: options.AllowPartial = False,
    allow_identical: options.AllowIdentical = False,
    force_data: options.ForceData = False,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break the results down by the labels in this file (lines of query_id, tab, "
            "label), or by the groups of a shift of the data set, e.g. wh-words."
        ),
    ] = None,
    output: options.Output = None,
    per_query: Annotated[
        Path | None, typer.Option(help="Also write every query's scores to this Parquet file.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the losses with their intervals, and the matrix of every system, to "
            "this file: .svg, .png or .pdf."
        ),
    ] = None,
    delta: Annotated[
        bool,
        typer.Option(
            "--delta",
            help="Print Inter., Extra. and Delta = Extra. / Inter. - 1, one row per system, in "
            "place of Avg In, Out and Rel Loss per group. They are the same figures: Delta is "
            "minus Rel Loss.",
        ),
    ] = False,
    leakage: Annotated[
        Path | None,
        typer.Option(
            help="Also print every score without the test queries that leaked, and the difference: "
            "what `msshift leakage find` wrote, its folder or `candidates.parquet`."
        ),
    ] = None,
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Evaluate run sets, or single run files.

    For run sets, it prints Avg In, Out and Rel Loss with intervals, for every shift and system.
    Avg In of a group is the mean score of the models that saw the group in training, Out is the
    score of the model that did not, and Rel Loss = (Avg In - Out) / Avg In. Intervals and p-values
    count other queries and other seeds (`seed-<n>` folders). With one seed they count queries
    only, and say so.

    Run files are scored on one test set, or on any qrels.

    With --also-test, run sets are scored on extra test sets in place of the shifts' own: every
    model, and their mean. The runs are those of `msshift baseline run --also-test`. For variants of
    queries, e.g. with typing errors, it prints what every model loses on them.

    Example: `msshift evaluate runs/ --measures "RR@10 nDCG@10" --output report.json`

    Example: `msshift evaluate runs/ --plot losses.svg`

    With --leakage, every score is also computed without the test queries that leaked into the
    training queries, and the difference has an interval.

    Example: `msshift evaluate runs/ --delta --measures "RR@10 R@100"`

    Example: `msshift evaluate runs/ --leakage found/`

    Example: `msshift evaluate my.run.gz --test length-short`

    Example: `msshift evaluate my.run.gz --qrels qrels.txt --measures "RR@10 R@1000"`

    Example: `msshift evaluate runs/ --also-test dl19=./dl19 --measures "nDCG@10 R@1000"`
    """
    from msshift_bench.data import locate
    from msshift_bench.evaluation import Settings
    from msshift_bench.plumbing import keep_freed_memory

    keep_freed_memory()
    chosen = choose_format(table_format, as_json=as_json)
    _check_plot(plot, single=test is not None or qrels is not None)
    folders = options.extra_folders(also_test)
    given = {
        "--test": test,
        "--qrels": qrels,
        "--by": by,
        "--per-query": per_query,
        "--plot": plot,
        "--delta": delta or None,
        "--leakage": leakage,
    }
    for option in (name for name, value in given.items() if folders and value is not None):
        raise UsageError(f"{option} and --also-test do not go together; leave one of them out")
    check_outputs(
        output,
        per_query,
        plot,
        runs=runs,
        inputs=[
            qrels or locate(data),
            *([] if by is None else [Path(by)]),
            *([] if leakage is None else [leakage]),
            *folders.values(),
        ],
    )
    settings = Settings(
        measures=measures,
        ties=ties,
        missing=missing,
        strict=strict,
        run_format=run_format,
        correction=correction,
        average=average,
        seed_variance=seed_variance,
    )
    if folders:
        extra = _evaluate_extra(
            runs,
            folders,
            data,
            shift or (),
            settings,
            allow_partial=allow_partial,
            allow_identical=allow_identical,
            force_data=force_data,
        )
        _write_json(extra, output)
        if not print_values(extra, chosen, extra.notes()):
            print_tables(extra.tables(), extra.notes(), chosen)
        warn(extra.remarks)
        return
    test_set = choose_test_set(test, qrels, data, runs)
    if delta and (test_set is not None or by is not None):
        raise UsageError("--delta is for whole run sets, without --test, --qrels and --by")
    found: Report | EvaluatedRuns
    if test_set is None:
        found = _evaluate_run_sets(
            runs,
            data,
            shift,
            settings,
            by,
            allow_partial=allow_partial,
            allow_identical=allow_identical,
            force_data=force_data,
        )
        effect = leakage_of(found, leakage, data)
        # Files come first: the pipe that the tables go to may close, and end the command.
        if plot is not None:
            found.plot(plot)
            note(f"wrote {plot}")
        _write(found, output, per_query, effect)
        if effect is None or not print_values(effect, chosen, effect.notes()):
            print_report(found, chosen, delta=delta)
            print_effect(effect, chosen)
    else:
        found = _evaluate_runs(runs, test_set, settings, by, shift, force_data=force_data)
        effect = leakage_of(found, leakage, None if qrels is not None else data)
        _write(found, output, per_query, effect)
        lines = found.notes(intervals=intervals)
        if not print_values(effect or found, chosen, lines):
            print_tables([found.table(intervals=intervals)], lines, chosen)
            print_effect(effect, chosen)
    warn(found.remarks)


def _evaluate_extra(
    runs: list[str],
    folders: Mapping[str, Path],
    data: str,
    shifts: Sequence[str],
    settings: Settings,
    **allowed: bool,
) -> ExtraTestReport | VariantReport:
    from msshift_bench.data import holds_variants
    from msshift_bench.evaluation import evaluate_extra_tests, evaluate_variants

    varied = [name for name, path in folders.items() if holds_variants(path.expanduser())]
    if not varied:
        return evaluate_extra_tests(runs, folders, shifts, settings, **allowed)
    if others := [name for name in folders if name not in varied]:
        raise UsageError(
            f"{', '.join(varied)} holds variants of queries and {', '.join(others)} does not; they "
            "are evaluated differently, so give them in two calls"
        )
    return evaluate_variants(runs, folders, data, shifts, settings, **allowed)


def _check_plot(plot: Path | None, *, single: bool) -> None:
    if plot is None:
        return
    from msshift_bench.evaluation import check_plot

    if single:
        raise UsageError("--plot draws the losses of run sets, which single run files do not have")
    check_plot(plot)


def _evaluate_run_sets(
    runs: list[str],
    data: str,
    shift: list[str] | None,
    settings: Settings,
    by: str | None,
    **allowed: bool,
) -> Report:
    from msshift_bench.data import Dataset, open_dataset
    from msshift_bench.evaluation import evaluate_run_sets, read_labels
    from msshift_bench.plumbing import in_line, progress_bars

    dataset: Dataset | str = data if by is None else open_dataset(data)
    labels = None if by is None else read_labels(by, dataset)
    with progress_bars() as progress:
        told = in_line(progress, "evaluating")
        return evaluate_run_sets(
            runs, dataset, shift or (), settings, labels=labels, progress=told, **allowed
        )


def _evaluate_runs(
    runs: list[str],
    test_set: JudgedQueries,
    settings: Settings,
    by: str | None,
    shift: list[str] | None,
    *,
    force_data: bool,
) -> EvaluatedRuns:
    from msshift_bench.evaluation import evaluate_runs

    if by is not None or shift:
        raise UsageError("--by and --shift are for run sets, not for single run files")
    return evaluate_runs(runs, test_set, settings, force_data=force_data)


def _write(
    found: Report | EvaluatedRuns,
    output: Path | None,
    per_query: Path | None,
    effect: LeakageEffect | None,
) -> None:
    from msshift_bench.plumbing import write_parquet

    _write_json(effect or found, output)
    if per_query is not None:
        write_parquet(per_query, found.per_query())
        note(f"wrote {per_query}")


def _write_json(
    found: Report | EvaluatedRuns | ExtraTestReport | VariantReport | LeakageEffect,
    output: Path | None,
) -> None:
    from msshift_bench.plumbing import write_json

    if output is not None:
        write_json(output, found.to_json())
        note(f"wrote {output}")


def choose_test_set(
    test: str | None, qrels: Path | None, data: str, runs: Sequence[str] = ()
) -> JudgedQueries | None:
    """Return the judged queries that ``--test`` or ``--qrels`` names, if one does.

    Raises:
        UsageError: if both are given, or a folder to score on them.
    """
    if test is None and qrels is None:
        return None
    for folder in (run for run in runs if Path(run).is_dir()):
        raise UsageError(
            f"{folder} is a folder, and --test and --qrels score run files; name files, or leave "
            "the option out to evaluate the folder's run sets"
        )
    from msshift_bench.evaluation import JudgedQueries

    if test is None and qrels is not None:
        return JudgedQueries.of_qrels(qrels)
    if test is not None and qrels is None:
        return JudgedQueries.of_config(test, data)
    raise UsageError("--test and --qrels both say what to score against; give one of them")


def print_report(report: Report, chosen: str = "text", *, delta: bool = False) -> None:
    """Print a report: for each shift and measure the losses, then each system's matrix.

    Args:
        report: the report.
        chosen: the format.
        delta: print Inter., Extra. and Delta instead.
    """
    from msshift_bench.evaluation import delta_notes, delta_table, loss_table, matrix_table, notes

    below = {
        shift: notes(report, results, by_group=not delta)
        for shift, results in report.by_shift().items()
    }
    if print_values(report, chosen, list(dict.fromkeys(chain(*below.values())))):
        return
    if delta:
        families: dict[str, list[SystemResult]] = {}
        for results in report.by_shift().values():
            families.setdefault(results[0].shift.family, []).extend(results)
        for results in families.values():
            shifts = dict.fromkeys(result.shift.name for result in results)
            lines = dict.fromkeys(chain(delta_notes(results), *(below[name] for name in shifts)))
            print_tables([delta_table(results, report.settings.measures)], list(lines), chosen)
        return
    for shift, results in report.by_shift().items():
        tables = []
        for measure in report.settings.measures:
            tables.append(loss_table(results, measure))
            if chosen == "text":
                trained = [result for result in results if result.scores.trained_per_group]
                tables += [matrix_table(result, measure) for result in trained]
            for label, parts in report.slices.items():
                of_shift = [part for part in parts if part.shift == results[0].shift]
                if of_shift:
                    tables.append(loss_table(of_shift, measure, label))
        print_tables(tables, below[shift], chosen)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Statistics": ("ties", "missing", "correction", "average", "seed_variance", "intervals"),
        "Checks": ("strict", "allow_partial", "allow_identical", "force_data"),
        "Output": ("delta", "leakage", "table_format", "as_json", "output", "per_query", "plot"),
    }
    app.command("evaluate", cls=in_panels(panels))(evaluate)
