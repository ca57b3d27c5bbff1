"""Adding a submission: it passes the gate, then becomes a new version in the folder of entries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import Finding, NotFoundError, SubmissionError, UsageError
from msshift_bench.leaderboard.archive import unpack
from msshift_bench.leaderboard.entries import load_entries, read_version, versions_of
from msshift_bench.leaderboard.file_list import RUNS, write_file_list
from msshift_bench.leaderboard.gate import check_results, read_claims, runs_missed
from msshift_bench.leaderboard.layout import NOTE, SUBMISSION_NAME
from msshift_bench.leaderboard.leaked_tests import with_leaked
from msshift_bench.leaderboard.plausibility import fingerprint, twins
from msshift_bench.leaderboard.strict_files import dump_json
from msshift_bench.leaderboard.submission import Submission
from msshift_bench.leaderboard.verdict import Verdict
from msshift_bench.plumbing import copy_files, remove_unfinished, replace_folder, settle
from msshift_bench.schema import Place
from msshift_bench.shifts import DATASET_NAME

__all__ = ["add_submission", "open_submission"]


@contextmanager
def open_submission(submission: Path) -> Iterator[Path]:
    """Yield the folder of a submission; a zip file is unpacked while the context lasts.

    Raises:
        NotFoundError: if it does not exist.
        SubmissionError: if it is a file that `archive.unpack` refuses.
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
    data: Dataset | str | Path = DATASET_NAME,
    *,
    runs: str | Path | None = None,
    reproduced: str = "",
) -> tuple[Path, Verdict]:
    """Check a submission, score its runs again, and add it as the next version of its system.

    Args:
        submission: the folder that `msshift submit` wrote, or a zip file of it.
        entries: the folder of entries.
        data: the built data set of its board.
        runs: the folder of run sets with its run files, if the submission lacks them.
        reproduced: for maintainers who ran its recipe again: the recipe, which is added to the
            note.

    Returns:
        The folder of the new version, and the gate's verdict.

    Raises:
        NotFoundError: if there is no such submission or data set.
        SubmissionError: with all findings, if it is refused.
        UsageError: if `reproduced` is given for a paper's results.
    """
    entries = Path(entries)
    with open_submission(Path(submission)) as folder:
        verdict = _check_new(folder, data, None if runs is None else Path(runs))
        claims = verdict.submission
        verdict.call(str(submission))
        if claims is None or not verdict.accepted:
            raise SubmissionError(f"{submission} is refused:", verdict.findings)
        training = claims.training
        if claims.report is not None:
            training = with_leaked(claims, folder, open_dataset(data))
        if claims.report is None and reproduced:
            raise UsageError("a paper's results are not reproduced; submit runs of your own")
        system = entries / claims.board / claims.system.name
        settle(entries)
        for place in filter(Path.is_dir, (entries, system.parent, system)):
            remove_unfinished(place)
        older = versions_of(system) if system.is_dir() else {}
        version = max(older, default=0) + 1
        accepted = replace(
            claims,
            version=version,
            note="\n".join(filter(None, (claims.note, reproduced))),
            badge="reproduced" if reproduced else claims.badge,
            training=replace(training, exposure=verdict.exposure),
        )
        if reproduced:
            note = Place("note, with --reproduced")
            NOTE(accepted.note, note)
            if note.findings:
                raise SubmissionError("this is no note:", note.findings)
        if older:
            _check_new_version(accepted, older[version - 1], str(submission))
        _check_others(claims, verdict, entries, str(submission))
        target = system / f"v{version}"
        with replace_folder(target, fresh=True) as new:
            copy_files(folder, new, leave_out=RUNS)
            (new / SUBMISSION_NAME).write_bytes(dump_json(accepted.to_json()))
            write_file_list(new)
    return target, verdict


def _check_new(folder: Path, data: Dataset | str | Path, runs: Path | None) -> Verdict:
    """Check a submission that is not an entry yet, and score its runs again."""
    verdict = read_claims(folder)
    claims = verdict.submission
    if claims is None or claims.report is None:
        check_results(verdict, None, runs)
        return verdict
    dataset = open_dataset(data)
    check_results(verdict, dataset, runs)
    if claims.badge != "rescored":
        message = f"the badge {claims.badge!r} is the maintainers' to give"
        verdict.findings.append(Finding("badge-claimed", message, str(folder)))
    if verdict.accepted and set(verdict.rescored) != set(claims.shifts):
        at_hand = (runs or folder / RUNS) / claims.system.name
        if not at_hand.is_dir():
            message, fix = runs_missed(claims, runs)
        else:
            message, fix = (
                f"{dataset.folder} has other test queries",
                "give --data the board's data set",
            )
        verdict.findings.append(
            Finding("not-rescored", f"it cannot be scored again: {message}", str(folder), fix=fix)
        )
    return verdict


def _check_new_version(accepted: Submission, newest: Path, source: str) -> None:
    """Check that a new version differs from the newest, and says why it replaces it.

    Raises:
        SubmissionError: if it does not, or the newest is not as it was added.
    """
    old = read_version(newest)
    before = f"{accepted.system.name} is on {accepted.board} already, as version {old.version}"
    finding = None
    if not accepted.note.strip():
        fix = "say in 'note' of meta.toml why the new version replaces it"
        finding = Finding("note-needed", before, source, fix=fix)
    elif replace(accepted, version=old.version).to_json() == old.to_json():
        finding = Finding("unchanged", f"{before}, with the same content", source)
    if finding is not None:
        raise SubmissionError(f"{source} is refused:", [finding])


def _check_others(claims: Submission, verdict: Verdict, entries: Path, source: str) -> None:
    """Compare a submission with the entries of its board; add warnings to the verdict.

    Raises:
        SubmissionError: if it has another system's run.
    """
    others = [
        (str(entry.folder), entry.submission, fingerprint(entry.scores().values()))
        for entry in (load_entries(entries) if entries.is_dir() else ())
        if entry.board.id == claims.board and entry.submission.system.name != claims.system.name
    ]
    alike = twins([*others, (source, claims, verdict.fingerprint)])
    findings = [finding for finding in alike if finding.source == source]
    if any(finding.severity == "error" for finding in findings):
        raise SubmissionError(f"{claims.system.name} is refused:", findings)
    verdict.findings += findings
