"""Overlap: the relevant passages that test queries share with training queries.

Two queries with a common relevant passage are probably similar, and a model can memorise the
passage.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 3.2 and Table 3. The paper's text counts a test query with at least one
shared passage; the script of its table requires two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from msshift_bench.data import DataInfo
from msshift_bench.errors import DataError
from msshift_bench.evaluation import Note, Result, TableSpec, tabulated
from msshift_bench.output import COUNT, Format
from msshift_bench.plumbing import values_by_key
from msshift_bench.records import Qrel
from msshift_bench.similarity.query_sets import QueryColumns, QueryValues
from msshift_bench.stats import Figure, Figures

_FEWEST_SHARED = {"sharing_1_or_more": 1, "sharing_2_or_more": 2}
"""Figure -> minimum of shared passages for a test query to count: the paper's text, its script."""


def count_overlap(
    train: Mapping[str, Iterable[Qrel]], tests: Mapping[str, Iterable[Qrel]]
) -> Result:
    """Count the test queries that share relevant passages with training queries.

    A training query with the same id as the test query does not count.

    Args:
        train: name -> judgements of a training set; passages are relevant from grade 1 on.
        tests: name -> judgements of a test set, which may be graded. The denominator is the number
            of queries with a judgement. Each grade from 1 on is a threshold of relevance.

    Returns:
        For each test set (`test`), training set (`system`) and threshold (`slice`), the number of
        test queries ``sharing_1_or_more`` and ``sharing_2_or_more`` relevant passages. Also the
        sizes of the training sets (``queries``, ``pairs``, ``passages``), and ``common_queries``
        and ``common_passages`` of each two training sets (`system` and `against`).

    Raises:
        DataError: if a training set or a test set has no relevant passage.
    """
    judged = {name: list(qrels) for name, qrels in tests.items()}
    relevant = {name: relevant_passages(qrels, 1) for name, qrels in train.items()}
    trained = {name: queries_by_passage(passages) for name, passages in relevant.items()}
    rows: list[Figure] = []
    for name, trained_by in trained.items():
        if not trained_by:
            raise DataError(
                f"the training set {name} has no relevant passage; add judgements of grade 1 or "
                "more, or leave it out"
            )
        for test_set, test_qrels in judged.items():
            rows += _count_in(test_set, name, test_qrels, trained_by)
    for name, passages in relevant.items():
        pairs = sum(map(len, passages.values()))
        sizes = {"queries": len(passages), "pairs": pairs, "passages": len(trained[name])}
        rows += [Figure(size, system=name, value=count) for size, count in sizes.items()]
    for first, second in combinations(train, 2):
        for name, of_sets in (("common_queries", relevant), ("common_passages", trained)):
            count = len(of_sets[first].keys() & of_sets[second].keys())
            rows.append(Figure(name, system=first, against=second, value=count))
    note = (
        "1 or more shared: as in the text of Zhan et al. (CIKM 2022); 2 or more shared: as in the "
        "script of their Table 3"
    )
    settings = {"train": list(train), "test": list(tests)}
    layout = partial(tabulated, _TABLES)
    return Result("overlap", Figures(rows), settings, DataInfo(), [Note(note)], layout)


def _of_queries(figure: Figure) -> str:
    share = 100 * figure.number / (figure.queries or 1)
    return f"{figure.number:.0f} of {figure.queries} ({share:.0f}%)"


_OF_QUERIES = Format(_of_queries)


_TABLES: Sequence[TableSpec] = (
    (
        "Test queries that share relevant passages with a training query",
        {"system": "training", "test": "test", "slice": "relevance"},
        {name: (f"{n} or more shared", _OF_QUERIES) for name, n in _FEWEST_SHARED.items()},
    ),
    (
        "Training sets",
        {"system": "training"},
        {name: (name, COUNT) for name in ("queries", "pairs", "passages")},
    ),
    (
        "Queries and passages that two training sets share",
        {"system": "training", "against": "training"},
        {f"common_{name}": (name, COUNT) for name in ("queries", "passages")},
    ),
)


def relevant_passages(qrels: Iterable[Qrel], least: int) -> dict[str, set[str]]:
    """Return query_id -> doc_ids with a relevance of at least `least`; only queries with any."""
    relevant = ((qrel.query_id, qrel.doc_id) for qrel in qrels if qrel.relevance >= least)
    return {query_id: set(doc_ids) for query_id, doc_ids in values_by_key(relevant).items()}


def queries_by_passage(relevant: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return doc_id -> the query_ids for which it is relevant."""
    pairs = ((doc_id, query_id) for query_id, passages in relevant.items() for doc_id in passages)
    return {doc_id: set(query_ids) for doc_id, query_ids in values_by_key(pairs).items()}


def _shared(
    query_id: str, passages: Collection[str], trained_by: Mapping[str, Collection[str]]
) -> int:
    """Return the number of passages that are relevant to a training query with another id."""
    return sum(
        any(trained != query_id for trained in trained_by.get(doc_id, ())) for doc_id in passages
    )


def _count_in(
    test_set: str, train: str, qrels: list[Qrel], trained_by: Mapping[str, Collection[str]]
) -> Iterator[Figure]:
    grades = sorted({qrel.relevance for qrel in qrels if qrel.relevance >= 1})
    if not grades:
        raise DataError(
            f"the test set {test_set} has no relevant passage; add judgements of grade 1 or more, "
            "or leave it out"
        )
    row = Figure("", test=test_set, system=train, queries=len({qrel.query_id for qrel in qrels}))
    for least in grades:
        shared = [
            _shared(*judged, trained_by) for judged in relevant_passages(qrels, least).items()
        ]
        for figure, fewest in _FEWEST_SHARED.items():
            count = sum(passages >= fewest for passages in shared)
            yield row._replace(figure=figure, slice=f">= {least}", value=count)


def shares_passages(
    train: QueryColumns, test: QueryColumns, labels: Mapping[str, Collection[str]]
) -> QueryValues:
    """Return 1 for each test query that shares a relevant passage with a training query, else 0.

    Args:
        train: the training queries; a training query with the test query's id does not count.
        test: the test queries.
        labels: query_id -> relevant passages, for the training and the test queries.
    """
    trained_by = queries_by_passage({query_id: labels[query_id] for query_id in train.ids})
    shared = [_shared(query_id, labels[query_id], trained_by) for query_id in test.ids]
    return QueryValues(np.array(shared, dtype=np.float64).clip(0, 1))
