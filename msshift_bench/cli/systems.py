"""The panel "Systems": train systems per held-out group, rank with them, and pre-train encoders."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.output import note, print_json
from msshift_bench.errors import MissingError, UsageError
from msshift_bench.plumbing import check_folder, progress_bars, shown_log
from msshift_bench.shifts import SHIFTS

if TYPE_CHECKING:
    from msshift_bench.baselines import Plan


def run(
    what: Annotated[
        str,
        typer.Argument(
            help="A system's name (`msshift list` lists all), your own `module:Class`, the folder "
            "or Hub id of a model, or folders of models: './models/{held_out}'.",
            autocompletion=options.completing("baselines:find_systems"),
        ),
    ],
    *,
    where: options.Questions,
    source: options.Source,
    exclude: options.Exclude = None,
    out: Annotated[
        Path, typer.Option(help="Write run sets into this folder.", rich_help_panel="Output")
    ] = Path("runs"),
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the runs' folder and tag, e.g. for a second recipe of a system. "
            "Default: the system's name, or the last part of the model's name.",
            rich_help_panel="Output",
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            help="Train only the model without this group (repeatable). Default: one model per "
            "group. `nothing` trains one model on all groups, named SYSTEM-all.",
            autocompletion=options.completing(
                dict.fromkeys(["nothing", *(g for s in SHIFTS.values() for g in s.groups)])
            ),
            rich_help_panel="Training",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Train with this recipe: `paper`, `pool`, `mini` or another of `msshift list "
            "SYSTEM`, or a TOML file. Default: `mini`, for the collection `mini`.",
            rich_help_panel="Training",
        ),
    ] = None,
    changes: Annotated[options.Changes, "Training"] = None,
    seeds: Annotated[
        str,
        typer.Option(
            help="Train once per seed, e.g. 1,2,3; each seed has its own folder. Default for "
            "folders of models: every existing {seed}.",
            rich_help_panel="Training",
        ),
    ] = "",
    keep_model: Annotated[
        bool,
        typer.Option(
            "--keep-model",
            help="Keep each trained model in a folder next to its run, e.g. short.model.",
            rich_help_panel="Training",
        ),
    ] = False,
    gpus: Annotated[
        int,
        typer.Option(
            min=1,
            help="GPUs per trained model, one process each; without GPUs, processors.",
            rich_help_panel="Training",
        ),
    ] = 1,
    extra_test: options.ExtraTest = None,
    cluster: options.Cluster,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything, print the plan, and stop.",
            rich_help_panel="Output",
        ),
    ] = False,
    table_format: Annotated[options.TextOrJson, "Output"] = "text",
) -> None:
    """Train a system once per held-out group, rank with each model, and write the run set.

    A system without training, such as BM25 or a published model, has one run per shift. For your
    own trained models, give the path of their folders with {held_out}, and optionally {seed}: each
    model has one run. The command skips complete runs and continues interrupted ones. A JSON file
    next to every run records its system, data and settings.

    Example: `msshift run bi-encoder --shift length --recipe mini --set seed=3`

    Example: `msshift run './models/{held_out}' --shift length --dry-run`
    """
    from msshift_bench.baselines import Plan, make_runs, open_system
    from msshift_bench.data import open_dataset

    replaced, replicates = options.replacements(changes), options.whole_numbers("--seeds", seeds)
    if replicates and "seed" in replaced:
        raise UsageError("--set seed cannot be used with --seeds; remove one of them")
    dataset = open_dataset(where.data)
    plan = Plan(
        system=open_system(what, recipe, replaced),
        shifts=where.shift or (),
        collection=source.open(dataset),
        out=out,
        data=dataset,
        held_out=held_out or (),
        seeds=replicates,
        name=name,
        keep_model=keep_model,
        gpus=gpus,
        extra_test=options.extra_folders(extra_test),
        exclude=exclude,
    )
    if dry_run:
        _show_plan(plan, table_format)
        return
    check_folder(out.expanduser(), inside=True)
    with (
        cluster.used(),
        progress_bars(),
        shown_log("baselines.systems", "baselines.training", "baselines.retrievers"),
    ):
        runs = make_runs(plan)
    if table_format == "json":
        print_json([str(path) for path in runs])
    else:
        print("".join(f"{path}\n" for path in runs), end="")
    missing = " --allow partial" if held_out and held_out != ["nothing"] else ""
    made, data = quote(str(out)), quote(str(dataset.folder))
    note(f"evaluate with: msshift evaluate {made} --data {data}{missing}")
    for test_set in map(quote, extra_test or ()):
        note(f"and with: msshift evaluate {made} --data {data} --extra-test {test_set}{missing}")


def _show_plan(plan: Plan, chosen: str) -> None:
    """Print the runs of a plan with their states, and check that this machine can make them.

    Raises:
        MissingError: if something is missing for a run.
    """
    plan.system.check_installed()
    runs = plan.runs()
    left = [run for run in runs if run.planned_state != "complete"]
    if chosen == "json":
        print_json([{"run": str(run.path), "state": run.planned_state} for run in runs])
    else:
        for run in runs:
            print(f"{run.planned_state:8}  {run.path}")
        note(f"{len(left)} of {len(runs)} runs to make")
    for run in left:
        try:
            run.system.check(run)
        except MissingError as error:
            raise MissingError(f"this machine cannot make the runs: {error}") from error


def pretrain(
    collection: Annotated[
        str,
        typer.Option(
            help="A folder, an ir_datasets id, or `mini`. Only its passages are read, not its "
            "queries and judgements."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the encoder to this folder.")],
    recipe: Annotated[
        str,
        typer.Option(help="A recipe's name (`msshift list pretrain` lists all), or a TOML file."),
    ] = "mini",
    changes: options.Changes = None,
) -> None:
    """Pre-train an encoder only on a collection's passages, from random weights.

    The vocabulary is also learnt from the passages. So the encoder has seen no query and no
    judgement of any test set. The same command continues an interrupted pre-training. The file
    pretraining.json in the folder records the encoder's training data.

    Example: `msshift pretrain --collection mini:300 --recipe mini --out encoder --set steps=10`
    """
    from msshift_bench.baselines import pretrain_encoder

    with progress_bars(), shown_log("baselines.pretraining", "baselines.training"):
        folder = pretrain_encoder(
            collection, recipe, out=out, changes=options.replacements(changes)
        )
    print(folder)
    note(f"start from it with: msshift run bi-encoder --set encoder={quote(str(folder))}")
