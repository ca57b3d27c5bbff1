"""What a submission says of a system, as one value; its JSON is read strictly.

The fields are those of ``submission.json``, schema 1; ``docs/leaderboard.md`` tells a submitter
about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msshift_bench.errors import SubmissionError
from msshift_bench.evaluation import ReportRecord
from msshift_bench.leaderboard.layout import (
    BADGES,
    CLASSES,
    FAMILIES,
    LAYOUT_VERSION,
    LINKS,
    RERANKS,
    SUBMISSION,
    SUBMISSION_NAME,
    check_agreement,
    check_version,
)
from msshift_bench.leaderboard.schema import Place, typed
from msshift_bench.leaderboard.strict_files import read_strict_json
from msshift_bench.output import plain
from msshift_bench.shifts import SHIFTS

__all__ = [
    "BADGES",
    "CLASSES",
    "FAMILIES",
    "LINKS",
    "RERANKS",
    "LAYOUT_VERSION",
    "SUBMISSION_NAME",
    "SubmittedRun",
    "Submission",
    "SystemInfo",
    "Training",
    "TrainingIds",
    "parse_submission",
    "read_submission",
]


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """What the system is.

    Attributes:
        name: its slug, which names the folder of its entries and its run sets.
        title: its name as a table shows it.
        family: one of `FAMILIES`.
        description: one paragraph.
        backbone: the pre-trained model it started from; "" if none.
        backbone_revision: of the backbone, e.g. a commit; "" if none.
        candidates: which passages it ranks; "" if all. What orders another system's ranking anew
            begins with `RERANKS`, e.g. ``"reranks BM25's first 1000"``.
        licence: of the model or code, as SPDX writes it where it can.
        links: name (one of `LINKS`) -> http or https address.
    """

    name: str
    title: str
    family: str
    description: str
    backbone: str
    backbone_revision: str
    candidates: str
    licence: str
    links: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrainingIds:
    """The queries that one model was trained on.

    Attributes:
        count: how many.
        sha256: of the sorted ids, one per line.
        file: the list, relative to the submission; `None` where it is the data set's own split.
        test_queries: group -> how many of its test queries are among them, as the gate counted.
    """

    count: int
    sha256: str
    file: str | None
    test_queries: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Training:
    """How the system was trained.

    Attributes:
        data: what it was trained on, in words.
        per_group: whether there is a model for every held-out group.
        hard_negatives: how negatives were found; "" if it uses none.
        distillation: from what it was distilled; "" if it was not.
        seeds: of the replicates.
        hardware: what it was trained and run on.
        exposure: a key of `CLASSES`, ``class`` in JSON; the gate sets it.
        queries: shift -> held-out group (``*`` for a system not trained per group) -> ids.
    """

    data: str
    per_group: bool
    hard_negatives: str
    distillation: str
    seeds: tuple[int, ...]
    hardware: str
    exposure: str
    queries: Mapping[str, Mapping[str, TrainingIds]]


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One run file.

    Attributes:
        path: relative to the submission's folder ``runs``, as run sets are laid out.
        bytes: its size.
        sha256: of its bytes.
    """

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Submission:
    """One version of a system's results on a board.

    Attributes:
        board: a key of `BOARDS`.
        version: from 1; a version never changes once it is an entry.
        note: why this version replaces the last, and what a reader must know of it.
        submitted: the day, e.g. ``"2026-11-21"``.
        badge: a key of `BADGES`; the gate sets it.
        system: what it is.
        authors: who made it.
        training: how.
        report: the evaluator's; `None` for a paper's results.
        reported: a paper's results, see docs/leaderboard.md; `None` for any other.
        files: the run files; empty for a paper's results.
    """

    board: str
    version: int
    note: str
    submitted: str
    badge: str
    system: SystemInfo
    authors: tuple[str, ...]
    training: Training
    report: ReportRecord | None
    reported: Mapping[str, Any] | None
    files: tuple[SubmittedRun, ...]

    @property
    def shifts(self) -> tuple[str, ...]:
        """The shifts that it has results on per group, in the order of the table of shifts."""
        if self.report is not None:
            held = {system.shift for system in self.report.systems}
        else:
            held = {*(self.reported or {})["shifts"], *(self.reported or {})["untrained"]}
        return tuple(name for name in SHIFTS if name in held)

    def to_json(self) -> dict[str, Any]:
        """Return the submission as ``submission.json`` holds it."""
        value: dict[str, Any] = {"schema": LAYOUT_VERSION, **plain(self)}
        value["training"]["class"] = value["training"].pop("exposure")
        return value


def read_submission(path: str | Path) -> Submission:
    """Read ``submission.json``, or the one in a folder.

    Raises:
        NotFoundError: if there is none.
        SubmissionError: if it is not a submission; every field that is wrong is named by its JSON
            path.
    """
    path = Path(path)
    if path.is_dir():
        path = path / SUBMISSION_NAME
    return parse_submission(read_strict_json(path), str(path))


def parse_submission(value: Any, name: str = SUBMISSION_NAME) -> Submission:
    """Check a JSON value and return the submission that it is.

    Args:
        value: as `Submission.to_json` gives it.
        name: what to call it in messages.

    Raises:
        SubmissionError: as for `read_submission`.
    """
    place = Place(name)
    if isinstance(value, dict) and value.get("schema", LAYOUT_VERSION) != LAYOUT_VERSION:
        # The layout of another schema is unknown.
        check_version(value["schema"], place.at("schema"))
    else:
        SUBMISSION(value, place)
        if not place.findings:
            check_agreement(value, place)
    if place.findings:
        raise SubmissionError(f"{name} is not a submission:", place.findings)
    training = {**value["training"], "exposure": value["training"]["class"]}
    fields = {**value, "training": training}
    del training["class"], fields["schema"]
    submission: Submission = typed(Submission, fields)
    return submission
