"""``msshift baseline``: train and run reference systems, and run published models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, progress_bars
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.baselines.planning import Estimate, PlannedRun
    from msshift_bench.data import Collection

__all__ = ["register"]

Shifts = Annotated[
    list[str] | None,
    typer.Option(help="Which shift; may be repeated. All of the data set, if none is named."),
]
CollectionName = Annotated[
    str | None,
    typer.Option(help="What the data set was built from; known if that was `mini`."),
]
Out = Annotated[Path, typer.Option(help="The folder of run sets.")]
Depth = Annotated[int | None, typer.Option(min=1, help="Passages per query.")]


def run(
    system: Annotated[str, typer.Argument(help="Which system; `msshift list` shows them.")],
    shift: Shifts = None,
    collection: CollectionName = None,
    qrels: options.Qrels = None,
    data: options.Data = DATASET_NAME,
    out: Out = Path("runs"),
    held_out: Annotated[
        list[str] | None, typer.Option(help="Only the model without this group; may be repeated.")
    ] = None,
    depth: Depth = None,
    recipe: Annotated[
        str | None, typer.Option(help="Neural systems: a recipe's name, or a TOML file.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Neural systems: a folder or Hub id instead of the recipe's encoder."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Neural systems: of the training.")] = None,
    seeds: Annotated[
        str, typer.Option(help="Neural systems: of replicates, e.g. 1,2,3; a folder for each.")
    ] = "",
    precision: Annotated[
        str | None,
        typer.Option(help="Neural systems: fp32, fp16 or bf16 instead of the recipe's."),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="bm25: bm25s or rank_bm25.")] = None,
    k1: Annotated[float | None, typer.Option(help="bm25: term-frequency saturation.")] = None,
    b: Annotated[float | None, typer.Option(help="bm25: length normalisation.")] = None,
    stemmer: Annotated[str | None, typer.Option(help="bm25: `english`, or `none`.")] = None,
    stop_words: Annotated[str | None, typer.Option(help="bm25: `english`, or `none`.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and about how long.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a system once per held-out group, search, and write its run set.

    BM25 is not trained and gives one run per shift. What is complete is skipped; what was
    interrupted is continued. Beside every run stands a JSON file that says what made it.

    Example: `msshift baseline run bi-encoder --shift length --recipe mini --out runs/`
    """
    from msshift_bench.baselines.driver import plan_baseline, run_baseline
    from msshift_bench.baselines.processes import is_first

    shifts, opened = _opened(data, shift, collection, qrels)
    request: dict[str, Any] = {
        "collection": opened,
        "out": out,
        "data": data,
        "held_out": held_out or (),
        "seeds": _numbers(seeds),
        "recipe": recipe,
        "encoder": encoder,
        "seed": seed,
        "precision": precision,
        "depth": depth,
        "engine": engine,
        "k1": k1,
        "b": b,
        "stemmer": stemmer,
        "stop_words": stop_words,
    }
    if dry_run:
        _show_plan(plan_baseline(system, shifts, **request), as_json)
        return
    if is_first():
        check_folder(out.expanduser(), inside=True)
    with progress_bars() as progress:
        _show_losses()
        runs = run_baseline(system, shifts, progress=progress, **request)
    if is_first():
        _tell(runs, out, data, as_json)


def search(
    model: Annotated[str, typer.Option(help="A folder, or an id of the Hugging Face Hub.")],
    shift: Shifts = None,
    collection: CollectionName = None,
    qrels: options.Qrels = None,
    data: options.Data = DATASET_NAME,
    out: Out = Path("runs"),
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="bi-encoder, splade, colbert or monobert, if the model does not say it itself.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The system's name; by default the end of the model's.")
    ] = None,
    depth: Depth = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Texts encoded together.")] = None,
    candidates: Annotated[
        str | None,
        typer.Option(help="colbert: all, tokens, or bm25:1000 to rerank BM25's first 1,000."),
    ] = None,
    approximate: Annotated[
        str | None, typer.Option(help="bi-encoder: hnsw or ivf instead of exact search.")
    ] = None,
    effort: Annotated[
        int | None,
        typer.Option(min=1, help="hnsw: passages kept in view; ivf: lists looked through."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Search with a published model, without training, and write its run set.

    The model may have met every group in its training, so it gives one run per shift.

    Example: `msshift baseline search --model my-model --as bi-encoder --shift length`
    """
    from msshift_bench.baselines.published import search_published

    shifts, opened = _opened(data, shift, collection, qrels)
    check_folder(out.expanduser(), inside=True)
    with progress_bars() as progress:
        runs = search_published(
            model,
            shifts,
            collection=opened,
            out=out,
            data=data,
            name=name,
            kind=kind,
            progress=progress,
            depth=depth,
            batch_size=batch_size,
            candidates=candidates,
            approximate=approximate,
            effort=effort,
        )
    _tell(runs, out, data, as_json)


def _show_losses() -> None:
    """Let what a training tells Python's logging appear on stderr, above the bars."""
    for module in ("training", "trained"):
        logger = logging.getLogger(f"msshift_bench.baselines.{module}")
        logger.setLevel(logging.INFO)
        logger.addHandler(logging.StreamHandler())


def _opened(
    data: str, shifts: list[str] | None, collection: str | None, qrels: str | None
) -> tuple[list[str], Collection]:
    """Return the shifts that are meant, and the collection."""
    from msshift_bench.data import locate, open_collection, read_manifest

    manifest = read_manifest(locate(data))
    if collection is None:
        if manifest.collection.get("layout") != "generated":
            raise UsageError(
                f"{locate(data)} was built from {manifest.collection['name']!r}; "
                "say where that is with --collection"
            )
        collection = str(manifest.collection["name"])
    return shifts or list(manifest.shifts), open_collection(collection, qrels=qrels)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--seeds is {text!r}; whole numbers are wanted, e.g. 1,2,3") from None


def _show_plan(planned: Sequence[PlannedRun], as_json: bool) -> None:
    from msshift_bench.output import plain

    if as_json:
        print_json([{**plain(one), "run": str(one.run)} for one in planned])
        return
    for one in planned:
        print(f"{one.state:8}  {one.run}{_estimate(one.estimate)}")
    left = [one.estimate for one in planned if one.state != "complete"]
    known = [one.seconds for one in left if one and one.seconds is not None]
    time = f", about {_duration(sum(known))} at most" if len(known) == len(left) else ""
    note(f"{len(left)} of {len(planned)} runs to make{time}")


def _estimate(one: Estimate | None) -> str:
    if one is None:
        return ""
    text = f"  {one.steps:,} steps"
    if one.seconds is not None and one.bytes is not None:
        text += f", {_duration(one.seconds)}, {one.bytes / 1e9:.1f} GB of disk"
    return text


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _tell(runs: list[Path], out: Path, data: str, as_json: bool) -> None:
    from msshift_bench.data import locate

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
    group.command("search")(search)
    app.add_typer(group, name="baseline")
