"""``msshift leaderboard``: check submissions, add entries, build the page, repeat a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.reproduce import reproduce
from msshift_bench.errors import SubmissionError, UsageError
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.errors import Finding
    from msshift_bench.leaderboard.verdict import Verdict

__all__ = ["register"]

Entries = Annotated[
    Path | None,
    typer.Option(help="The folder of entries. Default: those that come with the package."),
]
Runs = Annotated[
    Path | None,
    typer.Option(
        help="The folder of run sets (`<system>/<shift>/...`), for submissions without run files."
    ),
]
DataAtHand = Annotated[
    str | None, typer.Option(help="Score the run files again on this built data set.")
]


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Submissions: folders or zip files. Default: all entries."),
    ] = None,
    entries: Entries = None,
    base: Annotated[
        Path | None,
        typer.Option(help="The earlier entries; refuse any that is missing now, or changed."),
    ] = None,
    runs: Runs = None,
    data: DataAtHand = None,
) -> None:
    """Check submissions, or all entries, as the leaderboard's gate does.

    The gate computes every figure again from the per-query scores. Where it has the run files and
    the data set, it computes the per-query scores again, too; it says what it could not check. It
    exits with 1 if it refuses anything.

    Example: `msshift leaderboard check submission/ --data msshift`

    Example: `msshift leaderboard check --entries entries --base main/entries`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.leaderboard.adding import open_submission
    from msshift_bench.leaderboard.entries import entries_folder
    from msshift_bench.leaderboard.gate import check_submission
    from msshift_bench.leaderboard.history import check_entries
    from msshift_bench.leaderboard.verdict import Verdict

    if paths and (entries is not None or base is not None):
        raise UsageError(
            "--entries and --base are for the check of all entries; leave them out, or give no "
            "submission"
        )
    dataset = None if data is None else open_dataset(data)
    if paths:
        accepted = True
        for path in paths:
            try:
                with open_submission(path) as folder:
                    verdict = check_submission(folder, data=dataset, runs=runs)
            except SubmissionError as error:  # An archive that is not unpacked; others may be.
                verdict = Verdict(path, findings=[*error.findings])
            verdict.call(str(path))
            _print(verdict, str(path), _badge_of_new(verdict))
            _print_checks(verdict)
            accepted &= verdict.accepted
    else:
        checked = check_entries(entries or entries_folder(), base=base, data=dataset, runs=runs)
        for verdict in checked.versions:
            claims = verdict.submission
            badge = "unreadable" if claims is None else claims.badge
            _print(verdict, "/".join(verdict.folder.parts[-3:]), badge)
        _print_findings(checked.findings)
        accepted = checked.accepted
        count = len(checked.versions)
        versions = f"{count} version{'' if count == 1 else 's'}"
        note(f"{versions}: {'accepted' if accepted else 'REFUSED'}")
        _note_rescored(checked.versions, runs is not None and data is not None)
    if not accepted:
        raise typer.Exit(1)


def _print(verdict: Verdict, name: str, badge: str) -> None:
    exposure = "" if verdict.submission is None else f", {verdict.exposure}"
    again = f", scored again: {', '.join(verdict.rescored)}" if verdict.rescored else ""
    print(f"{'ok     ' if verdict.accepted else 'REFUSED'} {name}  {badge}{exposure}{again}")
    _print_findings(verdict.findings)


def _badge_of_new(verdict: Verdict) -> str:
    """Return what the gate can say of the badge that a submission claims."""
    claims = verdict.submission
    if claims is None:
        return "unreadable"
    confirmed = claims.report is None or set(verdict.rescored) == set(claims.shifts)
    return claims.badge if confirmed else f"'{claims.badge}' not confirmed"


def _print_checks(verdict: Verdict) -> None:
    if verdict.accepted:
        print(f"  checked: {'; '.join(verdict.checked)}")
        for what, why in verdict.unchecked.items():
            print(f"  NOT checked: {what}: {why}")


def _note_rescored(verdicts: Sequence[Verdict], at_hand: bool) -> None:
    """Say how many versions were scored again: entries hold no run files."""
    scored = [verdict for verdict in verdicts if verdict.fingerprint]
    again = sum(bool(verdict.rescored) for verdict in scored)
    how = "" if at_hand else "; entries hold no run files: give --runs and --data"
    note(
        f"every figure computed again from per-query scores: {len(scored)} of {len(verdicts)}, and "
        f"these from run files: {again}{how}"
    )


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(f"  {finding.severity}: {finding}")


def add(
    submission: Annotated[Path, typer.Argument(help="A submission: a folder or a zip file.")],
    entries: Annotated[
        Path | None,
        typer.Option(
            help="The folder of entries to add it to, e.g. leaderboard/entries in a clone; always "
            "needed."
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    runs: Runs = None,
    reproduced: Annotated[
        str, typer.Option(help="For maintainers: name the recipe that you ran again.")
    ] = "",
) -> None:
    """Check a submission, score its runs again, and add it to the entries as a new version.

    The folder of entries is `leaderboard/entries` of your clone of the repository, to hand the
    system in by a pull request, or a folder of your own, to look at a board of yours.

    Example: `msshift leaderboard add submission.zip --entries leaderboard/entries`
    """
    if entries is None:
        raise UsageError(
            "say where the entries are: --entries leaderboard/entries in a clone of the "
            "repository, to hand the system in by a pull request, or --entries my-entries for a "
            "board of your own; those of the installed package stay as they were released"
        )
    from msshift_bench.leaderboard.adding import add_submission

    check_folder(entries, inside=True)
    folder, verdict = add_submission(submission, entries, data, runs=runs, reproduced=reproduced)
    _print(verdict, str(submission), "reproduced" if reproduced else _badge_of_new(verdict))
    print(f"added {folder}")
    note(
        f"see it with 'msshift leaderboard build --entries {entries}'; it is handed in once a pull "
        "request of the repository adds that folder"
    )


def build(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("site"),
    entries: Entries = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A built data set; the pages show its queries' texts."),
    ] = None,
) -> None:
    """Build the leaderboard's pages: static files that need no server and load nothing from it.

    Example: `msshift leaderboard build --out site`
    """
    from msshift_bench.leaderboard.site import build_site

    check_folder(out)
    with progress_bars() as progress:
        written = build_site(entries, out, data=data, progress=progress)
    print(f"open {written}")


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="The leaderboard: check submissions, add entries, build the page, repeat a row.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
    )
    group.command("check")(check)
    group.command("add")(add)
    group.command("build")(build)
    group.command("reproduce")(reproduce)
    app.add_typer(group, name="leaderboard")
