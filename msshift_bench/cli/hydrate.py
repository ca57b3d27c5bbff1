"""``msshift hydrate``: put the queries' texts back into a data set that holds ids only."""

from __future__ import annotations

from dataclasses import asdict

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def hydrate(
    folder: options.BuiltFolder = DATASET_NAME,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    as_json: options.AsJson = False,
) -> None:
    """Put the queries' texts back into a data set that was built with --ids-only.

    The result equals a build with texts byte for byte: the command checks every split against its
    digest in the manifest. If a text differs, it exits with 1 and changes nothing.

    Example: `msshift hydrate ./msshift --collection my-collection`
    """
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.write import hydrate_dataset

    dataset = open_dataset(folder)
    path, manifest = dataset.folder, dataset.manifest
    if manifest.texts:
        note(f"{path} holds its texts already; nothing was changed")
    else:
        check_folder(path)
        with progress_bars() as progress:
            source = open_source(dataset, collection, qrels)
            manifest = hydrate_dataset(dataset, source, progress=progress)
        note(f"{path} holds its texts (content {manifest.content_digest[:12]})")
    if as_json:
        print_json(asdict(manifest))


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("hydrate")(hydrate)
