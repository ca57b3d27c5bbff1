"""Implausible scores: runs that know the answers, one run under two names, losses below zero."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from msshift_bench.errors import Finding
from msshift_bench.evaluation import SystemScores
from msshift_bench.leaderboard.rescoring import SETTINGS
from msshift_bench.leaderboard.submission import Submission

__all__ = ["Fingerprint", "fingerprint", "implausible", "repeated_runs", "twins"]

_PERFECT = "nDCG@10"

Fingerprint = Mapping[str, str]
"""Shift -> digest of all per-query scores of a system."""


def implausible(
    submission: Submission, scores: Iterable[SystemScores], source: str
) -> Iterator[Finding]:
    """Yield findings on a submission's scores that are wrong, or odd.

    Args:
        submission: the submission, with a report.
        scores: its per-query scores on each shift.
        source: its name in findings.
    """
    for of_shift in scores:
        for run in of_shift.runs:
            if run.scores[_PERFECT].min() >= 1:
                model = f"without {run.held_out}" if run.held_out else "of all groups"
                yield Finding(
                    "leaks-qrels",
                    f"the run {model} on {of_shift.shift.name} has every relevant passage before "
                    "all others, for every query: it holds the qrels",
                    source,
                    fix="submit what the system retrieves",
                )
    assert submission.report is not None
    for system in submission.report.systems:
        loss = system.measures[SETTINGS.measures[0].name].loss
        if loss and all(group.loss < 0 for group in loss.groups.values()):
            yield Finding(
                "out-above-in",
                f"on {system.shift} the model that did not see a group beats those that did, in "
                "every group; held-out groups may have been named the wrong way round",
                source,
                severity="warning",
            )


def repeated_runs(submission: Submission, source: str) -> Iterator[Finding]:
    """Yield the run files of one submission whose bytes are the same."""
    first: dict[str, str] = {}
    for file in submission.files:
        other = first.setdefault(file.sha256, file.path)
        if other != file.path:
            yield Finding(
                "same-run",
                f"{file.path} and {other} are the same file, and so one model",
                source,
                fix="give one <shift>.run for a system that was not trained per group",
            )


def fingerprint(scores: Iterable[SystemScores]) -> dict[str, str]:
    """Return shift -> digest of a system's per-query scores, whatever its name is."""
    return {of_shift.shift.name: _digest(of_shift) for of_shift in scores}


def _digest(scores: SystemScores) -> str:
    digest = hashlib.sha256("\n".join(scores.query_ids).encode())
    for group, queries in scores.groups.items():
        digest.update(group.encode() + queries.tobytes())
    for run in scores.runs:
        for measure, values in run.scores.items():
            digest.update(f"{run.held_out} {measure}".encode() + values.tobytes())
    return digest.hexdigest()


def twins(
    submissions: Iterable[tuple[str, Submission, Fingerprint]],
) -> Iterator[Finding]:
    """Yield the pairs of systems of one board that have a run, or all scores, in common.

    Args:
        submissions: the name of each in findings, the submission, and its scores' fingerprint.
    """
    runs: dict[tuple[str, str], tuple[str, str]] = {}
    scores: dict[tuple[str, str, str], tuple[str, str]] = {}
    same_runs: set[tuple[str, str]] = set()
    for source, submission, fingerprints in submissions:
        board, name = submission.board, submission.system.name
        for file in submission.files:
            other, where = runs.setdefault((board, file.sha256), (name, source))
            if other != name and (name, other) not in same_runs:
                same_runs.add((name, other))
                yield Finding(
                    "same-run",
                    f"{file.path} has the bytes of a run of {other} ({where})",
                    source,
                    fix="one system has one name; a new version of it is a new version there",
                )
        for shift, digest in fingerprints.items():
            other, where = scores.setdefault((board, shift, digest), (name, source))
            if other != name and (name, other) not in same_runs:
                yield Finding(
                    "same-scores",
                    f"on {shift} every query has the score that it has under {other} ({where})",
                    source,
                    severity="warning",
                )
