"""Relevance judgements, and the part of a run that measures need.

Of the judgements of a test set, `Judgements` makes the columns that runs are judged by. A
`JudgedRun` holds the places of relevant documents under a tie policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import (
    CollectionError,
    Finding,
    FindingLog,
    UnknownNameError,
    UsageError,
    quoted,
)
from msshift_bench.plumbing import MAX_RELEVANCE, judged_once, qrels_rows
from msshift_bench.records import Qrel
from msshift_bench.runs.lines import hashes_of, id_column
from msshift_bench.runs.sources import is_table, table_rows


class RelevantDocuments(NamedTuple):
    """The relevant documents of a test set, query by query, as columns.

    Attributes:
        query: the position of the query, shape ``[documents]``.
        doc: the document's id in UTF-8.
        hash: hashes of the ids, shape ``[documents]``.
        gain: the document's relevance, at least 1, shape ``[documents]``.
        starts: where the documents of each query begin, shape ``[queries]``.
        counts: how many each query has, shape ``[queries]``.
    """

    query: Ints
    doc: pa.BinaryArray
    hash: NDArray[np.uint64]
    gain: Ints
    starts: Ints
    counts: Ints


_COLUMNS = (("query_id", "qid"), ("doc_id", "docno"), ("relevance", "label"))
"""The names of each column of a table of judgements, here and in PyTerrier."""


class Judgements:
    """A test set: the queries that count, and the documents relevant to them.

    A document is relevant where its relevance is at least 1; its gain is its relevance.

    Args:
        judged: query id -> doc id -> relevance; it is not copied. All of these queries count: they
            are the denominator of every mean.
        relevant_only: whether the judgements lack documents judged not relevant, as in a built data
            set; measures that read them are then refused.
        elsewhere: ids of queries that a run may hold as well, although they do not count here:
            those of the shift's other test sets.

    Attributes:
        query_ids: the ids of the queries, in the order of every per-query array.
        index: query id -> position in `query_ids`.
        judged: the argument.
        relevant_only: the argument.
        elsewhere: the argument.
    """

    def __init__(
        self,
        judged: Mapping[str, dict[str, int]],
        *,
        relevant_only: bool = False,
        elsewhere: Iterable[str] = (),
    ) -> None:
        self.relevant_only = relevant_only
        self.elsewhere = frozenset(elsewhere)
        self.judged = judged
        self.query_ids = tuple(judged)
        self.index = {query: position for position, query in enumerate(judged)}

    @classmethod
    def from_qrels(cls, qrels: Iterable[Qrel] | Mapping[str, Mapping[str, int]]) -> Judgements:
        """Build a test set from qrels: records, a mapping of mappings, or a table.

        Args:
            qrels: the judgements; ids must be strings and relevance a whole number, which may be
                written 1.0. Records may have further fields, as in ir_datasets and ir_measures. A
                data frame or an Arrow table has the columns query_id, doc_id and relevance, or qid,
                docno and label.

        Raises:
            CollectionError: if an id is not a string, a relevance is not a whole number that fits
                32 bits, or a document is judged twice for one query.
            UsageError: if they are something else, or a mapping or a table of another form.
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
        elif is_table(qrels) or isinstance(qrels, Iterable):
            records = table_rows(qrels, _COLUMNS) if is_table(qrels) else qrels
            relevance = {}
        else:
            raise UsageError(
                "qrels are a file, a mapping, a table or records (query id, doc id, relevance), "
                f"not {quoted(qrels)}; of Qrels of ranx pass to_dict()"
            )
        findings = FindingLog()
        for query, doc, grade, *_ in records:
            if not (isinstance(query, str) and isinstance(doc, str)):
                code, problem = "id-invalid", "ids must be strings"
            elif (
                isinstance(grade, bool)
                or not isinstance(grade, int | float | np.integer | np.floating)
                or not -MAX_RELEVANCE <= grade <= MAX_RELEVANCE
                or grade != int(grade)
            ):
                code = "relevance-not-integer"
                problem = f"relevance {quoted(grade)} is not a whole number of at most "
                problem += f"{MAX_RELEVANCE}"
            elif relevance.setdefault(query, {}).setdefault(doc, int(grade)) != grade:
                code, problem = "duplicate-judgement", "judged twice, differently"
            else:
                continue
            fix = "make ids strings, e.g. with dtype=str of pandas" if code == "id-invalid" else ""
            findings.add(code, f"query {query!r}, document {doc!r}: {problem}", "qrels", 0, fix)
        findings.stop_if_any(CollectionError, "these qrels cannot be used")
        return cls(relevance)

    def __len__(self) -> int:
        return len(self.query_ids)

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
        starts = np.cumsum(counts) - counts
        return RelevantDocuments(queries, ids, hashes_of(ids), gains, starts, counts)

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


