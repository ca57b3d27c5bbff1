"""``msshift leaderboard reproduce``: the commands that make a row again, and what they gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_notes, print_table
from msshift_bench.plumbing import progress_bars
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.leaderboard.entries import Entry

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, typer.Argument(help="A row: its board and its system, e.g. mini/bm25.")],
    runs: Annotated[
        Path | None,
        typer.Option(help="Compare what the commands made: the folder of run sets."),
    ] = None,
    data: options.Data = DATASET_NAME,
    entries: Annotated[
        Path | None,
        typer.Option(help="The folder of entries. Default: those that come with the package."),
    ] = None,
) -> None:
    """Show the commands that make a row of a board again, and the figures to expect.

    With `--runs`, it scores the runs that they made, and compares every group's Avg In and Out with
    the row's. It exits with 1 if one lies further off than the row's authors say.

    Example: `msshift leaderboard reproduce mini/bm25`
    """
    from msshift_bench.leaderboard.reproduction import find_entry

    entry = find_entry(name, entries)
    if runs is None:
        _print_commands(entry)
    else:
        _compare(entry, runs, data)


def _print_commands(entry: Entry) -> None:
    from msshift_bench.leaderboard.reproduction import (
        expected_table,
        how_closely,
        why_not_reproducible,
    )

    submission = entry.submission
    if submission.reproduction is not None:
        print("\n".join(submission.reproduction.commands))
    table = expected_table(submission)
    if table.rows:
        print_table(table)
    print_notes([why_not_reproducible(submission) or how_closely(submission)])


def _compare(entry: Entry, runs: Path, data: str) -> None:
    from msshift_bench.leaderboard.reproduction import (
        compare_with_entry,
        comparison_table,
        how_closely,
    )

    with progress_bars() as progress:
        means = compare_with_entry(entry, runs, data, progress=progress)
    print_table(comparison_table(means))
    compared = {mean.shift for mean in means}
    if absent := [shift for shift in entry.submission.shifts if shift not in compared]:
        note(f"{runs} holds no runs of {', '.join(absent)}")
    told = entry.submission.reproduction
    if told is None or told.tolerance is None:
        note(how_closely(entry.submission))
        return
    off = sum(not mean.within(told.tolerance) for mean in means)
    how = f"within {told.tolerance:g}" if told.tolerance else "to the last digit"
    print(f"{len(means) - off} of {len(means)} means repeat {how}")
    if off:
        raise typer.Exit(1)
