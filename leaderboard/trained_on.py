"""Declared training queries: lists of ids, and the test queries among them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import Dataset
from msshift_bench.errors import (
    Finding,
    NotFoundError,
    SubmissionError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.evaluation import SystemScores
from msshift_bench.leaderboard.submission import Submission, Training, TrainingIds
from msshift_bench.plumbing import DamagedInputError, open_stream
from msshift_bench.schema import Place
from msshift_bench.shifts import SHIFTS, Shift

__all__ = [
    "NONE",
    "ONE_MODEL",
    "OWN_SPLIT",
    "UNDECLARED",
    "check_training",
    "exposure_of",
    "ids_digest",
    "listed_ids",
    "own_split",
    "read_ids",
    "training_ids",
    "uses_own_split",
    "write_ids",
]

OWN_SPLIT = "msshift"
"""Trained on the data set's own training split of each held-out group."""

NONE = "none"
"""Not trained."""

UNDECLARED = "undeclared"
"""Trained on queries that the submitter does not declare."""

ONE_MODEL = "*"
"""The key, in place of held-out groups, of a system that was not trained per group."""

_MAX_BYTES = 100_000_000


def read_ids(path: Path) -> tuple[str, ...]:
    """Read a list of query ids, one per line, plain or compressed.

    Returns:
        The ids, sorted.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is too large, damaged or no text, or if a line is blank, holds more
            than an id, or is there twice.
    """

    def wrong(code: str, message: str, line: int = 0) -> SubmissionError:
        finding = Finding(code, message, str(path), line)
        return SubmissionError("this is no list of query ids:", [finding])

    if not path.is_file():
        raise NotFoundError(f"no list of training queries at {path}")
    try:
        with open_stream(path) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except DamagedInputError as error:
        raise wrong("damaged-ids", str(error)) from None
    if len(data) > _MAX_BYTES:
        raise wrong("ids-too-large", f"more than {_MAX_BYTES} bytes uncompressed")
    try:
        lines = data.decode().removesuffix("\n").split("\n") if data else []
    except UnicodeDecodeError:
        raise wrong("not-utf8", "it is not UTF-8") from None
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        query_id = line.removesuffix("\r")
        if not query_id or query_id.split() != [query_id] or len(query_id) > 200:
            raise wrong("not-an-id", f"{query_id[:50]!r} is not one query id", number)
        if query_id in seen:
            raise wrong("repeated-id", f"{query_id!r} is there twice", number)
        seen.add(query_id)
    return tuple(sorted(seen))


def ids_digest(ids: Iterable[str]) -> str:
    """Return the SHA-256 of ids, sorted, one per line."""
    return hashlib.sha256("".join(f"{query_id}\n" for query_id in sorted(ids)).encode()).hexdigest()


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Write ids, sorted, one per line, compressed; equal ids give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{query_id}\n" for query_id in sorted(ids))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def training_ids(
    ids: Sequence[str], tests: Mapping[str, Iterable[str]], file: str | None
) -> TrainingIds:
    """Describe the queries that a model was trained on.

    Args:
        ids: the ids of the training queries.
        tests: group -> ids of its test queries.
        file: the list; `None` for the data set's own training split.
    """
    trained = frozenset(ids)
    seen = {group: len(trained.intersection(queries)) for group, queries in tests.items()}
    return TrainingIds(len(trained), ids_digest(trained), file, seen)


def exposure_of(training: Training, shifts: Iterable[str]) -> str:
    """Return the class of a system's training queries, a key of `CLASSES`.

    Args:
        training: the declared training, with counts of test queries.
        shifts: the shifts on which the system has results.
    """
    models = [
        training.queries.get(shift, {}).get(held_out)
        for shift in shifts
        for held_out in (SHIFTS[shift].groups if training.per_group else (ONE_MODEL,))
    ]
    declared = [ids for ids in models if ids is not None]
    if any(count for ids in declared for count in ids.test_queries.values()):
        return "trained-on-test"
    if len(declared) < len(models) or not models:
        return "undeclared"
    return "held-out" if any(ids.count for ids in declared) else "none"


def own_split(shift: Shift, held_out: str, dataset: Dataset) -> tuple[str, ...]:
    """Return the ids of the data set's own training split of an experiment.

    Raises:
        UsageError: if the data set has none, e.g. because only the released test sets were
            imported.
    """
    try:
        rows = dataset.rows(f"{shift.name}-{held_out}", "train")
    except UnknownNameError:
        raise UsageError(
            f"{dataset.folder} has no training split of {shift.name}-{held_out}, so {OWN_SPLIT!r} "
            f"says nothing; give lists of ids, or {UNDECLARED!r}"
        ) from None
    return tuple(row.query_id for row in rows)


