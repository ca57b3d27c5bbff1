"""``msshift push``: put a built data set on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def push(
    repo: Annotated[str, typer.Option(help="The data set repository, ORG/NAME.")],
    folder: options.BuiltFolder = DATASET_NAME,
    private: Annotated[
        bool,
        typer.Option("--private", help="Create the repository as private; stop if it is public."),
    ] = False,
    move_tag: Annotated[
        bool,
        typer.Option(
            "--move-tag", help="Move the data version's tag here, if another build holds it."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Put a built data set on the Hugging Face Hub, in one commit tagged with the data version.

    The command deletes files of the repository that are not part of the build. Pushing the same
    build twice changes nothing. It uses the token of `hf auth login`, or HF_TOKEN.

    Example: `msshift push ./msshift --repo my-org/msshift`
    """
    from dataclasses import asdict

    from msshift_bench.data import push_dataset

    pushed = push_dataset(folder, repo, private=private, move_tag=move_tag)
    if as_json:
        print_json(asdict(pushed))
    what = (
        f"{repo} holds this build already"
        if pushed.unchanged
        else f"pushed {len(pushed.files)} files to {repo}"
    )
    note(f"{what} (commit {pushed.commit[:12]}, tag {pushed.tag}): {pushed.url}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("push")(push)
