"""The official release's training queries, joined to MS MARCO by their text.

``TRAIN/queries_clustering.tsv`` holds 398,792 of MS MARCO's training queries with a header line,
the cluster of each in every shift, and whether it is trained on there; it has texts and no ids.
Source: the README of https://github.com/naver/ms-marco-shift, and the notebook beside it, which
shows the first and the last rows.
"""

from __future__ import annotations

from collections.abc import Collection as Sized
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from msshift_bench.data import Collection
from msshift_bench.dataset_builders.length import word_count
from msshift_bench.errors import CollectionError, DataError, FindingLog
from msshift_bench.plumbing import tsv_rows
from msshift_bench.records import OTHERS, Row

__all__ = [
    "LENGTH_CUT",
    "TRAINING_COLUMNS",
    "TRAINING_FILE",
    "JoinedQuery",
    "OfficialTraining",
    "TrainingRow",
    "read_training",
    "spellings",
    "training_rows",
]

TRAINING_FILE = "TRAIN/queries_clustering.tsv"
"""The training file's place in a checkout."""

TRAINING_COLUMNS = (
    "query",
    "topic_cluster",
    "topic_train",
    "whword_cluster",
    "whword_train",
    "length_cluster",
    "length_train",
)
"""The header line, and the columns of every line after it."""

LENGTH_CUT = 6
"""The median number of words on MS MARCO; a query with as many or more is long."""

_CLUSTERS = {
    "topics": {"0": "C0", "1": "C1", "2": "C2", "3": "C3", "4": "C4", "5": OTHERS},
    "wh-words": {"0": "wha", "1": "how", "2": "who", "3": OTHERS},
    "length": {"0": "short", "1": "long"},
}
_FLAGS = {"0": False, "1": True, "False": False, "True": True}

_ODD = (
    "unknown_text",
    "without_relevant_passage",
    "several_query_ids",
    "repeated",
    "contradictory",
    "other_length",
    "trained_on_others",
)
"""Oddities of rows, for the report: no query has the text; only queries without relevant passages
have it; several have it; an earlier row has it with other labels; the stated length breaks the
rule; the row is marked for training in a shift where it is in no group."""

_LISTED = 20
"""How many line numbers a report lists; all are counted."""


class TrainingRow(NamedTuple):
    """One line of the training file.

    Attributes:
        text: the query's text, as it stands in the line.
        groups: shift -> group, or `OTHERS`.
        trained: the shifts in which the query is trained on.
    """

    text: str
    groups: Mapping[str, str]
    trained: frozenset[str]


class JoinedQuery(NamedTuple):
    """A query of the collection that a row joined, trained on or not.

    Attributes:
        text: the query's text.
        groups: shift -> group, or `OTHERS`.
        relevant: doc_id -> relevance of the passages judged relevant to it.
    """

    text: str
    groups: Mapping[str, str]
    relevant: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OfficialTraining:
    """The training queries, with the ids and the relevant passages of a collection.

    Attributes:
        rows: shift -> training rows, sorted by query_id.
        joined: query_id -> every query that a row joined.
        report: how many rows joined, and which did not; JSON values only.
    """

    rows: Mapping[str, tuple[Row, ...]]
    joined: Mapping[str, JoinedQuery]
    report: Mapping[str, object]


def training_rows(path: Path, findings: FindingLog) -> Iterator[tuple[int, TrainingRow]]:
    """Stream ``(line number, row)`` of the training file; malformed lines become findings."""
    rows = tsv_rows(path, TRAINING_COLUMNS, findings)
    first = next(rows, None)
    if first is None or first[1] != list(TRAINING_COLUMNS):
        fix = f"the first line names the columns: {', '.join(TRAINING_COLUMNS)}"
        findings.add("header", "this is not the header line", str(path), 1, fix)
        return
    for line, (text, *values) in rows:
        groups: dict[str, str] = {}
        trained = []
        # Two columns per shift: its cluster, and whether the query is trained on.
        for number, (shift, clusters) in enumerate(_CLUSTERS.items()):
            cluster, flag = values[2 * number : 2 * number + 2]
            column = TRAINING_COLUMNS[2 * number + 1]
            if cluster not in clusters:
                message = f"{column} is {cluster!r}, which is none of {', '.join(clusters)}"
                findings.add("unknown-cluster", message, str(path), line)
            elif flag not in _FLAGS:
                column = TRAINING_COLUMNS[2 * number + 2]
                message = f"{column} is {flag!r}, which is none of {', '.join(_FLAGS)}"
                findings.add("unknown-flag", message, str(path), line)
            else:
                groups[shift] = clusters[cluster]
                if _FLAGS[flag]:
                    trained.append(shift)
        if len(groups) == len(_CLUSTERS):
            yield line, TrainingRow(text, groups, frozenset(trained))


