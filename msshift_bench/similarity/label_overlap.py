"""Which test queries share a relevant passage with a training query, and how many.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 3.2 and Table 3. The paper counts a test query from one shared passage
on; the script that made its table counted from two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from msshift_bench.errors import DataError
from msshift_bench.output import Table, plain, report_head
from msshift_bench.records import Qrel

__all__ = ["LabelOverlap", "OverlapCount", "TrainingLabels", "count_overlap"]

_FEWEST_SHARED = (1, 2)
"""Shared passages from which a test query counts: the paper's text, and the paper's script."""


@dataclass(frozen=True, slots=True)
class TrainingLabels:
    """One set of training queries with their relevant passages.

    Attributes:
        name: its name.
        queries: how many queries have a relevant passage.
        pairs: how many pairs of a query and a relevant passage there are.
        passages: how many passages are relevant to any of them.
    """

    name: str
    queries: int
    pairs: int
    passages: int


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


@dataclass(frozen=True, slots=True, repr=False)
class LabelOverlap:
    """The overlap of test sets with training sets, and of the training sets with each other.

    Attributes:
        training: the training sets.
        common: two of their names -> the queries and the relevant passages that both have.
        counts: by training set, test set, relevance and number of shared passages.
    """

    training: tuple[TrainingLabels, ...]
    common: Mapping[tuple[str, str], tuple[int, int]]
    counts: tuple[OverlapCount, ...]

    def __repr__(self) -> str:
        trains, tests = (
            {getattr(one, name) for one in self.counts} for name in ("train", "test_set")
        )
        return f"<LabelOverlap: {len(tests)} test sets, {len(trains)} training sets>"

    def tables(self) -> list[Table]:
        """Return the tables: a row per training set, test set and relevance, and the sizes."""
        rows: dict[tuple[str, str, int], list[str]] = {}
        for one in self.counts:
            cells = rows.setdefault((one.train, one.test_set, one.relevance), [])
            share = 100 * one.overlapping / one.queries
            cells.append(f"{one.overlapping} of {one.queries} ({share:.0f}%)")
        tables = [
            Table.plain(
                "Test queries that share relevant passages with a training query",
                ("training", "test", "relevance", "1 or more shared", "2 or more shared"),
                [
                    (train, test, f">= {least}", *cells)
                    for (train, test, least), cells in rows.items()
                ],
                names=2,
            ),
            Table.plain(
                "Training sets",
                ("training", "queries", "pairs", "passages"),
                [(one.name, one.queries, one.pairs, one.passages) for one in self.training],
            ),
        ]
        if self.common:
            tables.append(
                Table.plain(
                    "What two training sets have in common",
                    ("training", "training", "queries", "passages"),
                    [(*names, *counts) for names, counts in self.common.items()],
                    names=2,
                )
            )
        return tables

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {
            **report_head(),
            "training": [plain(one) for one in self.training],
            "common": [
                {"training": list(names), "queries": queries, "passages": passages}
                for names, (queries, passages) in self.common.items()
            ],
            "counts": [plain(one) for one in self.counts],
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
    pairs = {
        name: {(one.query_id, one.doc_id) for one in qrels if one.relevance >= 1}
        for name, qrels in train.items()
    }
    judged = {name: list(qrels) for name, qrels in tests.items()}
    for name, found in pairs.items():
        if not found:
            raise DataError(f"the training set {name} has no relevant passage")
    queries = {name: {query for query, _ in found} for name, found in pairs.items()}
    passages = {name: {doc_id for _, doc_id in found} for name, found in pairs.items()}
    counts: list[OverlapCount] = []
    for name, found in pairs.items():
        trained_by: dict[str, set[str]] = {}
        for query_id, doc_id in found:
            trained_by.setdefault(doc_id, set()).add(query_id)
        for test_set, qrels in judged.items():
            counts += _count_in(name, test_set, qrels, trained_by)
    return LabelOverlap(
        tuple(
            TrainingLabels(name, len(queries[name]), len(found), len(passages[name]))
            for name, found in pairs.items()
        ),
        {
            (a, b): (len(queries[a] & queries[b]), len(passages[a] & passages[b]))
            for a, b in combinations(pairs, 2)
        },
        tuple(counts),
    )


def _count_in(
    train: str, test_set: str, qrels: list[Qrel], trained_by: Mapping[str, set[str]]
) -> Iterable[OverlapCount]:
    everything = {one.query_id for one in qrels}
    grades = sorted({one.relevance for one in qrels if one.relevance >= 1})
    if not grades:
        raise DataError(f"the test set {test_set} has no relevant passage")
    for least in grades:
        shared: dict[str, set[str]] = {}
        for one in qrels:
            # A training query of the same id is the test query itself.
            others = trained_by.get(one.doc_id, set()) - {one.query_id}
            if one.relevance >= least and others:
                shared.setdefault(one.query_id, set()).add(one.doc_id)
        for fewest in _FEWEST_SHARED:
            overlapping = sum(len(docs) >= fewest for docs in shared.values())
            yield OverlapCount(train, test_set, least, fewest, overlapping, len(everything))
