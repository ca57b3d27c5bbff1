"""``msshift compare``: which of two or more systems loses less?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.targets import check_outputs
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders: systems, or one that holds several.")
    ],
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: options.Measures = "RR@10",
    ties: options.Ties = "trec",
    missing: options.Missing = "zero",
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = 10_000,
    seed: options.ResamplingSeed = 0,
    correction: options.Correction = "holm",
    output: options.Output = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare what systems lose, on each group and on a shift as a whole.

    Systems are ranked by their mean Rel Loss; those whose difference the data cannot support share
    a rank. For every two of them, the difference has a bootstrap interval and a corrected p-value.

    Example: `msshift compare runs/bi-encoder runs/splade-max`
    """
    from msshift_bench.comparison import compare_report, comparison_json
    from msshift_bench.dataset import locate
    from msshift_bench.files import write_json
    from msshift_bench.measures import split_measures
    from msshift_bench.report import evaluate_run_sets
    from msshift_bench.scoring import Settings
    from msshift_bench.tables import data_notes, policy_notes

    check_outputs(output, runs=runs, inputs=[locate(data)])
    settings = Settings(
        measures=split_measures(measures),
        ties=ties,
        missing=missing,
        resamples=resamples,
        seed=seed,
        correction=correction,
    )
    report = evaluate_run_sets(runs, data, shift or (), settings)
    comparisons = compare_report(report)
    as_dict = comparison_json(report, comparisons)
    if as_json:
        print_json(as_dict)
    else:
        for comparison in comparisons:
            print_table(comparison.ranking_table())
            for first, second in comparison.pairs:
                print_table(comparison.pair_table(first, second))
        print_notes(
            [
                *data_notes(report.data, report.by_shift()),
                *policy_notes(settings),
                f"{resamples} bootstrap resamples of queries, seed {seed}",
                f"p-values: {correction}-corrected across groups, * at most 0.05; the whole shift "
                "is one test",
            ]
        )
    if output is not None:
        write_json(output, as_dict)
        note(f"wrote {output}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("compare")(compare)
