"""``msshift baseline pretrain``: an encoder that has read passages and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli.console import note
from msshift_bench.plumbing import progress_bars, shown_log

__all__ = ["pretrain"]


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
            help="A recipe's name or a TOML file; `msshift recipes list` shows those that begin "
            "with pretrain-."
        ),
    ] = "mini",
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Train for so many steps, e.g. to try it. Default: recipe's."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The training's seed. Default: recipe's.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Train in fp32, fp16 or bf16. Default: recipe's.")
    ] = None,
) -> None:
    """Pre-train an encoder on a collection's passages alone, from random weights.

    The vocabulary is learnt from the passages, too. So whatever starts from the encoder has seen no
    query and no judgement of any test. The command continues where a killed one stopped; the file
    pretraining.json in the folder records what the encoder has seen.

    Example: `msshift baseline pretrain --collection mini:300 --recipe mini --out encoder`
    """
    from msshift_bench.baselines.pretraining import pretrain_encoder

    with progress_bars() as progress, shown_log("baselines.pretraining", "baselines.trainer"):
        folder = pretrain_encoder(
            collection,
            recipe,
            out=out,
            steps=steps,
            seed=seed,
            precision=precision,
            progress=progress,
        )
    print(folder)
    note(f"start from it with: msshift baseline run bi-encoder --encoder {folder}")
