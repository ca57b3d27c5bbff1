"""What should not be: runs that know the answers, one run under two names, losses below zero."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msshift_bench.errors import Finding
from msshift_bench.leaderboard.rescoring import SETTINGS
from msshift_bench.leaderboard.submission import Submission

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Fingerprint", "fingerprint", "implausible", "repeated_runs", "twins"]

_PERFECT = "nDCG@10"

Fingerprint = Mapping[str, str]
"""Shift -> digest of all per-query scores of a system."""


def implausible(submission: Submission, table: pa.Table, source: str) -> Iterator[Finding]:
    """Yield what is wrong, or odd, about a submission's scores.

    Args:
        submission: the submission, with a report.
        table: its per-query scores.
        source: what to call it.
    """
    import pyarrow.compute as pc

    perfect = table.filter(pc.equal(table["measure"], _PERFECT))
    worst = perfect.group_by(["shift", "seed", "held_out"]).aggregate([("score", "min")])
    for row in worst.to_pylist():
        if row["score_min"] is not None and row["score_min"] >= 1:
            model = f"without {row['held_out']}" if row["held_out"] else "of all groups"
            yield Finding(
                "leaks-qrels",
                f"the run {model} on {row['shift']} has every relevant passage before all others, "
                "for every query: it holds the qrels",
                source,
                fix="submit what the system retrieves",
            )
    assert submission.report is not None
    for system in submission.report["systems"]:
        loss = system["measures"][SETTINGS.measures[0]]["loss"]
        if loss and all(one["loss"] < 0 for one in loss["groups"].values()):
            yield Finding(
                "out-above-in",
                f"on {system['shift']} the model that did not see a group beats those that did, in "
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


def fingerprint(table: pa.Table) -> dict[str, str]:
    """Return shift -> digest of a system's per-query scores, whatever its name is."""
    import pyarrow.compute as pc

    found = {}
    for shift in table["shift"].unique().to_pylist():
        part = table.filter(pc.equal(table["shift"], shift))
        digest = hashlib.sha256()
        for name in ("held_out", "group", "query_id", "measure", "score"):
            column = part[name].cast("string") if name == "score" else part[name]
            digest.update("\n".join(map(str, column.to_pylist())).encode())
        found[shift] = digest.hexdigest()
    return found


def twins(
    submissions: Iterable[tuple[str, Submission, Fingerprint]],
) -> Iterator[Finding]:
    """Yield the pairs of systems of one board that have a run, or all scores, in common.

    Args:
        submissions: what to call each, the submission, and its scores' fingerprint.
    """
    runs: dict[tuple[str, str], tuple[str, str]] = {}
    scores: dict[tuple[str, str, str], tuple[str, str]] = {}
    said: set[Any] = set()
    for source, one, marks in submissions:
        name = one.system.name
        for file in one.files:
            other, where = runs.setdefault((one.board, file.sha256), (name, source))
            if other != name and ("run", name, other) not in said:
                said.add(("run", name, other))
                yield Finding(
                    "same-run",
                    f"{file.path} has the bytes of a run of {other} ({where})",
                    source,
                    fix="one system has one name; a new version of it is a new version there",
                )
        for shift, digest in marks.items():
            other, where = scores.setdefault((one.board, shift, digest), (name, source))
            if other != name and ("run", name, other) not in said:
                yield Finding(
                    "same-scores",
                    f"on {shift} every query has the score that it has under {other} ({where})",
                    source,
                    severity="warning",
                )
