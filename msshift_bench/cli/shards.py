"""``msshift shards``: the jobs of a job array, and the engines that other commands work with."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli.console import note

__all__ = ["register", "working_on"]

Folder = Annotated[Path, typer.Argument(help="The folder of the job array, which holds job.json.")]


def run(
    folder: Folder,
    number: Annotated[int, typer.Argument(help="The job's number, from 0.", min=0)],
) -> None:
    """Carry out the shards of one job of an array; those that are done are skipped.

    A command with `--engine slurm` writes the folder and a script that calls this.

    Example: `msshift shards run runs/.work/bm25/length/all/shards 0`
    """
    from msshift_bench.shards import run_shards

    made = run_shards(folder.absolute(), number)
    for name in made:
        print(name)
    note("carried out 1 shard" if len(made) == 1 else f"carried out {len(made)} shards")


def merge(folder: Folder) -> None:
    """Check that all shards of a job array are done, and go on with the command that cut them.

    If jobs failed, it names them, and what starts them again.

    Example: `msshift shards merge runs/.work/bm25/length/all/shards`
    """
    from msshift_bench.shards import merge_shards

    command, working_folder = merge_shards(folder.absolute())
    note(f"all shards are done; going on with: msshift {shlex.join(command)}")
    arguments = [sys.executable, "-m", "msshift_bench", *command]
    done = subprocess.run(arguments, cwd=working_folder, check=False)
    raise typer.Exit(done.returncode)


@contextmanager
def working_on(
    engine: str, address: str | None, workers: int | None, shards: str | None
) -> Iterator[None]:
    """Let an engine carry out the shards of the block, and end the command if they must wait.

    Args:
        engine: the engine's name.
        address: a Ray cluster's address.
        workers: see `choose_engine`.
        shards: where finished shards stand.

    Raises:
        UnknownNameError: for an engine that does not exist.
        UsageError: if something was given that the engine does not have.
        MissingExtraError: if Ray is not installed.
    """
    from msshift_bench.shards import ShardsAwaitedError, choose_engine, using_engine

    chosen = choose_engine(
        engine, address=address, workers=workers, place=shards, command=sys.argv[1:]
    )
    try:
        with using_engine(chosen):
            yield
    except ShardsAwaitedError as awaited:
        print(awaited.job.script)
        note(str(awaited))
        raise typer.Exit from awaited


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(
        help="Carry out and collect the shards of a job array.", no_args_is_help=True
    )
    group.command("run")(run)
    group.command("merge")(merge)
    app.add_typer(group, name="shards")
