"""``msshift build``: cut a collection into the benchmark's splits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table, progress_bars
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.dataset_builders.splits import TrainSize

__all__ = ["print_build", "register"]


def build(
    shifts: Annotated[
        list[str] | None,
        typer.Argument(help="Which shifts; all that can be built, if none is named."),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="A folder of collection.tsv, queries.tsv and qrels.tsv, a folder in BEIR's "
            "layout, an ir_datasets id, or `mini` (the default)."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write; msshift, or msshift-nano, by default."),
    ] = None,
    qrels: options.Qrels = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="SHIFT=RULE, e.g. `wh-words=substring`; may be repeated."),
    ] = None,
    encoder: options.Encoder = None,
    pooling: Annotated[
        str | None, typer.Option(help="Of the topics' encoder: cls (the default) or mean.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="Of the topics' encoder: torch (the default) or onnx.")
    ] = None,
    topic_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Queries per topic, those for validation not counted; 31,200, or an eighth of "
            "all, by default.",
        ),
    ] = None,
    train_size: Annotated[
        str | None,
        typer.Option(
            help="Training queries per group, or `all`, which leaves the groups unequal; the "
            "paper's numbers, or what the smallest group has left, by default."
        ),
    ] = None,
    test_size: Annotated[
        int | None,
        typer.Option(min=1, help="Test queries per group; the paper's numbers by default."),
    ] = None,
    test_queries: Annotated[
        Path | None,
        typer.Option(
            help="Test queries of `length`, instead of a sample: their ids, one per line, or a "
            "queries.tsv. No shift trains or validates on them."
        ),
    ] = None,
    validation_size: Annotated[
        int | None, typer.Option(min=0, help="Validation queries; the paper's number by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Keys every sample.")] = 0,
    nano: Annotated[
        bool, typer.Option(help="A small part of every split: 300 test queries per group.")
    ] = False,
    ids_only: Annotated[
        bool, typer.Option(help="Leave the queries' texts out; `msshift hydrate` restores them.")
    ] = False,
    licence: Annotated[
        str | None,
        typer.Option(
            help="Of a collection of your own: an id such as `cc-by-4.0`, or the terms in one line."
        ),
    ] = None,
    official: Annotated[
        list[Path] | None,
        typer.Option(
            help="Import this checkout of the official release (or of ReSTTest's) instead of "
            "building; may be repeated."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads that write files.")] = 1,
    overwrite: Annotated[
        bool, typer.Option(help="Replace an earlier build even if it holds more than this one.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Build the data set: split files for every held-out group of every shift.

    The result is a folder that `datasets.load_dataset("msshift", "length-short")` reads from its
    parent. The same queries give the same bytes, wherever and however they are built; for the
    topics, whose embeddings are computed, see `msshift topics`.

    Example: `msshift build length wh-words --collection my-collection --licence cc-by-4.0`
    """
    from dataclasses import asdict

    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset, buildable_shifts
    from msshift_bench.dataset_builders.importing import import_official
    from msshift_bench.dataset_builders.splits import VALIDATION_SIZE

    out = out or Path(f"{DATASET_NAME}-nano" if nano else DATASET_NAME)
    check_folder(out)
    told = _options(
        rule or [],
        topics={
            "encoder": encoder,
            "pooling": pooling,
            "backend": backend,
            "topic_size": topic_size,
        },
    )
    if official:
        decided = {
            "--seed": seed or None,
            "--train-size": train_size,
            "--test-size": test_size,
            "--test-queries": test_queries,
            "--validation-size": validation_size,
            "--licence": licence,
        }
        given = [name for name, value in decided.items() if value is not None]
        if told or given:
            raise UsageError(
                "--official takes the release as it is; leave out what decides how it is built: "
                + ", ".join([*given, *(f"options of {name}" for name in told)])
            )
        manifest = import_official(
            official,
            out,
            collection=open_collection(collection, qrels=qrels) if collection else None,
            shifts=shifts or (),
            nano=nano,
            texts=not ids_only,
            overwrite=overwrite,
            workers=workers,
        )
        if why := manifest.parameters["validation"].get("why"):
            note(f"no validation queries: {why}")
    else:
        with progress_bars() as progress:
            manifest = build_dataset(
                open_collection(collection or "mini", qrels=qrels),
                shifts or buildable_shifts(),
                out,
                options=told,
                train_size=_train_size(train_size),
                test_size=test_size,
                test_queries=test_queries,
                validation_size=VALIDATION_SIZE if validation_size is None else validation_size,
                seed=seed,
                nano=nano,
                texts=not ids_only,
                licence=licence,
                overwrite=overwrite,
                workers=workers,
                progress=progress,
            )
    if as_json:
        print_json(asdict(manifest))
    else:
        print_build(manifest.shifts)
    note(f"wrote {out} (content {manifest.content_digest[:12]})")


def print_build(shifts: Mapping[str, Any]) -> None:
    """Print the tables of a manifest's shifts: rows by group and split, and what topics are."""
    from msshift_bench.output import Table
    from msshift_bench.records import PLACES

    for name, facts in shifts.items():
        rows = [
            (group, *(counts[place] for place in PLACES)) for group, counts in facts["rows"].items()
        ]
        unbalanced = ", unbalanced" if facts["balanced"] is False else ""
        title = f"{name} (rule {facts['rule']}{unbalanced})"
        print_table(Table.plain(title, ("group", *PLACES), rows))
        if "terms" in facts.get("found", {}):
            terms = [(group, ", ".join(words)) for group, words in facts["found"]["terms"].items()]
            print_table(Table.plain(f"{name}: top terms", ("group", "terms"), terms, names=2))


def _train_size(told: str | None) -> TrainSize:
    if told is None:
        return None
    if told == "all":
        return "all"
    if not (told.isascii() and told.isdigit() and int(told)):
        raise UsageError(f"--train-size takes a number from 1 on, or all, not {told!r}")
    return int(told)


def _options(
    assignments: list[str], *, topics: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Return what each shift's builder is to be told."""
    told: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        shift, equals, rule = assignment.partition("=")
        if not equals:
            raise UsageError(
                f"--rule takes SHIFT=RULE, e.g. wh-words=substring, not {assignment!r}"
            )
        told[shift] = {"rule": rule}
    if given := {name: value for name, value in topics.items() if value is not None}:
        told.setdefault("topics", {}).update(given)
    return told


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("build")(build)
