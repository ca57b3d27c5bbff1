"""What a system was trained on: lists of query ids, and the test queries among them.

``training.csv`` holds what cannot be derived without the data set: for each model how many queries
it was trained on, their digest, and how many test queries of each group are among them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msshift_bench.checked import Checked, Count, Digest, Name, ShiftName
from msshift_bench.data import Dataset
from msshift_bench.errors import FindingLog, SubmissionError
from msshift_bench.evaluation import Scores
from msshift_bench.leaderboard.description import Description
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.plumbing import numbered_lines
from msshift_bench.shifts import Shift, get_shift

__all__ = [
    "ALL_GROUPS",
    "CLASSES",
    "LISTS",
    "NONE",
    "OWN_SPLIT",
    "TRAINING_NAME",
    "UNDECLARED",
    "WORDS",
    "TrainedOn",
    "count_training",
    "leaked_share",
    "list_path",
    "read_ids",
    "write_ids",
]

TRAINING_NAME = "training.csv"
"""The name of the file in an entry."""

CLASSES: Mapping[str, str] = {
    "held-out": "it declares its training queries, and none is a test query of the shift",
    "held-out-reported": "its paper states its training queries and holds each group out of them; "
    "there are no lists to check",
    "trained-on-test": "test queries of the shift are among its training queries",
    "undeclared": "it does not say which queries it was trained on",
    "none": "it was not trained",
}
"""The classes of training queries: class -> its meaning."""

OWN_SPLIT = "msshift"
"""Trained on the data set's own training split of each held-out group."""
NONE = "none"
"""Not trained."""
UNDECLARED = "undeclared"
"""Trained on queries that the author does not declare."""
LISTS = "train/{shift}/{held_out}.txt.gz"
"""Trained on the queries of the lists that an entry holds."""
WORDS = (OWN_SPLIT, NONE, UNDECLARED)
ALL_GROUPS = "all"
"""The model of a system that was not trained per group."""
_MOST_IDS = 5_000_000
"""The longest list: MS MARCO has a fifth as many queries."""


class TrainedOn(Checked):
    """A model's training queries, and the test queries of one group among them.

    Attributes:
        shift: the shift.
        model: the held-out group, or ``all`` for a system that was not trained per group.
        queries: the number of training queries.
        sha256: the digest of their ids, sorted, one per line.
        group: a group with test queries.
        test_queries: how many of these are among the training queries.
        leaked: if they are zero-shot to the model, how many have a near-duplicate among the
            training queries; `None` if they are not, or the texts are not known.
    """

    shift: ShiftName
    model: Name
    queries: Count
    sha256: Digest
    group: Name
    test_queries: Count
    leaked: Count | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Its shift, model and group."""
        return self.shift, self.model, self.group


def leaked_share(rows: Iterable[TrainedOn], scores: Scores) -> float | None:
    """Return the share of zero-shot test queries that leaked into training, over all models.

    Returns:
        A fraction; `None` if a model has no count.
    """
    zero_shot = [
        len(scores.groups[group])
        for model in scores.models
        for group in _unseen(get_shift(scores.shift_name), model)
    ]
    of_shift = [row.leaked for row in rows if row.shift == scores.shift_name]
    counts = [leaked for leaked in of_shift if leaked is not None]
    return sum(counts) / sum(zero_shot) if counts and len(counts) == len(zero_shot) else None


def count_training(
    description: Description, folder: Path, scores: Scores, dataset: Dataset | None
) -> Iterator[TrainedOn]:
    """Count test queries among the declared training queries of each model.

    Args:
        description: what the author declares.
        folder: the folder to which paths of lists are relative.
        scores: the system's scores on the shift.
        dataset: the data set that the runs answer. Without it the data set's own split cannot be
            counted, nor what leaked.

    Yields:
        A row per model and group; none if the author declares nothing, or it cannot be counted.

    Raises:
        NotFoundError: if a list is missing.
        SubmissionError: if a file is no list of query ids.
        UnknownNameError: if the data set's own split is declared, and it has none.
    """
    shift, declared = get_shift(scores.shift_name), description.training.queries[scores.shift_name]
    tests = {group: frozenset(scores.ids_of(group)) for group in scores.groups}
    for model in scores.models if declared != UNDECLARED else ():
        ids = _declared_ids(declared, folder, shift, model, dataset)
        leaked = _leaked(ids, {group: tests[group] for group in _unseen(shift, model)}, dataset)
        for group, queries in tests.items():
            yield TrainedOn(
                shift=shift.name,
                model=model,
                queries=len(ids),
                sha256=hashlib.sha256(_lines(ids)).hexdigest(),
                group=group,
                test_queries=len(queries.intersection(ids)),
                leaked=leaked.get(group),
            )


def _declared_ids(
    declared: str, folder: Path, shift: Shift, model: str, dataset: Dataset | None
) -> Sequence[str]:
    if declared == NONE:
        return ()
    if declared == OWN_SPLIT and dataset is not None:
        return [row.query_id for row in dataset.rows(f"{shift.name}-{model}", "train")]
    return read_ids(list_path(folder, declared, shift.name, model))


def list_path(folder: Path, pattern: str, shift: str, model: str) -> Path:
    """Return the path of a model's list of training queries."""
    return folder / pattern.replace("{shift}", shift).replace("{held_out}", model)


