"""``msshift triples`` and ``msshift export``: training triples in a data set, and as TSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs, files_of_collection
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def triples(
    folder: options.BuiltFolder = DATASET_NAME,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    shift: options.Shifts = None,
    negatives: Annotated[int, typer.Option(min=1, help="Negatives per training query.")] = 100,
    depth: Annotated[
        int, typer.Option(min=1, help="Draw negatives from this many first passages of BM25.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    every_pair: Annotated[
        bool,
        typer.Option(
            "--every-pair",
            help="Give a query with more relevant passages than negatives a triple for each of "
            "them, its negatives in turn, instead of leaving some out.",
        ),
    ] = False,
    ray: options.Ray = None,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Add training triples to a data set: a config `<config>-triples` per held-out group.

    The negatives of a training query are passages that BM25 ranks high and nobody judged relevant.
    The command continues work that was interrupted.

    Example: `msshift triples ./msshift --collection my-collection`
    """
    from dataclasses import asdict

    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.triples import add_triples
    from msshift_bench.engine import Engine, using_engine
    from msshift_bench.output import Table
    from msshift_bench.shifts import TRIPLES, holds_triples

    dataset = open_dataset(folder)
    source = open_source(dataset, collection, qrels)
    check_folder(dataset.folder)
    with using_engine(Engine(ray, store)), progress_bars():
        manifest = add_triples(
            dataset,
            source,
            shifts=shift or (),
            count=negatives,
            depth=depth,
            seed=seed,
            every_pair=every_pair,
        )
    entries = {c: splits["train"] for c, splits in manifest.configs.items() if holds_triples(c)}
    if as_json:
        print_json({config: asdict(entry) for config, entry in entries.items()})
    else:
        rows = [
            (config, entry.rows, len(entry.files), entry.digest[:12])
            for config, entry in entries.items()
        ]
        print_table(Table.plain("Training triples", ("config", "triples", "files", "digest"), rows))
    for facts in manifest.shifts.values():
        for config, pairs in facts.get("triples", {}).get("pairs", {}).items():
            if pairs["left_out"]:
                note(
                    f"{config}{TRIPLES} leaves out {pairs['left_out']:,} of {pairs['all']:,} pairs "
                    "of a query and a relevant passage, of queries with more of them than "
                    "negatives; --every-pair keeps all"
                )
    note(f"wrote {dataset.folder}")


def export(
    config: Annotated[str, typer.Argument(help="The config, e.g. `length-short-triples`.")],
    out: Annotated[Path, typer.Argument(help="The file to write; compressed if it ends in .gz.")],
    data: options.Data = DATASET_NAME,
    text: Annotated[
        bool, typer.Option("--text", help="Write texts from the collection instead of ids.")
    ] = False,
    collection: options.Source = None,
) -> None:
    """Write triples as TSV with the columns query, relevant passage and negative.

    Without --text, the file holds ids like MS MARCO's `qidpidtriples`; with it, texts like its
    `triples.train.small`.

    Example: `msshift export length-short-triples triples.tsv.gz`
    """
    from msshift_bench.data import export_triples, open_dataset, open_source

    if collection is not None and not text:
        raise UsageError("--collection is read for the texts only; add --text, or leave it out")
    dataset = open_dataset(data)
    files = files_of_collection(collection) if text else []
    check_outputs(out, inputs=[dataset.folder, *files])
    with progress_bars():
        texts = open_source(dataset, collection) if text else None
        count = export_triples(dataset, config, out, texts=texts)
    note(f"wrote {out}: {count} triples")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("triples", cls=in_panels({"Cluster": ("ray", "store")}))(triples)
    app.command("export")(export)
