"""Relevance judgements: read qrels, and make the columns of them that measures need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.errors import CollectionError, FindingLog, quoted
from msshift_bench.plumbing import MAX_RELEVANCE, qrels_rows
from msshift_bench.records import Qrel

__all__ = ["Judgements", "read_qrels"]


class Judgements:
    """A test set: the queries that count, and the documents relevant to them.

    A document is relevant where its relevance is at least 1; its gain is its relevance.

    Args:
        relevance: query id -> doc id -> relevance.
        queries: the ids of the queries that count, which are the denominator of every mean: for
            MS-Shift the queries with text, since the release of 2022 judges eight without. By
            default every query that has a judgement counts.
        relevant_only: whether the judgements lack documents judged not relevant, as in a built data
            set; measures that read them are then refused.

    Attributes:
        query_ids: the ids of the queries that count, in the order of every per-query array.
        index: query id -> position in `query_ids`.
        judged: query id -> doc id -> relevance, for the queries that count.
        uncounted: ids of queries that have judgements but do not count.
        relevant_only: the argument.
    """

    def __init__(
        self,
        relevance: Mapping[str, Mapping[str, int]],
        queries: Sequence[str] | None = None,
        *,
        relevant_only: bool = False,
    ) -> None:
        self.relevant_only = relevant_only
        self.query_ids = tuple(relevance if queries is None else dict.fromkeys(queries))
        self.index = {query: position for position, query in enumerate(self.query_ids)}
        self.judged = {query: dict(relevance.get(query, {})) for query in self.query_ids}
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
        """
        if isinstance(qrels, Mapping):
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
    def relevant(self) -> dict[bytes, tuple[int, dict[bytes, int]]]:
        """UTF-8 query id -> its position, and gain by UTF-8 doc id of its relevant documents.

        Runs are judged in bytes, because that is how `trec_eval` compares ids.
        """
        return {
            query.encode(): (
                self.index[query],
                {doc.encode(): grade for doc, grade in docs.items() if grade >= 1},
            )
            for query, docs in self.judged.items()
        }

    @cached_property
    def relevant_counts(self) -> NDArray[np.int64]:
        """Number of relevant documents per query, shape ``[queries]``."""
        counts = [len(relevant) for _, relevant in self.relevant.values()]
        return np.array(counts, dtype=np.int64)

    @cached_property
    def ideal(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The ideal ranking of every query's relevant documents, as three columns.

        Returns:
            Query position, rank from 1 and gain of each relevant document, gains descending
            within a query; each of shape ``[relevant documents]``.
        """
        gains = [sorted(docs.values(), reverse=True) for _, docs in self.relevant.values()]
        counts = self.relevant_counts
        starts = np.cumsum(counts) - counts
        queries = np.repeat(np.arange(len(counts)), counts)
        ranks = np.arange(len(queries)) - np.repeat(starts, counts) + 1
        flat = np.array([gain for query in gains for gain in query], dtype=np.float64)
        return queries, ranks, flat


def _is_relevance(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return -MAX_RELEVANCE <= int(value) <= MAX_RELEVANCE


def read_qrels(path: str | PathLike[str]) -> list[Qrel]:
    """Read a qrels file: TREC's four columns, or three (query_id, doc_id, relevance).

    Fields are separated by tabs or spaces; BEIR's header line, and lines that begin with ``#``,
    are skipped; the file may be compressed with gzip, bzip2, xz or zstd, and it may be a pipe.

    Args:
        path: the file.

    Returns:
        The judgements in the order of the file.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: with every malformed line, up to 20 of them spelled out.
    """
    name, findings = str(path), FindingLog()
    qrels: list[Qrel] = []
    first_lines: dict[tuple[str, str], int] = {}
    for number, qrel in qrels_rows(Path(path), findings):
        first = first_lines.setdefault(qrel[:2], number)
        if first != number:
            message = (
                f"document {qrel.doc_id!r} of query {qrel.query_id!r} "
                f"is judged already in line {first}"
            )
            fix = "keep one judgement per query and document"
            findings.add("duplicate-judgement", message, name, number, fix)
        qrels.append(qrel)
    if not (qrels or len(findings)):
        findings.add("empty-file", "the file holds no judgement", name)
    findings.stop_if_any(CollectionError, f"{name}: these qrels cannot be used")
    return qrels
