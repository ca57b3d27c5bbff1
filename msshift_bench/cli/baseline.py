"""``msshift baseline``: train and run reference systems, and run published models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.pretrain import pretrain
from msshift_bench.errors import MissingError
from msshift_bench.plumbing import check_folder, duration, is_first, progress_bars, shown_log
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.baselines.estimates import Estimate, PlannedRun
    from msshift_bench.data import Dataset

__all__ = ["register"]

Out = Annotated[Path, typer.Option(help="Write run sets below this folder.")]


def run(
    system: Annotated[
        str,
        typer.Argument(
            help="The system's name; `msshift list` shows all.",
            autocompletion=options.completing(_system_names),
        ),
    ],
    shift: options.Shifts = None,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    data: options.Data = DATASET_NAME,
    out: Out = Path("runs"),
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the runs' folder and tag, so that two recipes of a system stand side "
            "by side. Default: the system's."
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            help="Train only the model without this group; repeat it for several. Default: all."
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Passages per query. Default: 1000, or the recipe's.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Train by this recipe: `paper`, `pool`, `mini` or another of `msshift recipes "
            "list`, or a TOML file. Default: `mini`, which is made for the collection `mini`."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Start from this folder or Hub id. Default: recipe's."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The training's seed. Default: recipe's.")
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(help="Train once per seed, e.g. 1,2,3, each in a folder of its own."),
    ] = "",
    precision: Annotated[
        str | None,
        typer.Option(help="Train in fp32, fp16 or bf16. Default: recipe's."),
    ] = None,
    triples: Annotated[
        str | None,
        typer.Option(
            help="Train on the data set's triples (`released`), or on new ones by "
            "the recipe (`mine`). Default: the data set's, if it has some."
        ),
    ] = None,
    bm25_engine: Annotated[
        str | None, typer.Option(help="bm25s (the default), or rank_bm25, which is slow.")
    ] = None,
    k1: Annotated[
        float | None, typer.Option(help="Term-frequency saturation. Default: 0.82.")
    ] = None,
    b: Annotated[float | None, typer.Option(help="Length normalisation. Default: 0.68.")] = (None),
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose k1 and b from a grid, on the training queries of each held-out group; "
            "there is then a run per group. The runs' folder is `bm25-tuned`, unless --name says "
            "otherwise.",
        ),
    ] = False,
    stemmer: Annotated[str | None, typer.Option(help="`english` (the default) or `none`.")] = None,
    stop_words: Annotated[
        str | None, typer.Option(help="`english` (the default) or `none`.")
    ] = None,
    keep_model: Annotated[
        bool,
        typer.Option(
            "--keep-model", help="Keep each trained model, in a folder beside its run: short.model."
        ),
    ] = False,
    also_test: options.AlsoTest = None,
    ray: options.Ray = None,
    store: options.Store = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, print the plan with estimates, and stop."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a system once per held-out group, search, and write its run set.

    BM25 is not trained and gives one run per shift, unless `--tune` is given. The command skips
    runs that are complete and continues those that were interrupted. A JSON file beside every run
    records what made it.

    Example: `msshift baseline run bi-encoder --shift length --recipe mini --out runs/`
    """
    from msshift_bench.baselines.driver import plan_baseline, run_baseline
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.engine import Engine, using_engine

    dataset = open_dataset(data)
    shifts = shift or list(dataset.manifest.shifts)
    request: dict[str, Any] = {
        "collection": open_source(dataset, collection, qrels),
        "out": out,
        "data": dataset,
        "held_out": held_out or (),
        "seeds": options.whole_numbers("--seeds", seeds),
        "name": name,
        "keep_model": keep_model,
        "also_test": options.extra_folders(also_test),
        "recipe": recipe,
        "encoder": encoder,
        "seed": seed,
        "precision": precision,
        "triples": triples,
        "depth": depth,
        "engine": bm25_engine,
        "k1": k1,
        "b": b,
        "tune": tune or None,
        "stemmer": stemmer,
        "stop_words": stop_words,
    }
    if dry_run:
        _show_plan(plan_baseline(system, shifts, **request), as_json)
        return
    if is_first():
        check_folder(out.expanduser(), inside=True)
    with (
        using_engine(Engine(ray, store)),
        progress_bars() as progress,
        shown_log("baselines.driver", "baselines.trainer", "baselines.neural"),
    ):
        runs = run_baseline(system, shifts, progress=progress, **request)
    if is_first():
        _tell(runs, out, dataset, as_json, also_test, partial=bool(held_out))