def read_qrels(path: str | PathLike[str]) -> list[Qrel]:
    """Read a qrels file: TREC's four columns, or three (query_id, doc_id, relevance).

    Fields are separated by tabs or spaces; a header line, such as BEIR's, is skipped; the file may
    be compressed with gzip, bzip2, xz or zstd, and it may be a pipe. A line that repeats a
    judgement is left out, and a logged warning counts such lines.

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


RankedDoc = tuple[str, float, int]
QueryRanking = tuple[str, list[RankedDoc]]
"""One query of a run: its id, and each document's id, 32-bit score and rank (0: none)."""

TIE_POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "trec": "by score, equal scores by doc_id, both descending, as trec_eval does",
        "rank": "by the file's rank column, as MS MARCO's script does",
        "doc-id-ascending": "by score descending, equal scores by doc_id ascending",
        "expected": "by score; the exact mean over all orders of equal scores",
    }
)
"""The ways to order documents of equal score. Scores are compared as 32-bit floats, as
`trec_eval` does, and ids by their UTF-8 bytes."""


def check_tie_policy(name: str) -> str:
    """Return `name` if it is one of `TIE_POLICIES`.

    Raises:
        UnknownNameError: if it is not.
    """
    if name not in TIE_POLICIES:
        raise UnknownNameError("tie policy", name, TIE_POLICIES)
    return name


class Hits(NamedTuple):
    """The relevant documents that were retrieved, as columns of shape ``[hits]``.

    Attributes:
        query: position of the query in the test set.
        gain: the document's relevance, at least 1.
        rank: its place from 1 under the tie policy (under ``expected``: as under ``trec``).
        above: number of documents with a strictly better score.
        tied: number of documents with the same score, itself included.
    """

    query: Ints
    gain: Ints
    rank: Ints
    above: Ints
    tied: Ints


class Placement(NamedTuple):
    """The places that hits may take, in the order of their queries and of their places.

    A hit takes one of the places ``above + 1 ... above + size``, each equally likely. Under every
    policy but ``expected`` the size is 1: the place is known.

    Attributes:
        query: position of the query in the test set.
        gain: the document's relevance, at least 1.
        above: number of documents that surely stand above it.
        size: number of places it may take.
        peers: number of hits, itself included, that share these places.
        before: number of hits of the query that surely stand above it.
    """

    query: Ints
    gain: Ints
    above: Ints
    size: Ints
    peers: Ints
    before: Ints


