"""``msshift compare``: which of several systems loses less?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table, warn
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of systems, or a folder that holds several.")
    ],
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: options.Measures = "RR@10",
    ties: options.Ties = "trec",
    missing: options.Missing = "zero",
    correction: options.Correction = "holm",
    average: options.Average = None,
    seed_variance: options.SeedVariance = "own",
    allow_identical: options.AllowIdentical = False,
    force_data: options.ForceData = False,
    output: options.Output = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare what systems lose, on each group and on a shift as a whole.

    It ranks systems by their average Rel Loss as far as the data tell them apart. A system with
    one seed gets no rank. For every pair of systems it prints the difference with an interval and
    a corrected p-value, which count other queries and other seeds.

    Example: `msshift compare runs/bi-encoder runs/splade-max`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.evaluation import Settings, compare_run_sets
    from msshift_bench.plumbing import write_json

    dataset = open_dataset(data)
    check_outputs(output, runs=runs, inputs=[dataset.folder])
    settings = Settings(
        measures=measures,
        ties=ties,
        missing=missing,
        correction=correction,
        average=average,
        seed_variance=seed_variance,
    )
    compared = compare_run_sets(
        runs,
        dataset,
        shift or (),
        settings,
        allow_identical=allow_identical,
        force_data=force_data,
    )
    if as_json:
        print_json(compared.to_json())
    else:
        for comparison in compared.comparisons:
            print_table(comparison.ranking_table())
            for first, second in comparison.systems.pairs:
                print_table(comparison.pair_table(first, second))
        print_notes(compared.notes())
    warn(compared.report.remarks)
    if output is not None:
        write_json(output, compared.to_json())
        note(f"wrote {output}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Statistics": ("ties", "missing", "correction", "average", "seed_variance"),
        "Checks": ("allow_identical", "force_data"),
        "Output": ("output", "as_json"),
    }
    app.command("compare", cls=in_panels(panels))(compare)
