"""``msshift pretrain``: an encoder that has read passages and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.plumbing import progress_bars, shown_log

__all__ = ["register"]


def pretrain(
    collection: Annotated[
        str,
        typer.Option(
            help="A folder, an ir_datasets id, or `mini`. Only its passages are read: no query and "
            "no judgement."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the encoder to this folder.")],
    recipe: Annotated[
        str,
        typer.Option(
            help="A recipe's name or a TOML file; `msshift list pretrain` shows those that come "
            "along."
        ),
    ] = "mini",
    changes: options.Changes = None,
) -> None:
    """Pre-train an encoder on a collection's passages alone, from random weights.

    The vocabulary is learnt from the passages, too. So whatever starts from the encoder has seen no
    query and no judgement of any test. The command continues where a killed one stopped; the file
    pretraining.json in the folder records what the encoder has seen.

    Example: `msshift pretrain --collection mini:300 --recipe mini --out encoder --set steps=10`
    """
    from msshift_bench.baselines import pretrain_encoder
    from msshift_bench.baselines.systems.recipe import read_changes

    with progress_bars(), shown_log("baselines.pretraining", "baselines.training"):
        folder = pretrain_encoder(
            collection,
            recipe,
            out=out,
            changes=read_changes(changes or ()),
        )
    print(folder)
    note(f"start from it with: msshift run bi-encoder --set encoder={folder}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("pretrain")(pretrain)
