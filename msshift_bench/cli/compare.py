"""``msshift compare``: which of several systems or runs is better, and which loses less?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, warn
from msshift_bench.cli.evaluate import choose_test_set
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.evaluation import ComparisonReport, JudgedQueries, Settings

__all__ = ["register"]


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of systems, or a folder that holds several. With --test or --qrels: run "
            "files."
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Compare the others with this system (its name or its folder) or run file alone. "
            "Default: every two are compared."
        ),
    ] = None,
    test: options.TestConfig = None,
    qrels: options.TestQrels = None,
    run_format: options.RunFormat = "auto",
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: options.Measures = "RR@10",
    ties: options.Ties = "trec",
    missing: options.Missing = "zero",
    correction: options.Correction = "holm",
    average: options.Average = None,
    seed_variance: options.SeedVariance = "own",
    strict: options.Strict = False,
    allow_identical: options.AllowIdentical = False,
    force_data: options.ForceData = False,
    output: options.Output = None,
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Compare systems, or single runs: what they score, and what they lose.

    Every two systems are compared by Avg In, Out and Rel Loss, on each group and on a shift as a
    whole: the difference with an interval and a corrected p-value, which count other queries and
    other seeds. A system that was not trained per group, such as BM25, has no Rel Loss. Systems
    are ranked by their average Rel Loss as far as the data tell them apart; one with a single seed
    gets no star and no rank.

    Run files are compared by their means on one test set, or on any qrels, over queries only.

    Example: `msshift compare runs/bi-encoder runs/splade-max`

    Example: `msshift compare runs/ --baseline bm25 --format markdown`

    Example: `msshift compare my.run.gz --baseline bm25.run.gz --test length-short`
    """
    from msshift_bench.data import locate
    from msshift_bench.evaluation import Settings
    from msshift_bench.plumbing import keep_freed_memory, write_json

    chosen = choose_format(table_format, as_json=as_json)
    if output is not None:
        read = _read_by_comparison(runs, baseline)
        check_outputs(output, runs=read, inputs=[qrels or locate(data)])
    test_set = choose_test_set(test, qrels, data, runs)
    keep_freed_memory()
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
    compared = (
        _compare_run_sets(
            runs,
            data,
            shift,
            settings,
            baseline,
            allow_identical=allow_identical,
            force_data=force_data,
        )
        if test_set is None
        else _compare_runs(runs, test_set, shift, settings, baseline, force_data=force_data)
    )
    # The file comes first: whoever reads the tables may stop before their end.
    if output is not None:
        write_json(output, compared.to_json())
        note(f"wrote {output}")
    if not print_values(compared, chosen, compared.notes()):
        print_tables(compared.tables(), compared.notes(), chosen)
    warn(compared.remarks)


def _read_by_comparison(runs: list[str], baseline: str | None) -> list[str]:
    """Return the runs, and the baseline's folder or file if it is not the name of one of them."""
    if baseline is None or not Path(baseline).exists():
        return runs
    from msshift_bench.runs import find_run_sets

    systems = {one.system for one in find_run_sets([run for run in runs if Path(run).is_dir()])}
    return runs if baseline in systems else [*runs, baseline]


def _compare_run_sets(
    runs: list[str],
    data: str,
    shift: list[str] | None,
    settings: Settings,
    baseline: str | None,
    **allowed: bool,
) -> ComparisonReport:
    from msshift_bench.evaluation import compare_run_sets
    from msshift_bench.plumbing import in_line, progress_bars

    with progress_bars() as progress:
        told = in_line(progress, "evaluating")
        return compare_run_sets(
            runs, data, shift or (), settings, baseline=baseline, progress=told, **allowed
        )


def _compare_runs(
    runs: list[str],
    test_set: JudgedQueries,
    shift: list[str] | None,
    settings: Settings,
    baseline: str | None,
    *,
    force_data: bool,
) -> ComparisonReport:
    from msshift_bench.evaluation import compare_runs

    if shift:
        raise UsageError("--shift is for run sets, not for single run files")
    return compare_runs(runs, test_set, settings, baseline=baseline, force_data=force_data)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Statistics": ("ties", "missing", "correction", "average", "seed_variance"),
        "Checks": ("strict", "allow_identical", "force_data"),
        "Output": ("table_format", "as_json", "output"),
    }
    app.command("compare", cls=in_panels(panels))(compare)