def uses_own_split(models: Mapping[str, TrainingIds]) -> bool:
    """Say whether models were trained on the data set's own split, which a submission lacks."""
    return any(ids.file is None and ids.count for ids in models.values())


def check_training(
    submission: Submission,
    folder: Path,
    scores: Mapping[str, SystemScores],
    data: Mapping[str, Dataset],
    place: Place,
) -> None:
    """Check the declared training queries against every test set of their shift.

    Args:
        submission: the submission.
        folder: the folder of its lists.
        scores: shift -> its per-query scores.
        data: shift -> a data set with the same test queries, if one is at hand.
        place: the place of the field ``training``.

    Raises:
        NotFoundError: if a list is missing.
        SubmissionError: if a file is no list of query ids.
        UsageError: if the data set's own split is declared, and it has none.
    """
    for shift, declared in submission.training.queries.items():
        here = place.at("queries").at(shift)
        if shift not in submission.shifts:
            here.wrong("unexpected-ids", f"there are no results on {shift}")
            continue
        models = set(SHIFTS[shift].groups) if submission.training.per_group else {ONE_MODEL}
        if set(declared) - models:
            here.wrong("wrong-groups", f"{', '.join(sorted(declared))} are not its models")
            continue
        tests = {group: scores[shift].ids_of(group) for group in scores[shift].groups}
        for held_out, claimed in declared.items():
            where, dataset = here.at(held_out), data.get(shift)
            if claimed.test_queries.keys() != tests.keys():
                where.at("test_queries").wrong("wrong-groups", f"expected {', '.join(tests)}")
                continue
            ids = listed_ids(claimed, SHIFTS[shift], held_out, folder, dataset, where)
            if ids is None:
                continue
            if training_ids(ids, tests, claimed.file) != replace(claimed, leaked=None):
                where.wrong(
                    "wrong-ids",
                    "count, digest or the test queries among them are not those of the list",
                    "write the submission again with 'msshift submit'",
                )
            elif claimed.file is not None and dataset is not None:
                _check_held_out(ids, shift, held_out, dataset, where)


def listed_ids(
    claimed: TrainingIds,
    shift: Shift,
    held_out: str,
    folder: Path,
    dataset: Dataset | None,
    place: Place,
) -> Sequence[str] | None:
    """Return the ids of a model's training queries; `None` if they are missing, or wrong.

    Args:
        claimed: what the submission says of them.
        shift: the shift.
        held_out: the model's held-out group, or `ONE_MODEL`.
        folder: the folder of the lists.
        dataset: a data set with the same test queries, if one is at hand.
        place: their place in the submission, for what is wrong.

    Raises:
        NotFoundError: if a list is missing.
        SubmissionError: if a file is no list of query ids.
        UsageError: if the data set's own split is declared, and it has none.
    """
    if not claimed.count and held_out != ONE_MODEL:
        place.wrong("not-untrained", "trained on no query, but there is a run for every group")
        return None
    if claimed.file is not None:
        name = "all" if held_out == ONE_MODEL else held_out
        if claimed.file != f"train/{shift.name}/{name}.txt.gz":
            place.at("file").wrong("wrong-name", f"{claimed.file!r} is another model's list")
            return None
        return read_ids(folder / claimed.file)
    if not claimed.count and claimed.sha256 == ids_digest(()):
        return ()
    if held_out == ONE_MODEL:
        place.at("file").wrong("missing-ids", "training queries are declared, not listed")
        return None
    return None if dataset is None else own_split(shift, held_out, dataset)


def _check_held_out(
    ids: Sequence[str], shift: str, held_out: str, dataset: Dataset, place: Place
) -> None:
    """Warn if a model was trained on queries of its held-out group, or of another training set."""
    # Where the groups are training sets, a model has the name of the one that it was trained on.
    by_size = SHIFTS[shift].by_size
    unseen = {group for group in SHIFTS[shift].groups if (group == held_out) != by_size}
    rows = dataset.rows(shift, "queries")
    of_group = {row.query_id for row in rows if row.group in unseen}
    if seen := len(of_group.intersection(ids)):
        which = "another training set" if by_size else "the group it holds out"
        message = f"{place.path}: {seen} of its training queries are of {which}"
        place.findings.append(
            Finding("saw-held-out-group", message, place.file, severity="warning")
        )
