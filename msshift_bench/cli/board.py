"""The panel "Leaderboard": entries, the gate, and the pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.output import note, show
from msshift_bench.errors import Finding, UsageError, check_name
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.data import Dataset
    from msshift_bench.leaderboard import GateResult


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
) -> None:
    """Score a system's run sets, and write its entry of the leaderboard to hand in.

    OUT/entries holds the entry: the description, every query's scores, and how many test queries
    are among the training queries. OUT/runs is a copy of the run files, to attach.

    Example: `msshift submit --template > system.toml`

    Example: `msshift submit runs/my-system --system system.toml --out submission`
    """
    from msshift_bench.leaderboard import CLASSES, description_template, submit_system

    if template:
        print(description_template(), end="")
        return
    if runs is None or system is None:
        raise UsageError(
            "give the folder of a system's run sets and --system FILE; --template prints such a "
            "file"
        )
    check_folder(out)
    with progress_bars():
        entry = submit_system(runs, system, out, data)
    print(f"{entry.description.place}: {', '.join(entry.scores)}")
    print(f"training queries: {entry.training_class} ({CLASSES[entry.training_class]})")
    for warning in entry.head["warnings"]:
        print(f"  {warning}")
    for row in entry.training:
        if row.test_queries:
            print(f"  {row.shift}/{row.model}: {row.test_queries} test queries of {row.group}")
    note(
        f"wrote {out}; check it with 'msshift leaderboard check --entries {out}/entries --data "
        f"{data} --runs {out}/runs'"
    )


def check(
    entry: Annotated[
        str | None,
        typer.Argument(
            help="A row, e.g. mini/bm25: show the commands that make it again, and with --runs how "
            "closely what they made repeats it. Default: check all entries.",
            show_default=False,
        ),
    ] = None,
    entries: Annotated[
        Path | None,
        typer.Option(help="The folder of entries. Default: those that come with the package."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="The earlier entries; refuse any that is missing now, or changed."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="The built data set that runs answer: count training queries again on it."
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(help="The folder of run sets (`<system>/<shift>/...`): score them again."),
    ] = None,
    badges: Annotated[
        bool,
        typer.Option(
            "--write-badges",
            help="For maintainers: record the entries whose run files give their scores in "
            "rescored.csv of --entries. They get the badge 'rescored'.",
        ),
    ] = False,
) -> None:
    """Check entries as the leaderboard's gate does, or repeat a row.

    The gate computes every figure from the per-query scores. With --data and --runs it scores the
    run files again, and compares the scores. It writes nothing, except with --write-badges. It
    exits with 1 if it refuses anything.

    Example: `msshift leaderboard check --entries mine --data msshift --runs runs`

    Example: `msshift leaderboard check mini/bm25 --runs runs --data msshift`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.leaderboard import check_entries, entries_folder, write_rescored

    if runs is not None and data is None:
        raise UsageError("to score runs again, give --data, the data set that they answer")
    if badges and (entries is None or runs is None or entry is not None):
        raise UsageError("to write badges, give --entries, --data and --runs, and name no row")
    dataset = None if data is None else open_dataset(data)
    root = entries_folder() if entries is None else entries
    if entry is not None:
        _repeat(entry, root, dataset, runs)
        return
    with progress_bars():
        verdicts, findings = check_entries(root, base=base, dataset=dataset, runs=runs)
    for verdict in verdicts:
        _print(verdict, "/".join(verdict.folder.parts[-3:]))
    _print_findings(findings)
    for name in write_rescored(root, verdicts) if badges else ():
        note(f"{name} is rescored now: {root / 'rescored.csv'}")
    again = sum(verdict.rescored for verdict in verdicts)
    how = "" if runs is not None else "; give --data and --runs for that"
    note(f"{len(verdicts)} versions checked; run files scored again: {again}{how}")
    if not all(verdict.accepted for verdict in verdicts) or any(
        finding.severity == "error" for finding in findings
    ):
        raise typer.Exit(1)


def _print(verdict: GateResult, name: str) -> None:
    facts = "unreadable"
    if verdict.entry is not None and verdict.accepted:
        facts = f"{verdict.entry.badge}, {verdict.entry.training_class}"
    again = ", its run files give these scores" if verdict.rescored else ""
    print(f"{'ok     ' if verdict.accepted else 'REFUSED'} {name}  {facts}{again}")
    _print_findings(verdict.findings)


def _print_findings(findings: Iterable[Finding]) -> None:
    for finding in findings:
        print(f"  {finding.severity}: {finding}")


def _repeat(name: str, root: Path, dataset: Dataset | None, runs: Path | None) -> None:
    """Check a row, and show its commands, or how closely runs repeat it."""
    from msshift_bench.leaderboard import check_entry, load_entries, repeat_entry

    rows = {row.description.name: row for row in load_entries(root)}
    row = rows[check_name("entry", name, rows)]
    verdict = check_entry(row.folder, dataset)
    _print(verdict, name)
    if not verdict.accepted:
        raise typer.Exit(1)
    if runs is None or dataset is None:
        print("\n".join(row.description.reproduction.commands))
        return
    with progress_bars():
        repeated = repeat_entry(row, dataset, runs)
    show(repeated, "text")
    if repeated.facts["off"]:
        raise typer.Exit(1)


def build(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("site"),
    entries: Annotated[
        Path | None,
        typer.Option(help="A folder of entries to add to those that come with the package."),
    ] = None,
) -> None:
    """Build the leaderboard's pages: static files that need no server and load nothing from it.

    Example: `msshift leaderboard build --entries submission/entries --out site`
    """
    from msshift_bench.leaderboard import build_site

    check_folder(out)
    with progress_bars():
        written = build_site(out, *([] if entries is None else [entries]))
    print(f"open {written}")
