"""The panel "Leaderboard": submit entries, check them, and build the pages."""

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
        typer.Option(help="The description of the system; --template prints an empty system.toml."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("submission"),
    data: options.Data = DATASET_NAME,
    template: Annotated[
        bool, typer.Option("--template", help="Print an empty system.toml, and stop.")
    ] = False,
) -> None:
    """Score a system's run sets, and write a leaderboard entry to submit.

    OUT/entries has the entry: the description, every query's scores, and the number of test queries
    among the training queries. OUT/runs is a copy of the run files, to attach.

    Example: `msshift submit --template > system.toml`

    Example: `msshift submit runs/my-system --system system.toml --out submission`
    """
    from msshift_bench.leaderboard import CLASSES, description_template, submit_system

    if template:
        print(description_template(), end="")
        return
    if runs is None or system is None:
        raise UsageError(
            "give the folder of a system's run sets and --system FILE; --template prints an empty "
            "FILE"
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
            help="A row, e.g. mini/bm25: print the commands that reproduce it; with --runs, "
            "compare their runs with the row. Default: check all entries.",
            show_default=False,
        ),
    ] = None,
    entries: Annotated[
        Path | None, typer.Option(help="The folder of entries. Default: the package's entries.")
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="The folder of earlier entries; each must still exist unchanged."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="The built data set of the runs, to count training queries again."),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(help="The folder of run sets (`<system>/<shift>/...`), to score again."),
    ] = None,
    badges: Annotated[
        bool,
        typer.Option(
            "--write-badges",
            help="For maintainers: record entries whose run files give the same scores in "
            "rescored.csv of --entries; they get the badge 'rescored'.",
        ),
    ] = False,
) -> None:
    """Check leaderboard entries with the gate, or repeat a row.

    The gate computes every figure from the per-query scores. With --data and --runs, it scores the
    run files again and compares the scores. It writes only with --write-badges. The exit code is 1
    if an entry is refused.

    Example: `msshift leaderboard check --entries mine --data msshift --runs runs`

    Example: `msshift leaderboard check mini/bm25 --runs runs --data msshift`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.leaderboard import check_entries, entries_folder, write_rescored

    if runs is not None and data is None:
        raise UsageError("--runs needs --data; add --data with the data set of the runs")
    if badges and (entries is None or runs is None or entry is not None):
        raise UsageError("--write-badges needs --entries, --data and --runs, and no row")
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
    rescored = sum(verdict.rescored for verdict in verdicts)
    hint = "" if runs is not None else "; to score run files again, add --data and --runs"
    note(f"{len(verdicts)} versions checked; run files scored again: {rescored}{hint}")
    if not all(verdict.accepted for verdict in verdicts) or any(
        finding.severity == "error" for finding in findings
    ):
        raise typer.Exit(1)


def _print(verdict: GateResult, name: str) -> None:
    facts = "unreadable"
    if verdict.entry is not None and verdict.accepted:
        facts = f"{verdict.entry.badge}, {verdict.entry.training_class}"
    rescored = ", its run files give these scores" if verdict.rescored else ""
    print(f"{'ok     ' if verdict.accepted else 'REFUSED'} {name}  {facts}{rescored}")
    _print_findings(verdict.findings)


def _print_findings(findings: Iterable[Finding]) -> None:
    for finding in findings:
        print(f"  {finding.severity}: {finding}")


def _repeat(name: str, root: Path, dataset: Dataset | None, runs: Path | None) -> None:
    """Check a row, and print its commands, or compare it with runs.

    A refused row, or a difference, ends the command with exit code 1.
    """
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
        typer.Option(help="A folder of entries to use in addition to the package's entries."),
    ] = None,
) -> None:
    """Build the leaderboard's pages: static files that need no server.

    Example: `msshift leaderboard build --entries submission/entries --out site`
    """
    from msshift_bench.leaderboard import build_site

    check_folder(out)
    with progress_bars():
        written = build_site(out, *([] if entries is None else [entries]))
    print(f"open {written}")