def _unseen(shift: Shift, model: str) -> list[str]:
    """Return the groups whose test queries are zero-shot to a model."""
    return [group for group in shift.tested if model in (ALL_GROUPS, shift.unseen_by(group))]


def _leaked(
    ids: Sequence[str], tests: Mapping[str, frozenset[str]], dataset: Dataset | None
) -> dict[str, int]:
    """Return group -> how many of its test queries leaked; nothing where texts are not known."""
    if not ids or not tests:
        return dict.fromkeys(tests, 0)
    parts = (
        []
        if dataset is None or not dataset.manifest.texts
        else [dataset.rows(shift, "queries") for shift in dataset.manifest.shifts]
    )
    texts = {row.query_id: row.text for part in parts for row in part}
    zero_shot = {query_id for queries in tests.values() for query_id in queries}
    if not texts.keys() >= zero_shot.union(ids):
        return {}
    pairs = find_leakage({i: texts[i] for i in ids}, {i: texts[i] for i in sorted(zero_shot)}).pairs
    # The last tier compares relevant passages, not texts.
    leaked = {pair.test_id for pair in pairs if pair.tier != TIERS[-1]}
    return {group: len(queries & leaked) for group, queries in tests.items()}


def read_ids(path: Path) -> tuple[str, ...]:
    """Read a list of query ids, one per line, plain or compressed.

    Returns:
        The ids, sorted.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is too long, damaged or no text, or if a line is blank, holds more
            than an id, or is there twice.
    """
    log, ids = FindingLog(), set()
    for number, query_id in numbered_lines(path, log, problem_of=_no_id):
        if query_id in ids:
            log.add("repeated-id", f"{query_id!r} is there twice", str(path), number)
        ids.add(query_id)
    log.stop_if_any(SubmissionError, f"{path} is no list of query ids:")
    return tuple(sorted(ids))


def _no_id(number: int, line: bytes) -> str:
    """Say why a line ends the reading of a list; "" if it does not."""
    if number > _MOST_IDS:
        return f"more than {_MOST_IDS:,} ids"
    is_id = len(line) <= 200 and len(line.split()) <= 1
    return "" if is_id else f"{line[:50]!r} is not one query id"


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Write ids, sorted, one per line, compressed; equal ids give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(_lines(ids), mtime=0))


def _lines(ids: Iterable[str]) -> bytes:
    return "".join(f"{query_id}\n" for query_id in sorted(ids)).encode()
