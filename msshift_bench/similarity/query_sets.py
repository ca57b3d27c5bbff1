"""Sets of queries for comparison: groups of a data set, files, and Python objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow.compute as pc

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Dataset, problem_of_id, read_queries
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    MissingError,
    UsageError,
    check_name,
)
from msshift_bench.records import Query
from msshift_bench.shifts import Shift

GROUP_SPLITS = ("test", "train", "all")
"""The queries of a group: its test queries, its training queries, or all its queries."""

_KINDS = {"test": "test queries", "train": "training queries", "all": "queries"}
_WITHOUT_TRAINING = (
    "; compare with the others' test queries (--split test:test; in Python, against='test'), or "
    "use a data set with training queries"
)

QuerySource: TypeAlias = str | Path | Mapping[str, str] | Iterable[Query]
"""Queries: a file of two tab-separated columns (query_id, text), a mapping query_id -> text, or
objects with ``query_id`` and ``text``, such as the rows of a split."""


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """Queries as two columns of equal length, in the order of their source.

    Ids can repeat.

    Examples:
        >>> queries = QueryColumns(("q1", "q2"), ("cheap flights", "who is it"))
        >>> dict(queries)["q2"]
        'who is it'
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.ids, self.texts)


class QueryValues(NamedTuple):
    """Values of an indicator per test query.

    Attributes:
        values: the value of each test query, shape (test queries,).
        nearest: the index, among the training queries, of each test query's nearest one, shape
            (test queries,); `None` if the indicator does not search for it.
    """

    values: Floats
    nearest: Ints | None = None


def group_queries(dataset: Dataset, shift: Shift, split: str) -> dict[str, QueryColumns]:
    """Read the queries of every group of a shift.

    Args:
        dataset: the data set.
        shift: the shift.
        split: one of `GROUP_SPLITS`.

    Returns:
        group -> its queries, in the shift's order. A query of two groups (the official release has
        a few) is in both.

    Raises:
        UnknownNameError: for an unknown split, or if the data set lacks the shift.
        DataError: if a group has no queries in the split.
        UsageError: if the groups of the shift are training sets.
        MissingError: if the data set contains only ids, no texts.
        IntegrityError: if a file is missing or was changed after the build.
    """
    check_name("split of groups", split, GROUP_SPLITS)
    check_name(f"shift in {dataset.folder}", shift.name, dataset.manifest.shifts)
    if shift.by_size:
        raise UsageError(
            f"the groups of {shift.name} are training sets for one test set, so they cannot be "
            "compared; compare files of queries with --train and --test"
        )
    if not dataset.manifest.texts:
        raise MissingError(
            f"{dataset.folder} contains ids but no texts of queries; restore the texts with "
            f"'msshift import {dataset.folder}'"
        )
    table = dataset.table(shift.name, "queries")
    if split != "all":
        table = table.filter(pc.field("split") == split)
    queries_of = {}
    for group in shift.groups:
        rows = table.filter(pc.field("group") == group)
        if not rows.num_rows:
            raise DataError(
                f"{dataset.folder} has no {_KINDS[split]} of {shift.name}-{group}"
                + (_WITHOUT_TRAINING if split == "train" else "")
            )
        queries_of[group] = QueryColumns(
            tuple(rows["query_id"].to_pylist()), tuple(rows["text"].to_pylist())
        )
    return queries_of


def read_query_set(source: QuerySource) -> QueryColumns:
    """Return the queries of a source, in its order; `QueryColumns` are returned unchanged.

    In memory, a query may be repeated with the same text.

    Raises:
        NotFoundError: if the file does not exist.
        CollectionError: if the file is malformed or repeats an id; or if a query has no text, two
            texts, or an id that is not a string.
        DataError: if the set is empty.
        UsageError: if the source has another type.
    """
    if isinstance(source, str | Path):
        source = read_queries(Path(source))
        return QueryColumns(tuple(source), tuple(source.values()))
    if isinstance(source, QueryColumns):
        queries = source
    else:
        if isinstance(source, Mapping):
            rows = list(source.items())
        else:
            try:
                rows = [(query.query_id, query.text) for query in source]
            except (AttributeError, TypeError) as error:
                raise UsageError(
                    "queries must be a file, a mapping query_id -> text, or objects with query_id "
                    f"and text, but {error}; for a data frame, pass "
                    "dict(zip(frame.qid, frame['query']))"
                ) from error
        _check_values(rows)
        queries = QueryColumns(tuple(row[0] for row in rows), tuple(row[1] for row in rows))
    if not len(queries):
        raise DataError("the set of queries is empty; add at least one query")
    return queries


def _check_values(rows: Iterable[tuple[object, object]]) -> None:
    """Check (query_id, text) pairs; equal pairs may repeat.

    Raises:
        CollectionError: if a pair is not valid, or an id has two texts.
    """
    findings = FindingLog()
    texts: dict[object, str] = {}
    for query_id, text in rows:
        if not (isinstance(query_id, str) and query_id):
            message = f"the query id must be a non-empty string, got {query_id!r}"
            findings.add("id-invalid", message, "queries", 0, "convert ids to strings with str()")
        elif problem := problem_of_id("query_id", query_id):
            code, message, fix = problem
            findings.add(code, message, "queries", fix=fix)
        elif not (isinstance(text, str) and text.strip()):
            fix = "add a text; 'msshift import' restores the texts of a data set with ids only"
            findings.add("empty-text", f"query {query_id!r} has no text", "queries", fix=fix)
        elif texts.setdefault(query_id, text) != text:
            message = f"query {query_id!r} has two texts, {texts[query_id]!r} and {text!r}"
            findings.add("repeated-id", message, "queries")
    findings.stop_if_any(CollectionError, "these queries cannot be used:")


def check_same_texts(
    train: QueryColumns,
    texts_of: Mapping[str, Collection[str]],
    fix: str = "compare queries of one collection, or rename the ids of one set",
) -> None:
    """Check that queries in both sets have the same text in both.

    Different texts mean that the sets come from different collections.

    Args:
        train: the training queries.
        texts_of: test query_id -> the test query's texts.
        fix: the last part of the message.

    Raises:
        DataError: if the text of a training query is not among the test query's texts.
    """
    differing = [
        query for query in train if query.text not in texts_of.get(query.query_id, (query.text,))
    ]
    if differing:
        query_id, text = differing[0]
        raise DataError(
            f"{len(differing)} query ids have different texts in the training and test queries, "
            f"e.g. {query_id!r}: {text!r} and {min(texts_of[query_id])!r}; {fix}"
        )