def search(
    model: Annotated[str, typer.Option(help="A folder, or an id of the Hugging Face Hub.")],
    shift: options.Shifts = None,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    data: options.Data = DATASET_NAME,
    out: Out = Path("runs"),
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="The kind of model: bi-encoder, splade, colbert, monobert, monot5, knrm, duet or "
            "pacrr. Needed where the model's settings do not name it.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The system's name. Default: the last part of the model's name."),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Passages per query. Default: 1000.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Texts encoded together. Default: 64.")
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            help="bi-encoder: compare vectors by dot or cosine. Default: as the model's settings "
            "say, and cosine if they do not."
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help="colbert: the passages to rank: all (the default), or bm25:1000 (BM25's first "
            "1,000)."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="bi-encoder: search with this index of faiss, e.g. HNSW32 or IVF4096,Flat. "
            "Default: exactly."
        ),
    ] = None,
    index_parameters: Annotated[
        str | None,
        typer.Option(
            help="What the index is set to, e.g. efSearch=2000 or nprobe=64. More is slower and "
            "nearer to exact."
        ),
    ] = None,
    also_test: options.AlsoTest = None,
    ray: options.Ray = None,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Search with a published model, without training, and write its run set.

    The model was not trained per group, so it gives one run per shift and has no Rel Loss. A model
    that you hold in Python needs no command: `msshift_bench.evaluate` takes it.

    Example: `msshift baseline search --model my-model --as bi-encoder --shift length`
    """
    from msshift_bench.baselines.published import search_published
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.engine import Engine, using_engine

    dataset = open_dataset(data)
    source = open_source(dataset, collection, qrels)
    check_folder(out.expanduser(), inside=True)
    with (
        using_engine(Engine(ray, store)),
        progress_bars() as progress,
        shown_log("baselines.driver"),
    ):
        runs = search_published(
            model,
            shift or list(dataset.manifest.shifts),
            collection=source,
            out=out,
            data=dataset,
            name=name,
            kind=kind,
            similarity=similarity,
            also_test=options.extra_folders(also_test),
            progress=progress,
            depth=depth,
            batch_size=batch_size,
            candidates=candidates,
            index=index,
            index_parameters=index_parameters,
        )
    _tell(runs, out, dataset, as_json, also_test)


def _system_names() -> Iterable[str]:
    from msshift_bench.baselines.registry import BASELINES

    return BASELINES


def _show_plan(planned: Sequence[PlannedRun], as_json: bool) -> None:
    from msshift_bench.output import plain

    if as_json:
        print_json([{**plain(plan), "run": str(plan.run)} for plan in planned])
    else:
        for plan in planned:
            to_come = "" if plan.state == "complete" else _estimate(plan.estimate)
            print(f"{plan.state:8}  {plan.run}{to_come}")
        note(_rest(planned))
    for reason in dict.fromkeys(plan.lacks for plan in planned if plan.lacks):
        raise MissingError(f"this machine cannot make them: {reason}")


def _rest(planned: Sequence[PlannedRun]) -> str:
    """Return a sentence on how many runs are to be made, and roughly how long that takes."""
    left = [plan.estimate for plan in planned if plan.state != "complete"]
    seconds = [estimate.seconds for estimate in left if estimate and estimate.seconds is not None]
    text = f"{len(left)} of {len(planned)} runs to make"
    if left and len(seconds) == len(left):
        text += f"; a rough estimate is {duration(sum(seconds))} here, plus starting and reading"
    return text


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    text = f"  {estimate.steps:,} steps"
    if estimate.seconds is not None and estimate.bytes is not None:
        text += f", estimated {duration(estimate.seconds)}, {estimate.bytes / 1e9:.1f} GB of disk"
    return text


def _tell(
    runs: list[Path],
    out: Path,
    dataset: Dataset,
    as_json: bool,
    also_test: Sequence[str] | None,
    *,
    partial: bool = False,
) -> None:
    if as_json:
        print_json([str(path) for path in runs])
    else:
        for path in runs:
            print(path)
    missing = " --allow partial" if partial else ""
    note(f"evaluate with: msshift evaluate {out} --data {dataset.folder}{missing}")
    if also_test:
        tests = " ".join(f"--also-test {test_set}" for test_set in also_test)
        note(f"and with: msshift evaluate {out} {tests}")


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(help="Train and run the reference systems.", no_args_is_help=True)
    panels = {
        "Neural systems": ("recipe", "encoder", "seed", "seeds", "precision", "triples"),
        "bm25": ("bm25_engine", "k1", "b", "tune", "stemmer", "stop_words"),
        "Cluster": ("ray", "store"),
        "Output": ("out", "name", "dry_run", "as_json"),
    }
    group.command("run", cls=in_panels(panels))(run)
    panels = {
        "Search": ("depth", "batch_size", "candidates", "index", "index_parameters"),
        "Cluster": ("ray", "store"),
        "Output": ("out", "also_test", "as_json"),
    }
    group.command("search", cls=in_panels(panels))(search)
    group.command("pretrain")(pretrain)
    app.add_typer(group, name="baseline")
