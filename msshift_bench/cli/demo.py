"""``msshift demo``: the whole benchmark on the generated collection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from msshift_bench.cli.build import print_build
from msshift_bench.cli.console import note, progress_bars
from msshift_bench.cli.evaluate import print_report

__all__ = ["register"]

SHIFTS = ("topics", "wh-words", "length")
SYSTEMS = ("bm25", "bi-encoder")
OTHER_SYSTEMS = ("splade", "colbert", "monobert")


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("msshift-demo"),
    collection: Annotated[
        str, typer.Option(help="The collection; `mini` is generated, nothing is downloaded.")
    ] = "mini",
    everything: Annotated[
        bool,
        typer.Option("--all", help="Train SPLADE, ColBERT and monoBERT as well: 12 minutes."),
    ] = False,
) -> None:
    """Build, train, search and evaluate on the generated collection, in under two minutes.

    Queries are cut into groups, BM25 and a tiny bi-encoder (trained from nothing, once per
    held-out group) rank the passages, and a table shows what each loses on the groups that it
    was not trained on. Running it again reuses what is there.

    Example: `msshift demo --out msshift-demo`
    """
    from msshift_bench.baselines import run_baseline
    from msshift_bench.collection import open_collection
    from msshift_bench.dataset_builders.build import build_dataset
    from msshift_bench.files import write_json
    from msshift_bench.report import evaluate_run_sets

    began = time.monotonic()
    data, runs, report_file = out / "msshift", out / "runs", out / "report.json"
    opened = open_collection(collection)
    note(f"1/3 cutting the queries of {opened.name} into groups")
    with progress_bars() as progress:
        manifest = build_dataset(opened, SHIFTS, data, progress=progress)
    print_build(manifest.shifts)
    systems = (*SYSTEMS, *OTHER_SYSTEMS) if everything else SYSTEMS
    trained = "four neural systems" if everything else "a bi-encoder"
    note(f"2/3 running BM25, and training {trained} without each group in turn")
    with progress_bars() as progress:
        for system in systems:
            options: dict[str, Any] = {} if system == "bm25" else {"recipe": "mini"}
            run_baseline(
                system, SHIFTS, collection=opened, data=data, out=runs, progress=progress, **options
            )
    note("3/3 evaluating")
    report = evaluate_run_sets([runs], data)
    write_json(report_file, report.to_json())
    print_report(report)
    print()
    for path, what in (
        (data, f'the data set: datasets.load_dataset("msshift", "topics-C2") in {out}'),
        (runs, "the run sets"),
        (report_file, "everything the tables show, and more"),
    ):
        print(f"{path}  {what}")
    note(f"done in {time.monotonic() - began:.0f} s")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("demo")(demo)
