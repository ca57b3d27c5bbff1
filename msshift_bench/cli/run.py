"""``msshift run``: train systems and rank with them, or with published models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.cli.layout import in_panels
from msshift_bench.errors import MissingError, UsageError
from msshift_bench.plumbing import check_folder, is_first, progress_bars, shown_log
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.baselines import Plan
    from msshift_bench.data import Dataset

__all__ = ["register"]


def _system_names() -> Iterable[str]:
    from msshift_bench.baselines import find_systems

    return find_systems()


def run(
    what: Annotated[
        str,
        typer.Argument(
            help="A system's name (`msshift list` shows all), `module:Class` of your own, or the "
            "folder or Hub id of a model.",
            autocompletion=options.completing(_system_names),
        ),
    ],
    shift: options.Shifts = None,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    data: options.Data = DATASET_NAME,
    out: Annotated[Path, typer.Option(help="Write run sets below this folder.")] = Path("runs"),
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the runs' folder and tag, so that two recipes of a system stand side "
            "by side. Default: the system's, or the last part of the model's."
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            help="Train only the model without this group; repeat it for several. Default: all."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Train by this recipe: `paper`, `pool`, `mini` or another of `msshift list "
            "SYSTEM`, or a TOML file. Default: `mini`, which is made for the collection `mini`."
        ),
    ] = None,
    changes: options.Changes = None,
    seeds: Annotated[
        str,
        typer.Option(help="Train once per seed, e.g. 1,2,3, each in a folder of its own."),
    ] = "",
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
        bool, typer.Option("--dry-run", help="Check everything, print the plan, and stop.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank with a system, trained once per held-out group, and write its run set.

    What is not trained, such as BM25 or a published model, gives one run per shift. The command
    skips runs that are complete and continues those that were interrupted. A JSON file beside every
    run records what made it.

    Example: `msshift run bi-encoder --shift length --recipe mini --set seed=3`
    """
    from msshift_bench.baselines import Plan, make, open_system
    from msshift_bench.baselines.systems.recipe import read_changes
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.engine import Engine

    replaced, replicates = read_changes(changes or ()), options.whole_numbers("--seeds", seeds)
    if replicates and "seed" in replaced:
        raise UsageError("give either --set seed or the --seeds of replicates")
    dataset = open_dataset(data)
    plan = Plan(
        system=open_system(what, recipe, replaced),
        shifts=shift or (),
        collection=open_source(dataset, collection, qrels),
        out=out,
        data=dataset,
        held_out=held_out or (),
        seeds=replicates,
        name=name,
        keep_model=keep_model,
        also_test=options.extra_folders(also_test),
    )
    if dry_run:
        _show(plan, as_json)
        return
    if is_first():
        check_folder(out.expanduser(), inside=True)
    with (
        progress_bars(),
        shown_log("baselines.systems", "baselines.training", "baselines.retrievers"),
    ):
        runs = make(plan, Engine(ray, store))
    if is_first():
        _tell(runs, out, dataset, as_json, also_test, partial=bool(held_out))


def _show(plan: Plan, as_json: bool) -> None:
    """Print the runs of a plan, and what this machine lacks to make them."""
    plan.system.check_installed()
    runs = plan.runs()
    states = [run.state() for run in runs]
    if as_json:
        rows = [
            {"run": str(run.path), "state": state} for run, state in zip(runs, states, strict=True)
        ]
        print_json(rows)
    else:
        for run, state in zip(runs, states, strict=True):
            print(f"{state:8}  {run.path}")
        left = len(states) - states.count("complete")
        note(f"{left} of {len(runs)} runs to make")
    for run, state in zip(runs, states, strict=True):
        if state != "complete":
            try:
                run.system.check(run)
            except MissingError as error:
                raise MissingError(f"this machine cannot make them: {error}") from error


def _tell(
    runs: list[Path],
    out: Path,
    dataset: Dataset,
    as_json: bool,
    also_test: Sequence[str] | None,
    *,
    partial: bool,
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
    """Add the command to the command line."""
    panels = {
        "Training": ("recipe", "changes", "held_out", "seeds", "keep_model"),
        "Cluster": ("ray", "store"),
        "Output": ("out", "name", "dry_run", "as_json"),
    }
    app.command("run", cls=in_panels(panels))(run)
