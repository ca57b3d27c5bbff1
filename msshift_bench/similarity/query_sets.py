"""The sets of queries that are compared: the groups of a data set, files, and values in memory."""

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
"""Which queries of a group: its test queries, those that others train on, or all that it has."""

_WANTED = {"test": "test queries", "train": "training queries", "all": "queries"}
_WITHOUT_TRAINING = (
    "; compare with the others' test queries (--split test:test; in Python, against), or take a "
    "data set that was made with training queries"
)

QuerySource: TypeAlias = str | Path | Mapping[str, str] | Iterable[Query]
"""Queries: a file of two tab-separated columns (query_id, text), query_id -> text, or what has a
``query_id`` and a ``text`` each, such as the rows of a split."""


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """Queries as two columns of equal length, in the order of their source; ids may repeat.

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
    """What an indicator that is defined per query says of test queries.

    Attributes:
        values: one per test query, shape (test queries,).
        nearest: for each test query the place of its nearest training query, shape (test queries,);
            `None` of indicators that do not look for one.
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
        group -> its queries, in the shift's order. A query of two groups, as a few of the official
        release are, is in both.

    Raises:
        UnknownNameError: if there is no such split, or the data set does not hold the shift.
        DataError: if a group has no such queries.
        UsageError: if the groups of the shift are training sets.
        MissingError: if the data set holds ids only.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    check_name("split of groups", split, GROUP_SPLITS)
    check_name(f"shift in {dataset.folder}", shift.name, dataset.manifest.shifts)
    if shift.by_size:
        raise UsageError(
            f"the groups of {shift.name} are training sets, which have one test set; compare files "
            "of queries with --train and --test"
        )
    if not dataset.manifest.texts:
        raise MissingError(
            f"{dataset.folder} holds ids only, no texts of queries; "
            f"'msshift import {dataset.folder}' puts them back"
        )
    table = dataset.table(shift.name, "queries")
    if split != "all":
        table = table.filter(pc.field("split") == split)
    queries_of = {}
    for group in shift.groups:
        rows = table.filter(pc.field("group") == group)
        if not rows.num_rows:
            raise DataError(
                f"{dataset.folder} holds no {_WANTED[split]} of {shift.name}-{group}"
                + (_WITHOUT_TRAINING if split == "train" else "")
            )
        queries_of[group] = QueryColumns(
            tuple(rows["query_id"].to_pylist()), tuple(rows["text"].to_pylist())
        )
    return queries_of


def read_query_set(source: QuerySource) -> QueryColumns:
    """Read a set of queries.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if the file is malformed, or repeats an id; or if a query has no text, as
            the rows of a data set of ids only, an id that is no string, or two texts.
        DataError: if there is no query.
        UsageError: if it is nothing of that.
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
                    "queries are a file, a mapping query_id -> text, or what has a query_id and a "
                    f"text each: {error}; of a data frame pass dict(zip(frame.qid, frame['query']))"
                ) from error
        _check_values(rows)
        queries = QueryColumns(tuple(row[0] for row in rows), tuple(row[1] for row in rows))
    if not len(queries):
        raise DataError("there is no query to compare")
    return queries


def _check_values(rows: Iterable[tuple[object, object]]) -> None:
    """Check queries in memory; one that is there twice counts twice."""
    findings = FindingLog()
    texts: dict[object, str] = {}
    for query_id, text in rows:
        if not (isinstance(query_id, str) and query_id):
            message = f"query {query_id!r}: ids must be strings"
            findings.add("id-invalid", message, "queries", 0, "make ids strings, as with str()")
        elif problem := problem_of_id("query_id", query_id):
            code, message, fix = problem
            findings.add(code, message, "queries", fix=fix)
        elif not (isinstance(text, str) and text.strip()):
            fix = "give it a text; 'msshift import' puts those of a data set of ids only back"
            findings.add("empty-text", f"query {query_id!r} has no text", "queries", fix=fix)
        elif texts.setdefault(query_id, text) != text:
            message = f"query {query_id!r} has another text, {texts[query_id]!r}, already"
            findings.add("repeated-id", message, "queries")
    findings.stop_if_any(CollectionError, "these queries cannot be used:")


def check_same_texts(
    train: QueryColumns,
    texts_of: Mapping[str, Collection[str]],
    fix: str = "compare queries of one collection, or give those of the other ids of their own",
) -> None:
    """Check that a query that is in both sets has one of its texts in the other.

    Args:
        train: the training queries.
        texts_of: test query -> its texts.
        fix: what to do else.

    Raises:
        DataError: if one has another; the sets then come from different collections.
    """
    differing = [
        query for query in train if query.text not in texts_of.get(query.query_id, (query.text,))
    ]
    if differing:
        query_id, text = differing[0]
        raise DataError(
            f"{len(differing)} query ids have another text among the training queries than among "
            f"the test queries: {query_id!r} is {text!r} and {min(texts_of[query_id])!r}; {fix}"
        )