def spellings(text: str) -> tuple[str, ...]:
    """Return the possible readings of a text in the file: itself, and, if quoted, its inside.

    Programs that write CSV put a text that holds a quotation mark into quotation marks, and double
    those within. A user may also have typed the query that way, so both are tried.
    """
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text, text[1:-1].replace('""', '"')
    return (text,)


def read_training(
    path: Path, collection: Collection, tested: Mapping[str, Sized[str]]
) -> OfficialTraining:
    """Read the training file and give its queries ids and relevant passages.

    A row joins every query of the collection that has exactly its text and a relevant passage; if
    there are several, each takes part with its own qrels. If rows repeat a text, the first counts.
    A shift does not train on its own test queries.

    Args:
        path: the file.
        collection: MS MARCO's training queries and qrels, in the raw text variant: ir_datasets
            repairs double-encoded characters, and rows that hold some do not join repaired texts.
        tested: shift -> the ids of its test queries.

    Raises:
        CollectionError: if the file, the queries or the qrels are malformed.
        DataError: if no row joins.
    """
    join = _Join(collection, tested)
    findings = FindingLog()
    for line, row in training_rows(path, findings):
        join.take(line, row)
    findings.stop_if_any(CollectionError, f"{path} is malformed:")
    if not join.queries:
        raise DataError(
            f"none of the {join.read} queries of {path} is a query of {collection.name} with a "
            "relevant passage; give the collection that holds MS MARCO's training queries"
        )
    return OfficialTraining(
        rows={shift: tuple(sorted(members)) for shift, members in join.rows.items()},
        joined=join.queries,
        report={
            "rows": join.read,
            "joined": join.joined,
            "collection": collection.name,
            "text": collection.text_variant,
            **{
                what: {"rows": len(lines), "first_lines": lines[:_LISTED]}
                for what, lines in join.odd.items()
            },
            "test_queries": {shift: sorted(ids) for shift, ids in join.test_queries.items()},
        },
    )


class _Join:
    """Joins rows of the training file one by one.

    Attributes:
        read: the rows taken.
        joined: the rows that found a query.
        queries: query_id -> the query that rows joined.
        rows: shift -> training rows.
        test_queries: shift -> ids of test queries that the file would train on.
        odd: oddity -> the lines that have it.
    """

    def __init__(self, collection: Collection, tested: Mapping[str, Sized[str]]) -> None:
        self.read = self.joined = 0
        self.queries: dict[str, JoinedQuery] = {}
        self.rows: dict[str, list[Row]] = {shift: [] for shift in _CLUSTERS}
        self.test_queries: dict[str, list[str]] = {shift: [] for shift in _CLUSTERS}
        self.odd: dict[str, list[int]] = {what: [] for what in _ODD}
        self._tested = tested
        self._relevant = collection.qrels.graded()
        self._ids: dict[str, list[str]] = {}
        for query_id, text in collection.queries:
            ids = self._ids.setdefault(text, [])
            if query_id in self._relevant:
                ids.append(query_id)
        self._seen: dict[str, TrainingRow] = {}

    def take(self, line: int, row: TrainingRow) -> None:
        self.read += 1
        text = next((s for s in spellings(row.text) if s in self._ids), row.text)
        earlier = self._seen.setdefault(text, row)
        if earlier is not row:
            self.odd["repeated"].append(line)
            if earlier[1:] != row[1:]:
                self.odd["contradictory"].append(line)
            return
        if (word_count(text) < LENGTH_CUT) != (row.groups["length"] == "short"):
            self.odd["other_length"].append(line)
        if any(row.groups[shift] == OTHERS for shift in row.trained):
            self.odd["trained_on_others"].append(line)
        query_ids = self._ids.get(text)
        if not query_ids:
            what = "unknown_text" if query_ids is None else "without_relevant_passage"
            self.odd[what].append(line)
            return
        self.joined += 1
        if len(query_ids) > 1:
            self.odd["several_query_ids"].append(line)
        for query_id in query_ids:
            self.queries[query_id] = JoinedQuery(text, row.groups, self._relevant[query_id])
        for shift in row.trained:
            group = row.groups[shift]
            if group != OTHERS:
                self._train(shift, group, text, query_ids)

    def _train(self, shift: str, group: str, text: str, query_ids: Sequence[str]) -> None:
        for query_id in query_ids:
            if query_id in self._tested[shift]:
                self.test_queries[shift].append(query_id)
            else:
                row = Row.judged(query_id, text, group, self._relevant[query_id])
                self.rows[shift].append(row)
