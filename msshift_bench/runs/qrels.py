"""Relevance judgements: read qrels, and make the columns of them that measures need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import CollectionError, FindingLog, UsageError, quoted
from msshift_bench.plumbing import MAX_RELEVANCE, judged_once, qrels_rows
from msshift_bench.records import Qrel
from msshift_bench.runs.ids import hashes_of, id_column

__all__ = ["Judgements", "RelevantDocuments", "read_qrels"]


class RelevantDocuments(NamedTuple):
    """The relevant documents of a test set, query by query, as columns.

    Attributes:
        query: the position of the query, shape ``[documents]``.
        doc: the document's id in UTF-8.
        hash: hashes of the ids, shape ``[documents]``.
        gain: the document's relevance, at least 1, shape ``[documents]``.
        starts: where the documents of each query begin, shape ``[queries]``.
    """

    query: Ints
    doc: pa.BinaryArray
    hash: NDArray[np.uint64]
    gain: Ints
    starts: Ints


class Judgements:
    """A test set: the queries that count, and the documents relevant to them.

    A document is relevant where its relevance is at least 1; its gain is its relevance.

    Args:
        relevance: query id -> doc id -> relevance; it is not copied.
        queries: the ids of the queries that count, which are the denominator of every mean: for
            MS-Shift the queries with text, since the release of 2022 judges eight without. By
            default every query that has a judgement counts.
        relevant_only: whether the judgements lack documents judged not relevant, as in a built data
            set; measures that read them are then refused.
        elsewhere: ids of queries that a run may hold as well, although they do not count here:
            those of the shift's other test sets.

    Attributes:
        query_ids: the ids of the queries that count, in the order of every per-query array.
        index: query id -> position in `query_ids`.
        judged: query id -> doc id -> relevance, for the queries that count.
        uncounted: ids of queries that have judgements but do not count.
        relevant_only: the argument.
        elsewhere: the argument.
    """

    def __init__(
        self,
        relevance: Mapping[str, dict[str, int]],
        queries: Sequence[str] | None = None,
        *,
        relevant_only: bool = False,
        elsewhere: Iterable[str] = (),
    ) -> None:
        self.relevant_only = relevant_only
        self.elsewhere = frozenset(elsewhere)
        self.query_ids = tuple(relevance if queries is None else dict.fromkeys(queries))
        self.index = {query: position for position, query in enumerate(self.query_ids)}
        self.judged = {query: relevance.get(query, {}) for query in self.query_ids}
        self.uncounted = frozenset(query for query in relevance if query not in self.index)

    @classmethod
    def from_qrels(
        cls,
        qrels: Iterable[Qrel] | Mapping[str, Mapping[str, int]],
        queries: Sequence[str] | None = None,
    ) -> Judgements:
        """Build a test set from qrels, as records or as a mapping of mappings.

        Args:
            qrels: the judgements; ids must be strings and relevance a whole number. Records may
                have further fields, as those of ir_datasets and ir_measures do.
            queries: the ids of the queries that count; by default those of the qrels.

        Raises:
            CollectionError: if an id is not a string, a relevance is not a whole number that fits
                32 bits, or a document is judged twice for one query.
            UsageError: if a mapping holds something else than mappings.
        """
        if isinstance(qrels, Mapping):
            for query, docs in qrels.items():
                if not hasattr(docs, "items"):
                    raise UsageError(
                        "qrels as a mapping are query id -> doc id -> relevance, and query "
                        f"{quoted(query)} has {quoted(docs)}"
                    )
            records: Iterable[tuple[Any, ...]] = (
                (query, doc, relevance)
                for query, docs in qrels.items()
                for doc, relevance in docs.items()
            )
            relevance: dict[str, dict[str, int]] = {query: {} for query in qrels}
        else:
            records, relevance = qrels, {}
        findings = FindingLog()
        for query, doc, grade, *_ in records:
            if not (isinstance(query, str) and isinstance(doc, str)):
                code, problem = "id-invalid", "ids must be strings"
            elif not _is_relevance(grade):
                code = "relevance-not-integer"
                problem = f"relevance {quoted(grade)} is not a whole number of at most "
                problem += f"{MAX_RELEVANCE}"
            elif relevance.setdefault(query, {}).setdefault(doc, int(grade)) != grade:
                code, problem = "duplicate-judgement", "judged twice, differently"
            else:
                continue
            findings.add(code, f"query {query!r}, document {doc!r}: {problem}", "qrels")
        findings.stop_if_any(CollectionError, "these qrels cannot be used")
        return cls(relevance, queries)

    def __len__(self) -> int:
        return len(self.query_ids)

    @cached_property
    def unjudged(self) -> NDArray[np.bool_]:
        """True for a query without a judgement, shape ``[queries]``."""
        return np.array([not docs for docs in self.judged.values()], np.bool_)

    @cached_property
    def relevant(self) -> RelevantDocuments:
        """The relevant documents.

        Runs are judged in bytes, because that is how `trec_eval` compares ids.
        """
        relevant = [
            [(doc.encode(), grade) for doc, grade in grades.items() if grade >= 1]
            for grades in self.judged.values()
        ]
        counts = np.array([len(docs) for docs in relevant], np.int64)
        ids = id_column([doc for docs in relevant for doc, _ in docs])
        gains = np.array([grade for docs in relevant for _, grade in docs], np.int64)
        queries = np.repeat(np.arange(len(counts)), counts)
        return RelevantDocuments(queries, ids, hashes_of(ids), gains, np.cumsum(counts) - counts)

    @cached_property
    def relevant_counts(self) -> Ints:
        """Number of relevant documents per query, shape ``[queries]``."""
        return np.diff(self.relevant.starts, append=len(self.relevant.gain))

    @cached_property
    def ideal(self) -> tuple[Ints, Ints, Floats]:
        """The ideal ranking of every query's relevant documents, as three columns.

        Returns:
            Query position, rank from 1 and gain of each relevant document, gains descending
            within a query; each of shape ``[relevant documents]``.
        """
        queries, gains = self.relevant.query, self.relevant.gain
        ranks = np.arange(len(queries)) - self.relevant.starts[queries] + 1
        return queries, ranks, gains[np.lexsort((-gains, queries))].astype(np.float64)


def _is_relevance(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return -MAX_RELEVANCE <= int(value) <= MAX_RELEVANCE


def read_qrels(path: str | PathLike[str]) -> list[Qrel]:
    """Read a qrels file: TREC's four columns, or three (query_id, doc_id, relevance).

    Fields are separated by tabs or spaces; BEIR's header line, and lines that begin with ``#``,
    are skipped; the file may be compressed with gzip, bzip2, xz or zstd, and it may be a pipe. A
    line that repeats a judgement says nothing new: it is left out, and a logged warning counts it.

    Args:
        path: the file.

    Returns:
        The judgements in the order of the file, each once.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if the path is a folder.
        CollectionError: with every malformed line; the message shows three of each kind.

    Examples:
        >>> read_qrels("qrels.txt")[0]
        Qrel(query_id='q1', doc_id='d1', relevance=1)
    """
    name, findings = str(path), FindingLog()
    rows = ((name, line, qrel) for line, qrel in qrels_rows(Path(path), findings))
    qrels = list(judged_once(rows, findings))
    if not (qrels or len(findings)):
        findings.add("empty-file", "the file holds no judgement", name)
    findings.stop_if_any(CollectionError, f"{name}: these qrels cannot be used")
    return qrels
