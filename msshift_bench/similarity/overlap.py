"""Which test queries share a relevant passage with a training query, and how many passages.

Two queries with a relevant passage in common are likely to be alike, and a model can remember the
passage.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 3.2 and Table 3. The paper counts a test query from one shared passage
on; the script that made its table counted from two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from msshift_bench.errors import DataError
from msshift_bench.output import Table, plain, report_head
from msshift_bench.records import Qrel
from msshift_bench.similarity.query_sets import QueryColumns, QueryValues

__all__ = ["LabelOverlap", "count_overlap", "shares_passages"]

_FEWEST_SHARED = (1, 2)
"""Shared passages from which a test query counts: the paper's text, and the paper's script."""


@dataclass(frozen=True, slots=True)
class OverlapCount:
    """How many test queries share relevant passages with a training set.

    Attributes:
        train: the training set's name.
        test_set: the test set's name.
        relevance: passages count as relevant to a test query from this relevance on.
        shared: a test query counts from this many shared passages on.
        overlapping: how many test queries count.
        queries: all judged test queries, the denominator.
    """

    train: str
    test_set: str
    relevance: int
    shared: int
    overlapping: int
    queries: int


@dataclass(frozen=True, slots=True)
class LabelOverlap:
    """The overlap of test sets with training sets, and of the training sets with each other.

    Attributes:
        training: training set -> its ``queries`` with a relevant passage, the ``pairs`` of both,
            and the ``passages`` that are relevant to any of them.
        common: two of their names -> the queries and the relevant passages that both have.
        counts: by training set, test set, relevance and number of shared passages.
    """

    training: Mapping[str, Mapping[str, int]]
    common: Mapping[tuple[str, str], tuple[int, int]]
    counts: tuple[OverlapCount, ...]

    def tables(self) -> list[Table]:
        """Return the tables: a row per training set, test set and relevance, and the sizes."""
        rows: dict[tuple[str, str, str], list[str]] = {}
        for count in self.counts:
            cells = rows.setdefault((count.train, count.test_set, f">= {count.relevance}"), [])
            share = 100 * count.overlapping / count.queries
            cells.append(f"{count.overlapping} of {count.queries} ({share:.0f}%)")
        tables = [
            Table.plain(
                "Test queries that share relevant passages with a training query",
                ("training", "test", "relevance", "1 or more shared", "2 or more shared"),
                [(*names, *cells) for names, cells in rows.items()],
                names=2,
            ),
            Table.plain(
                "Training sets",
                ("training", "queries", "pairs", "passages"),
                [(name, *sizes.values()) for name, sizes in self.training.items()],
            ),
        ]
        if self.common:
            title, header = "What two training sets have in common", ("queries", "passages")
            common = [(*names, *counts) for names, counts in self.common.items()]
            tables.append(Table.plain(title, ("training", "training", *header), common, names=2))
        return tables

    def notes(self) -> list[str]:
        """Return the line below the tables."""
        return [
            "a test query of 1 or more shared passages counts in the text of Zhan et al. (CIKM "
            "2022); the script that made their Table 3 counts from 2 on"
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {
            **report_head(),
            "training": [{"name": name, **sizes} for name, sizes in self.training.items()],
            "common": [
                {"training": list(names), "queries": queries, "passages": passages}
                for names, (queries, passages) in self.common.items()
            ],
            "counts": plain(self.counts),
        }


def count_overlap(
    train: Mapping[str, Iterable[Qrel]], tests: Mapping[str, Iterable[Qrel]]
) -> LabelOverlap:
    """Count the test queries that share relevant passages with other, training, queries.

    Args:
        train: name -> judgements of a training set, relevant from 1 on.
        tests: name -> judgements of a test set, which may be graded. Every query in them counts in
            the denominator. Each grade from 1 on that occurs is a threshold.

    Returns:
        The counts, from one and from two shared passages on.

    Raises:
        DataError: if a training set or a test set has no relevant passage.
    """
    judged = {name: list(qrels) for name, qrels in tests.items()}
    relevant = {name: _relevant(qrels, 1) for name, qrels in train.items()}
    trained = {name: _by_passage(passages) for name, passages in relevant.items()}
    counts: list[OverlapCount] = []
    for name, trained_by in trained.items():
        if not trained_by:
            raise DataError(f"the training set {name} has no relevant passage")
        for test_set, test_qrels in judged.items():
            counts += _count_in(name, test_set, test_qrels, trained_by)
    training = {
        name: {
            "queries": len(passages),
            "pairs": sum(map(len, passages.values())),
            "passages": len(trained[name]),
        }
        for name, passages in relevant.items()
    }
    common = {
        (a, b): (
            len(relevant[a].keys() & relevant[b].keys()),
            len(trained[a].keys() & trained[b].keys()),
        )
        for a, b in combinations(training, 2)
    }
    return LabelOverlap(training, common, tuple(counts))


def _relevant(qrels: Iterable[Qrel], least: int) -> dict[str, set[str]]:
    """Return query_id -> its passages of a relevance of at least `least`."""
    passages: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance >= least:
            passages.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    return passages


def _by_passage(relevant: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return passage -> the queries that it is relevant to."""
    queries: dict[str, set[str]] = {}
    for query_id, passages in relevant.items():
        for doc_id in passages:
            queries.setdefault(doc_id, set()).add(query_id)
    return queries


def _shared(
    query_id: str, passages: Collection[str], trained_by: Mapping[str, Collection[str]]
) -> int:
    """Return how many passages are relevant to a training query of another id."""
    return sum(
        any(trained != query_id for trained in trained_by.get(doc_id, ())) for doc_id in passages
    )


def _count_in(
    train: str, test_set: str, qrels: list[Qrel], trained_by: Mapping[str, Collection[str]]
) -> Iterable[OverlapCount]:
    grades = sorted({qrel.relevance for qrel in qrels if qrel.relevance >= 1})
    if not grades:
        raise DataError(f"the test set {test_set} has no relevant passage")
    queries = len({qrel.query_id for qrel in qrels})
    for least in grades:
        shared = [_shared(*judged, trained_by) for judged in _relevant(qrels, least).items()]
        for fewest in _FEWEST_SHARED:
            overlapping = sum(count >= fewest for count in shared)
            yield OverlapCount(train, test_set, least, fewest, overlapping, queries)


def shares_passages(
    train: QueryColumns, test: QueryColumns, labels: Mapping[str, Collection[str]]
) -> QueryValues:
    """Return 1 for each test query that shares a relevant passage with a training query, else 0.

    Args:
        train: the training queries; one of the same id as a test query is that query.
        test: the test queries.
        labels: query_id -> its relevant passages, for the queries of both.
    """
    trained_by = _by_passage({query_id: labels[query_id] for query_id in train.ids})
    shared = [_shared(query_id, labels[query_id], trained_by) for query_id in test.ids]
    return QueryValues(np.array(shared, dtype=np.float64).clip(0, 1))
