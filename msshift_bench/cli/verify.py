"""``msshift verify``: check a built data set against its manifest."""

from __future__ import annotations

from dataclasses import asdict

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import IntegrityError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def verify(
    folder: options.BuiltFolder = DATASET_NAME,
    as_json: options.AsJson = False,
) -> None:
    """Recompute every digest and count of a built data set and name what differs.

    The command exits with 1 if a file was changed, is missing, or does not belong.

    Example: `msshift verify ./msshift`
    """
    from msshift_bench.data import open_dataset, verify_dataset

    dataset = open_dataset(folder)
    manifest, findings = verify_dataset(dataset)
    if as_json:
        print_json(
            {"content_digest": manifest.content_digest, "findings": [asdict(f) for f in findings]}
        )
    if findings:
        raise IntegrityError(f"{dataset.folder} is not what was built:", findings)
    splits = [entry for splits in manifest.configs.values() for entry in splits.values()]
    files = sum(len(entry.files) for entry in splits) + len(manifest.files)
    note(f"{dataset.folder}: {len(splits)} splits in {files} files are what was built")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("verify")(verify)
