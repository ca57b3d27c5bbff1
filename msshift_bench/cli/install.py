"""``msshift install``: let `datasets.load_dataset` find a data set from every folder."""

from __future__ import annotations

from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.plumbing import progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def install(
    source: Annotated[
        str,
        typer.Argument(
            help="A built data set, or ORG/NAME on the Hub. Default: the one that MSSHIFT_HOME "
            "names, else that of `msshift.toml`, else ./msshift.",
            show_default=False,
        ),
    ] = DATASET_NAME,
    revision: Annotated[
        str | None,
        typer.Option(help="A data version, branch or commit on the Hub. Default: the newest."),
    ] = None,
    triples: Annotated[
        bool, typer.Option("--triples", help="Prepare the configs of training triples, too.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a data set load by its bare name, from any folder and without a network.

    The command verifies the data set, copies it into the user's cache, and prepares it in the cache
    of the datasets library, where it replaces any other build.

    Example: `msshift install ./msshift`
    """
    from dataclasses import asdict

    from msshift_bench.data import install_dataset

    with progress_bars() as progress:
        installed = install_dataset(source, revision=revision, triples=triples, progress=progress)
    if as_json:
        facts = {
            **asdict(installed),
            "folder": str(installed.folder),
            "cache": str(installed.cache),
        }
        print_json(facts)
    what = "already installed" if installed.unchanged else "installed"
    note(
        f"{what}: version {installed.data_version} (content {installed.content_digest[:12]}) "
        f"in {installed.folder}\n"
        f'datasets.load_dataset("{DATASET_NAME}", "{installed.configs[0]}") now works in any '
        f"folder without a {DATASET_NAME} of its own; {len(installed.configs)} configs are in "
        f"{installed.cache}"
    )


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("install")(install)
