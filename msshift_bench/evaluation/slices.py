"""Breaking results down by labels of the queries, after scoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import CollectionError, DataError, FindingLog, UnknownNameError
from msshift_bench.evaluation.query_names import first_ids
from msshift_bench.evaluation.scores import Scores
from msshift_bench.plumbing import tsv_rows
from msshift_bench.records import OTHERS

__all__ = ["check_labels", "read_labels", "slice_scores"]


def read_labels(by: str, data: Dataset | str | Path) -> dict[str, str]:
    """Return query_id -> label.

    Args:
        by: a file of two tab-separated columns, query_id and label; or the name of a shift of
            the data set, or the beginning of one alone; the shift's groups are then the labels. A
            query in two groups, as a few of the official release are, has the first as its label.
        data: the built data set.

    Raises:
        UnknownNameError: if it is neither.
        CollectionError: if the file is malformed, or labels a query twice.
    """
    path = Path(by)
    if path.is_file():
        return _read_file(path)
    dataset = open_dataset(data)
    shifts = dataset.manifest.shifts
    meant = [by] if by in shifts else [one for one in shifts if by and one.startswith(by)]
    if len(meant) != 1:
        raise UnknownNameError("file or shift to break results down by", by, shifts)
    labels: dict[str, str] = {}
    for row in dataset.rows(meant[0], "queries"):
        labels.setdefault(row.query_id, row.group)
    return labels


def _read_file(path: Path) -> dict[str, str]:
    findings = FindingLog()
    labels: dict[str, str] = {}
    for line, (query_id, label) in tsv_rows(path, ("query_id", "label"), findings):
        if query_id in labels:
            findings.add("repeated-id", f"query_id {query_id!r} again", str(path), line)
        labels[query_id] = label
    findings.stop_if_any(CollectionError, f"the labels in {path} are malformed:")
    return labels


def check_labels(labels: Mapping[str, str], query_ids: Iterable[str]) -> None:
    """Check that labels and test queries belong together.

    Args:
        labels: query_id -> label.
        query_ids: the test queries of all shifts.

    Raises:
        DataError: if no test query has a label.
    """
    tested = set(query_ids)
    if tested.isdisjoint(labels):
        others = first_ids([str(query_id) for query_id in labels]) or "no query"
        raise DataError(
            f"none of the {len(tested):,} test queries has a label ({first_ids(tested)}); the "
            f"labels are those of {others}"
        )


def slice_scores(
    scores: Scores, labels: Mapping[str, str], missing: str = "zero"
) -> dict[str, Scores]:
    """Return label -> the scores of the test queries with that label, labels sorted.

    Queries without a label have the label `OTHERS`. Groups without a query that counts are dropped,
    and so are labels without one.

    Args:
        scores: the system's per-query scores.
        labels: query_id -> label.
        missing: the policy for missing queries; with ``skip``, queries that a run lacks do not
            count.
    """
    members: dict[str, list[str]] = {}
    for query_id in scores.query_ids:
        members.setdefault(labels.get(query_id, OTHERS), []).append(query_id)
    slices = {}
    for label in sorted(members):
        part = scores.restricted_to(members[label])
        groups = {g: part.groups[g] for g, counted in part.counted(missing).items() if counted.size}
        if groups:
            slices[label] = replace(part, groups=groups)
    return slices
