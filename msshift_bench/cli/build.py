"""``msshift build``: cut a collection into the benchmark's splits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table
from msshift_bench.errors import UsageError

__all__ = ["print_build", "register"]


def build(
    shifts: Annotated[
        list[str] | None,
        typer.Argument(help="Which shifts; all that can be built, if none is named."),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            help="A folder of collection.tsv, queries.tsv and qrels.tsv, a folder in BEIR's "
            "layout, an ir_datasets id, or `mini`."
        ),
    ] = "mini",
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("msshift"),
    qrels: options.Qrels = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="SHIFT=RULE, e.g. `wh-words=substring`; may be repeated."),
    ] = None,
    test_size: Annotated[
        int | None,
        typer.Option(min=1, help="Test queries per group; the paper's numbers by default."),
    ] = None,
    validation_size: Annotated[
        int | None, typer.Option(min=0, help="Validation queries; the paper's number by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Keys every sample.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Threads that write files.")] = 1,
    overwrite: Annotated[
        bool, typer.Option(help="Replace an earlier build even if it holds other shifts.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Build the data set: split files for every held-out group of every shift.

    The result is a folder that `datasets.load_dataset("msshift", "length-short")` reads from its
    parent. The same queries give the same bytes, wherever and however they are built.

    Example: `msshift build length wh-words --collection ../shared/data/msmarco-pool`
    """
    from dataclasses import asdict

    from msshift_bench.collection import open_collection
    from msshift_bench.dataset_builders.build import build_dataset, buildable_shifts
    from msshift_bench.dataset_builders.splits import VALIDATION_SIZE

    manifest = build_dataset(
        open_collection(collection, qrels=qrels),
        shifts or buildable_shifts(),
        out,
        options=_parse_rules(rule or []),
        test_size=test_size,
        validation_size=VALIDATION_SIZE if validation_size is None else validation_size,
        seed=seed,
        overwrite=overwrite,
        workers=workers,
    )
    if as_json:
        print_json(asdict(manifest))
    else:
        print_build(manifest.shifts)
    note(f"wrote {out} (content {manifest.content_digest[:12]})")


def print_build(shifts: Mapping[str, Any]) -> None:
    """Print the table of a manifest's shifts: rows by group and split."""
    from msshift_bench.records import SPLITS
    from msshift_bench.tables import Table

    for name, facts in shifts.items():
        rows = [
            (group, *(counts[split] for split in SPLITS)) for group, counts in facts["rows"].items()
        ]
        print_table(Table.plain(f"{name} (rule {facts['rule']})", ("group", *SPLITS), rows))


def _parse_rules(assignments: list[str]) -> dict[str, dict[str, object]]:
    options: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        shift, equals, rule = assignment.partition("=")
        if not equals:
            raise UsageError(
                f"--rule takes SHIFT=RULE, e.g. wh-words=substring, not {assignment!r}"
            )
        options[shift] = {"rule": rule}
    return options


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("build")(build)
