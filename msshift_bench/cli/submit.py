"""``msshift submit``: make a submission to the leaderboard from a system's run sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def submit(
    runs: Annotated[
        Path | None, typer.Argument(help="The folder of one system's run sets.", show_default=False)
    ] = None,
    meta: Annotated[
        Path | None,
        typer.Option(help="A description of the system; an empty meta.toml comes from --template."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("submission"),
    data: options.Data = DATASET_NAME,
    template: Annotated[
        bool, typer.Option("--template", help="Print a meta.toml to fill in, and stop.")
    ] = False,
    no_runs: Annotated[
        bool,
        typer.Option("--no-runs", help="Leave the run files out; hand them in another way."),
    ] = False,
    hub_dataset: Annotated[
        str | None,
        typer.Option(
            metavar="ORG/NAME",
            help="The data set's repository on the Hugging Face Hub: write results for the Hub, "
            "too, to OUT-hub.",
        ),
    ] = None,
) -> None:
    """Make a submission to the leaderboard: validate, evaluate, and write a folder to hand in.

    The folder holds the results, every query's scores, the run files and the lists of training
    queries. `docs/leaderboard.md` explains how to hand it in.

    Example: `msshift submit --template > meta.toml`

    Example: `msshift submit runs/my-system --meta meta.toml --out submission`
    """
    from msshift_bench.leaderboard.layout import CLASSES
    from msshift_bench.leaderboard.meta import meta_template

    if template:
        print(meta_template(), end="")
        return
    if runs is None or meta is None:
        raise UsageError(
            "give the folder of a system's run sets and --meta FILE; --template prints such a file"
        )
    from msshift_bench.leaderboard.hub_results import check_hub_folder, write_hub_results
    from msshift_bench.leaderboard.making import make_submission

    check_folder(out)
    hub_folder = out.with_name(f"{out.name}-hub")
    if hub_dataset is not None:
        from msshift_bench.data import check_repo_name

        check_repo_name(hub_dataset)
        check_folder(hub_folder)
        check_hub_folder(hub_folder)
    with progress_bars() as progress:
        submission = make_submission(
            runs, meta, out, data, keep_runs=not no_runs, progress=progress
        )
    shifts = ", ".join(submission.shifts)
    name, files = submission.system.name, len(submission.files)
    print(f"{name} on {submission.board}: {shifts}; {files} run files")
    exposure = submission.training.exposure
    print(f"training queries: {exposure} ({CLASSES[exposure]})")
    for shift, models in submission.training.queries.items():
        for held_out, ids in models.items():
            if any(ids.test_queries.values()):
                held = ", ".join(f"{n} of {group}" for group, n in ids.test_queries.items() if n)
                print(f"  {shift}/{held_out}: {ids.count} queries, test queries among them: {held}")
    if hub_dataset is not None:
        benchmark, values = write_hub_results(submission, hub_dataset, hub_folder)
        note(f"wrote {benchmark} for {hub_dataset}, and {values} for the model's repository")
    note(f"wrote {out}; check it with 'msshift leaderboard check {out} --data {data}'")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("submit")(submit)
