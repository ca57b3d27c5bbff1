"""``msshift baseline run``: train and run a reference system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, progress_bars
from msshift_bench.cli.sources import open_source
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def run(
    system: Annotated[str, typer.Argument(help="Which system; `msshift list` shows them.")],
    shift: Annotated[
        list[str] | None,
        typer.Option(help="Which shift; may be repeated. All of the data set, if none is named."),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(help="What the data set was built from; known if that was `mini`."),
    ] = None,
    qrels: options.Qrels = None,
    data: options.Data = DATASET_NAME,
    out: Annotated[Path, typer.Option(help="The folder of run sets.")] = Path("runs"),
    held_out: Annotated[
        list[str] | None, typer.Option(help="Only the model without this group; may be repeated.")
    ] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Passages per query.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="bi-encoder: a recipe's name, or a TOML file.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="bi-encoder: a folder or Hub id; `random` starts from none.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="bi-encoder: of the training.")] = None,
    engine: Annotated[str | None, typer.Option(help="bm25: bm25s or rank_bm25.")] = None,
    k1: Annotated[float | None, typer.Option(help="bm25: term-frequency saturation.")] = None,
    b: Annotated[float | None, typer.Option(help="bm25: length normalisation.")] = None,
    stemmer: Annotated[str | None, typer.Option(help="bm25: `english`, or `none`.")] = None,
    stop_words: Annotated[str | None, typer.Option(help="bm25: `english`, or `none`.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a system once per held-out group, search, and write its run set.

    BM25 is not trained and gives one run per shift. What is complete is skipped; what was
    interrupted is continued. Beside every run stands a JSON file that says what made it.

    Example: `msshift baseline run bi-encoder --shift length --recipe mini --out runs/`
    """
    from msshift_bench.baselines import run_baseline
    from msshift_bench.dataset import locate
    from msshift_bench.manifest import read_manifest

    source = open_source(data, collection, qrels)
    with progress_bars() as progress:
        runs = run_baseline(
            system,
            shift or list(read_manifest(locate(data)).shifts),
            collection=source,
            out=out,
            data=data,
            held_out=held_out or (),
            progress=progress,
            recipe=recipe,
            encoder=encoder,
            seed=seed,
            depth=depth,
            engine=engine,
            k1=k1,
            b=b,
            stemmer=stemmer,
            stop_words=stop_words,
        )
    if as_json:
        print_json([str(path) for path in runs])
    else:
        for path in runs:
            print(path)
    note(f"evaluate with: msshift evaluate {out} --data {locate(data)}")


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(help="Train and run the reference systems.", no_args_is_help=True)
    group.command("run")(run)
    app.add_typer(group, name="baseline")
