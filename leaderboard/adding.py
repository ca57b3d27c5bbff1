"""Making a submission an entry: the gate, then a new version in the folder of entries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import open_dataset, sha256_of
from msshift_bench.errors import Finding, NotFoundError, SubmissionError, UsageError
from msshift_bench.leaderboard.archive import unpack
from msshift_bench.leaderboard.entries import load_entries, versions_of
from msshift_bench.leaderboard.file_list import RUNS, SCORES_NAME, write_file_list
from msshift_bench.leaderboard.gate import Verdict, check_submission
from msshift_bench.leaderboard.layout import SUBMISSION_NAME
from msshift_bench.leaderboard.plausibility import fingerprint, twins
from msshift_bench.leaderboard.strict_files import dump_json
from msshift_bench.leaderboard.submission import Submission, parse_submission, read_submission
from msshift_bench.plumbing import copy_files, remove_unfinished, replace_folder, settle
from msshift_bench.shifts import DATASET_NAME

__all__ = ["add_submission", "open_submission"]


@contextmanager
def open_submission(submission: Path) -> Iterator[Path]:
    """Give the folder of a submission; an archive is unpacked for as long as the context lasts.

    Raises:
        NotFoundError: if it does not exist.
        SubmissionError: if it is an archive that is not unpacked; see `archive.unpack`.
    """
    settle(submission)
    if submission.is_dir():
        yield submission
        return
    if not submission.exists():
        raise NotFoundError(f"no submission at {submission}")
    with tempfile.TemporaryDirectory(prefix="msshift-") as folder:
        unpack(submission, Path(folder))
        yield Path(folder)


def add_submission(
    submission: str | Path,
    entries: str | Path,
    data: str | Path = DATASET_NAME,
    *,
    runs: str | Path | None = None,
    reproduced: str = "",
) -> tuple[Path, Verdict]:
    """Check a submission, score its runs again, and add it as the next version of its system.

    Args:
        submission: the folder that `msshift submit` wrote, or an archive of it.
        entries: the folder of entries.
        data: the built data set that its board takes.
        runs: the folder of run sets that has its run files, if they are not in it.
        reproduced: for maintainers who ran its recipe again: what they ran; it becomes part of
            the note.

    Returns:
        The folder of the new version, and what the gate said.

    Raises:
        NotFoundError: if there is no such submission or data set.
        SubmissionError: with all findings, if it is refused.
        UsageError: if a paper's results are said to be reproduced.
    """
    entries = Path(entries)
    with open_submission(Path(submission)) as folder:
        checked = _checked(folder, data, None if runs is None else Path(runs))
        found = checked.submission
        if found is None or not checked.accepted:
            raise SubmissionError(f"{submission} is refused:", checked.findings)
        if found.report is None and reproduced:
            raise UsageError("a paper's results are not reproduced; submit runs of your own")
        folders = entries / found.board / found.system.name
        settle(entries)
        for place in filter(Path.is_dir, (entries, folders.parent, folders)):
            remove_unfinished(place)
        old = versions_of(folders) if folders.is_dir() else {}
        version = max(old, default=0) + 1
        note = "\n".join(filter(None, (found.note, reproduced)))
        if old and not note.strip():
            finding = Finding(
                "note-needed",
                f"{found.system.name} is on {found.board} already, as version {version - 1}",
                str(submission),
                fix="say in 'note' of meta.toml why the new version replaces it",
            )
            raise SubmissionError(f"{submission} is refused:", [finding])
        _check_others(found, checked, entries)
        accepted = replace(
            found,
            version=version,
            note=note,
            badge="reproduced" if reproduced else found.badge,
            training=replace(found.training, exposure=checked.exposure),
        )
        parse_submission(accepted.to_json())
        if old and _is_same(accepted, folder, old[version - 1]):
            finding = Finding(
                "unchanged",
                f"{found.system.name} is on {found.board} already, as version {version - 1}, with "
                "the same content",
                str(submission),
            )
            raise SubmissionError(f"{submission} is refused:", [finding])
        target = folders / f"v{version}"
        with replace_folder(target, fresh=True) as new:
            copy_files(folder, new, leave_out=RUNS)
            (new / SUBMISSION_NAME).write_bytes(dump_json(accepted.to_json()))
            write_file_list(new)
    return target, checked


def _is_same(accepted: Submission, folder: Path, newest: Path) -> bool:
    """Say whether an entry is what a submission would become, but for the number of the version."""
    there = read_submission(newest)
    said = replace(accepted, version=there.version).to_json() == there.to_json()
    files = [path / SCORES_NAME for path in (folder, newest)]
    digests = {sha256_of(file) if file.is_file() else "" for file in files}
    return said and len(digests) == 1


def _checked(folder: Path, data: str | Path, runs: Path | None) -> Verdict:
    """Check a submission that is not an entry yet."""
    try:
        found = read_submission(folder)
    except (SubmissionError, NotFoundError):
        return check_submission(folder)
    if found.report is None:
        return check_submission(folder)
    open_dataset(data)
    checked = check_submission(folder, data=data, runs=runs)
    if found.badge != "rescored":
        message = f"the badge {found.badge!r} is the maintainers' to give"
        checked.findings.append(Finding("badge-claimed", message, str(folder)))
    if checked.accepted and set(checked.rescored) != set(found.shifts):
        at_hand = runs or folder / RUNS
        if not at_hand.is_dir():
            message, fix = "its run files are not at hand", "submit with runs, or give --runs"
        else:
            message, fix = f"{data} has other test queries", "give --data the board's data set"
        checked.findings.append(
            Finding("not-rescored", f"it cannot be scored again: {message}", str(folder), fix=fix)
        )
    return checked


def _check_others(found: Submission, checked: Verdict, entries: Path) -> None:
    """Compare a submission with the entries of its board; warnings go to what the gate said.

    Raises:
        SubmissionError: if it is another system's run.
    """
    others = [
        entry
        for entry in (load_entries(entries) if entries.is_dir() else ())
        if entry.board.id == found.board and entry.submission.system.name != found.system.name
    ]
    marks = [
        (str(entry.folder), entry.submission, fingerprint(table) if table is not None else {})
        for entry in others
        for table in [entry.scores()]
    ]
    source = str(checked.folder)
    pairs = twins([*marks, (source, found, checked.scores)])
    findings = [one for one in pairs if one.source == source]
    if any(one.severity == "error" for one in findings):
        raise SubmissionError(f"{found.system.name} is refused:", findings)
    checked.findings += findings