@dataclass(frozen=True, slots=True)
class RunReport:
    """Facts about a run that was read, for reports.

    Attributes:
        name: the run's file or files as the user named them.
        digest: SHA-256 of the bytes as stored (what ``sha256sum`` prints), several files one
            after the other; ``""`` for a run that came from memory.
        tag: the run tag of the first line; ``""`` where the format has none.
        ranking: digest of its queries, each with its document ids in the order of their scores:
            another tag, file or scale of scores leaves it as it is.
        lines: lines read, blank lines at the end not counted.
        queries: queries in the run.
        extra_queries: queries in the run that do not count in the test set.
        warnings: the first `MAX_FINDINGS` of each code, in reading order.
        warning_counts: how many warnings there were in all, by code.
    """

    name: str
    digest: str = ""
    tag: str = ""
    ranking: str = ""
    lines: int = 0
    queries: int = 0
    extra_queries: int = 0
    warnings: tuple[Finding, ...] = ()
    warning_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run, reduced to what measures need of it.

    Attributes:
        judgements: the test set it was judged by.
        tie_policy: one of `TIE_POLICIES`; ``best`` or ``worst`` after `with_ties`.
        hits: the relevant documents it retrieved.
        retrieved: documents retrieved per query of the test set, shape ``[queries]``.
        report: what was read.
        reread: returns the queries of the run, read again once; `None` where the source cannot be
            read twice.
        unknown_queries: the UTF-8 ids of the first queries read that are not in the test set.
    """

    judgements: Judgements
    tie_policy: str
    hits: Hits
    retrieved: Ints
    report: RunReport
    reread: Callable[[], Sequence[QueryRanking]] | None = None
    unknown_queries: Sequence[bytes] = ()

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the test set's queries that the run lacks, shape ``[queries]``."""
        return np.equal(self.retrieved, 0)

    @cached_property
    def placement(self) -> Placement:
        """The places that the hits take, or may take, under the tie policy."""
        query, gain, rank, above, size = self.hits
        if self.tie_policy != "expected":
            above, size = rank - 1, np.ones_like(rank)
        order = np.lexsort((-gain, above, query))
        query, gain, above, size = query[order], gain[order], above[order], size[order]
        start, peers = _groups(query, above)
        query_start, _ = _groups(query)
        return Placement(query, gain, above, size, peers, start - query_start)

    def with_ties(self, order: Literal["best", "worst"]) -> JudgedRun:
        """The same run with every tie broken for, or against, the relevant documents.

        In a tie the most relevant documents come first, or last; no order of the ties gives any
        native measure a better, or a worse, mean. Under the policy ``rank`` there are no ties.
        """
        if self.tie_policy == "rank":
            return self
        hits = self.hits
        sign = -1 if order == "best" else 1
        by_place = np.lexsort((sign * hits.gain, hits.above, hits.query))
        sorted_hits = Hits(*(column[by_place] for column in hits))
        start, peers = _groups(sorted_hits.query, sorted_hits.above)
        within = np.arange(len(start)) - start + 1
        skipped = 0 if order == "best" else sorted_hits.tied - peers
        rank = sorted_hits.above + skipped + within
        return replace(self, tie_policy=order, hits=sorted_hits._replace(rank=rank))

    def rankings(
        self, depth: int | None = None, *, tied_only: bool = False
    ) -> Iterator[tuple[str, list[str]]]:
        """Read the run again, for measures that need more of it than the hits.

        Args:
            depth: how many documents of each ranking; `None` for all.
            tied_only: only queries with a tie that touches a relevant document: all that
                `with_ties` may have changed.

        Yields:
            Each query of the test set that the run holds, and its documents' ids in the order of
            the tie policy.

        Raises:
            UsageError: if the policy gives no order, or the source cannot be read twice.
        """
        if self.tie_policy == "expected":
            raise UsageError("under the tie policy 'expected' only native measures can be computed")
        if self.reread is None:
            raise UsageError(
                f"{self.report.name} cannot be read twice, which measures that ir_measures "
                "computes need: write the run to a file first"
            )
        tied = set(self.hits.query[self.hits.tied > 1].tolist())
        for query, lines in self.reread():
            position = self.judgements.index.get(query)
            if position is not None and (position in tied or not tied_only):
                yield query, [doc for doc, _, _ in self._in_order(query, lines)[:depth]]

    def _in_order(self, query: str, lines: list[RankedDoc]) -> list[RankedDoc]:
        if self.tie_policy == "rank":
            return sorted(lines, key=itemgetter(2))
        if len({score for _, score, _ in lines}) < len(lines):
            lines = sorted(lines, reverse=self.tie_policy != "doc-id-ascending")
            if self.tie_policy in ("best", "worst"):
                grades = self.judgements.judged[query]
                sign = -1 if self.tie_policy == "best" else 1
                lines.sort(key=lambda line: sign * max(grades.get(line[0], 0), 0))
        return sorted(lines, key=itemgetter(1), reverse=True)


def _groups(*keys: Ints) -> tuple[Ints, Ints]:
    """Return, for rows sorted by `keys`, the start of each row's group and its number of rows."""
    rows = len(keys[0])
    new = np.zeros(rows, dtype=np.bool_)
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    new[:1] = True
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=rows)
    return np.repeat(starts, sizes), np.repeat(sizes, sizes)
