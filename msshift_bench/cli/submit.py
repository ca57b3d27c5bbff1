"""``msshift submit``: make an entry of the leaderboard from a system's run sets."""

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
    system: Annotated[
        Path | None,
        typer.Option(help="A description of it; an empty system.toml comes from --template."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("submission"),
    data: options.Data = DATASET_NAME,
    template: Annotated[
        bool, typer.Option("--template", help="Print a system.toml to fill in, and stop.")
    ] = False,
    hub_dataset: Annotated[
        str | None,
        typer.Option(
            metavar="ORG/NAME",
            help="The data set's repository on the Hugging Face Hub: write results for the Hub, "
            "too, to OUT/hub.",
        ),
    ] = None,
) -> None:
    """Score a system's run sets, and write its entry of the leaderboard to hand in.

    OUT/entries holds the entry: the description, every query's scores, and how many test queries
    are among the training queries. OUT/runs is a copy of the run files, to attach.

    Example: `msshift submit --template > system.toml`

    Example: `msshift submit runs/my-system --system system.toml --out submission`
    """
    from msshift_bench.leaderboard import CLASSES, description_template

    if template:
        print(description_template(), end="")
        return
    if runs is None or system is None:
        raise UsageError(
            "give the folder of a system's run sets and --system FILE; --template prints such a "
            "file"
        )
    from msshift_bench.leaderboard import submit_system, write_hub_results

    check_folder(out)
    if hub_dataset is not None:
        from msshift_bench.data import check_repo_name

        check_repo_name(hub_dataset)
    with progress_bars() as progress:
        entry = submit_system(runs, system, out, data, progress=progress)
    print(f"{entry.description.place}: {', '.join(entry.scores)}")
    print(f"training queries: {entry.training_class} ({CLASSES[entry.training_class]})")
    for doubt in entry.doubts:
        print(f"  {doubt}")
    for row in entry.training:
        if row.test_queries:
            print(f"  {row.shift}/{row.model}: {row.test_queries} test queries of {row.group}")
    if hub_dataset is not None:
        benchmark, values = write_hub_results(entry, hub_dataset, out)
        note(f"wrote {benchmark} for {hub_dataset}, and {values} for the model's repository")
    note(
        f"wrote {out}; check it with 'msshift leaderboard check --entries {out}/entries --data "
        f"{data} --runs {out}/runs'"
    )


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("submit")(submit)
