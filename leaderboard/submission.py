"""A submission as one value, and the strict reading of its JSON.

The fields are those of ``submission.json``, schema 1; ``docs/leaderboard.md`` explains them to
submitters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from msshift_bench.errors import SubmissionError
from msshift_bench.evaluation import ReportRecord
from msshift_bench.leaderboard.layout import (
    LAYOUT_VERSION,
    SUBMISSION,
    SUBMISSION_NAME,
    check_agreement,
    check_version,
)
from msshift_bench.leaderboard.strict_files import read_strict_json
from msshift_bench.output import plain
from msshift_bench.schema import Place, typed
from msshift_bench.shifts import in_order

__all__ = [
    "Reproduction",
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
    """The description of a system.

    Attributes:
        name: its slug, which names the folder of its entries and its run sets.
        title: its name in tables.
        family: one of `FAMILIES`.
        description: one paragraph.
        backbone: the pre-trained model it started from; "" if none.
        backbone_revision: the backbone's revision, e.g. a commit; "" if none.
        candidates: the passages that it ranks; "" if all. For a reranker it begins with `RERANKS`,
            e.g. ``"reranks BM25's first 1000"``.
        licence: the licence of the model or code, by its SPDX id if it has one.
        year: when it was published: the year of its paper, if it has one; `None` if not stated.
        parameters: the number of trained weights of one model; 0 if it was not trained, `None` if
            not stated.
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
    year: int | None
    parameters: int | None
    links: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrainingIds:
    """The queries that one model was trained on.

    Attributes:
        count: the number of queries.
        sha256: digest of the sorted ids, one per line.
        file: the list, relative to the submission; `None` for the data set's own split.
        test_queries: group -> how many of its test queries are among them, as the gate counted.
        leaked: group that is zero-shot to the model -> how many of its test queries have a
            near-duplicate among them, as the gate found; `None` if it did not look, or lacked
            texts.
    """

    count: int
    sha256: str
    file: str | None
    test_queries: Mapping[str, int]
    leaked: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Training:
    """How the system was trained.

    Attributes:
        data: the training data, in words.
        per_group: whether there is a model for every held-out group.
        hard_negatives: how negatives were found; "" if it uses none.
        distillation: the models that it was distilled from; "" if none.
        seeds: the seeds of the replicates.
        hardware: the machine that trained and ran it.
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
class Reproduction:
    """How others make the results again.

    Attributes:
        commands: from an empty folder to the evaluation, one per line; shown, never run.
        tolerance: how far the mean score of a group (Avg In and Out, from 0 to 1) may lie from the
            entry's; 0 is to the last digit, `None` not stated.
    """

    commands: tuple[str, ...]
    tolerance: float | None


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One run file.

    Attributes:
        path: relative to the submission's folder ``runs``, in the layout of run sets.
        bytes: its size.
        sha256: the digest of its bytes.
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
        note: why this version replaces the last, and other notes for readers.
        submitted: the day, e.g. ``"2026-11-21"``.
        badge: a key of `BADGES`; the gate sets it.
        system: the system's description.
        authors: the names of the authors.
        training: how the system was trained.
        reproduction: how others make the results again; `None` if it is not stated.
        report: the evaluator's report; `None` for a paper's results.
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
    reproduction: Reproduction | None
    report: ReportRecord | None
    reported: Mapping[str, Any] | None
    files: tuple[SubmittedRun, ...]

    @property
    def shifts(self) -> tuple[str, ...]:
        """The shifts with results per group, in the order of the table of shifts."""
        if self.report is not None:
            held = {system.shift for system in self.report.systems}
        else:
            held = {*(self.reported or {})["shifts"], *(self.reported or {})["untrained"]}
        return tuple(in_order(held))

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``submission.json``."""
        members = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        value: dict[str, Any] = {"schema": LAYOUT_VERSION, **members}
        value["training"]["class"] = value["training"].pop("exposure")
        return value


def read_submission(path: str | Path) -> Submission:
    """Read ``submission.json``, or the one in a folder.

    Raises:
        NotFoundError: if there is none.
        SubmissionError: if it is not a submission; it names every wrong field by its JSON path.
    """
    path = Path(path)
    if path.is_dir():
        path = path / SUBMISSION_NAME
    return parse_submission(read_strict_json(path), str(path))


def parse_submission(value: Any, name: str = SUBMISSION_NAME) -> Submission:
    """Check a JSON value and return its submission.

    Args:
        value: JSON as `Submission.to_json` returns it.
        name: its name in messages.

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
    members = {**value, "training": training}
    del training["class"], members["schema"]
    submission: Submission = typed(Submission, members)
    return submission
