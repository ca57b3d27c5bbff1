"""Judgements as columns, and judged runs.

`Judgements` are the columns of a test set's relevant documents. A `JudgedRun` has the places of
relevant documents under a tie policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
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
    UsageError,
    check_name,
    quoted,
)
from msshift_bench.plumbing import MAX_RANK, MAX_RELEVANCE, judged_once, qrels_rows
from msshift_bench.records import Qrel
from msshift_bench.runs.lines import Lines, hashes_of, id_column
from msshift_bench.runs.sources import is_table, table_rows


class QueryDocuments(NamedTuple):
    """The relevant, or the excluded, documents of each query of a test set, as columns.

    Attributes:
        query: position of the query in the test set, shape ``[documents]``.
        doc: the document's id in UTF-8.
        hash: hashes of the ids, shape ``[documents]``.
        gain: the document's relevance, at least 1, or 0 if excluded, shape ``[documents]``.
        starts: index of each query's first document, shape ``[queries]``.
        counts: number of each query's documents, shape ``[queries]``.
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

    A document is relevant if its relevance is at least 1; its gain is its relevance.

    Args:
        judged: query id -> doc id -> relevance; it is not copied. All of these queries count: they
            are the denominator of every mean.
        relevant_only: whether the judgements lack documents judged not relevant, as in a built data
            set; measures that need such documents then raise an error.
        ignored_ids: query ids of the shift's other test sets. A run may contain them; they do
            not count.
        excluded: query id -> doc ids that are removed from runs.

    Attributes:
        query_ids: the ids of the queries, in the order of every per-query array.
        index: query id -> position in `query_ids`.
        judged: the argument.
        relevant_only: the argument.
        ignored_ids: the argument.
        excluded: the excluded documents; `None` if the argument is empty.
    """

    def __init__(
        self,
        judged: Mapping[str, dict[str, int]],
        *,
        relevant_only: bool = False,
        ignored_ids: Iterable[str] = (),
        excluded: Mapping[str, Iterable[str]] = MappingProxyType({}),
    ) -> None:
        self.relevant_only = relevant_only
        self.ignored_ids = frozenset(ignored_ids)
        self.judged = judged
        self.query_ids = tuple(judged)
        self.index = {query: position for position, query in enumerate(judged)}
        by_query = (dict.fromkeys(excluded.get(query, ()), 0) for query in judged)
        self.excluded = _columns_of(by_query) if excluded else None

    @classmethod
    def from_qrels(cls, qrels: Iterable[Qrel] | Mapping[str, Mapping[str, int]]) -> Judgements:
        """Return the test set of qrels: records, a mapping of mappings, or a table.

        Args:
            qrels: the judgements; ids must be strings and relevance a whole number, which may be
                written 1.0. Records may have further fields, as in ir_datasets and ir_measures. A
                data frame or an Arrow table has the columns query_id, doc_id and relevance, or qid,
                docno and label.

        Raises:
            CollectionError: if an id is not a string, a relevance is not a whole number of 32 bits,
                or a query has two different judgements of a document.
            UsageError: if they have another type, a mapping or a table has another form, or a
                record has fewer than three fields.
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
        for number, record in enumerate(records, start=1):
            try:
                query, doc, grade, *_ = record
            except (TypeError, ValueError):
                raise UsageError(
                    f"record {number} of the qrels is {quoted(record)}; it must be "
                    "(query_id, doc_id, relevance)"
                ) from None
            if not (isinstance(query, str) and isinstance(doc, str)):
                code, problem = "id-invalid", "ids must be strings"
            elif (
                isinstance(grade, bool)
                or not isinstance(grade, int | float | np.integer | np.floating)
                or not -MAX_RELEVANCE <= grade <= MAX_RELEVANCE
                or grade != int(grade)
            ):
                problem = f"relevance {quoted(grade)} is not a whole number of at most "
                code, problem = "relevance-not-integer", f"{problem}{MAX_RELEVANCE}"
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
    def relevant(self) -> QueryDocuments:
        """The relevant documents of every query, as columns."""
        return _columns_of(
            {doc: grade for doc, grade in grades.items() if grade >= 1}
            for grades in self.judged.values()
        )

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


def _columns_of(gains: Iterable[Mapping[str, int]]) -> QueryDocuments:
    """Return the columns of queries' documents; `gains` has a mapping doc id -> gain per query.

    Ids are compared as bytes, as in `trec_eval`.
    """
    by_query = [[(doc.encode(), gain) for doc, gain in of_query.items()] for of_query in gains]
    counts = np.array([len(docs) for docs in by_query], np.int64)
    ids = id_column([doc for docs in by_query for doc, _ in docs])
    values = np.array([gain for docs in by_query for _, gain in docs], np.int64)
    queries = np.repeat(np.arange(len(counts)), counts)
    return QueryDocuments(queries, ids, hashes_of(ids), values, np.cumsum(counts) - counts, counts)


def read_qrels(path: str | PathLike[str]) -> list[Qrel]:
    """Return the judgements in a qrels file of four columns (TREC) or three.

    Three columns are query_id, doc_id and relevance. Fields are separated by tabs or spaces, and a
    header line, as in BEIR, is skipped. The file may be compressed with gzip, bzip2, xz or zstd,
    and may be a pipe. Repeated judgements are left out, and a logged warning counts them.

    Args:
        path: the file.

    Returns:
        The judgements in the order of the file, each once.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if the path is a folder.
        CollectionError: with every malformed line, or for a file without judgements; the message
            shows three of each kind.

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


TIE_POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "trec": "by score, equal scores by doc_id, both descending, as trec_eval does",
        "rank": "by the file's rank column, as MS MARCO's script does",
        "doc-id-ascending": "by score descending, equal scores by doc_id ascending",
        "expected": "by score; the exact mean over all orders of equal scores",
    }
)
"""Orders of documents; scores compare as 32-bit floats, as in `trec_eval`, ids as UTF-8 bytes."""


def check_tie_policy(name: str) -> str:
    """Return `name` if it is one of `TIE_POLICIES`.

    Raises:
        UnknownNameError: for another name.
    """
    return check_name("tie policy", name, TIE_POLICIES)


class Hits(NamedTuple):
    """The relevant documents that were retrieved, as columns of shape ``[hits]``.

    Attributes:
        query: position of the query in the test set.
        gain: the document's relevance, at least 1.
        rank: its place from 1 under the tie policy (under ``expected``: as under ``trec``).
        above: number of documents with a strictly better score; under ``rank``, ``rank - 1``.
        tied: number of documents with the same score, itself included; under ``rank``, 1.
    """

    query: Ints
    gain: Ints
    rank: Ints
    above: Ints
    tied: Ints


class Placement(NamedTuple):
    """The possible places of hits, in the order of queries and places.

    The place of a hit is one of ``above + 1 ... above + size``, each equally likely. Except under
    the policy ``expected``, the size is 1.

    Attributes:
        query: position of the query in the test set.
        gain: the document's relevance, at least 1.
        above: number of documents above it in every order.
        size: number of its possible places.
        peers: number of hits with these possible places, itself included.
        before: number of the query's hits above it in every order.
    """

    query: Ints
    gain: Ints
    above: Ints
    size: Ints
    peers: Ints
    before: Ints


FIRST_PLACES = 10
"""Number of first places of each ranking in `RankingDigests`."""

DIGESTS = np.dtype(
    [
        ("ranking", "u8"),
        ("lines", "u4"),
        ("ties", "u4"),
        ("docs", "u4", FIRST_PLACES),
        ("levels", "u1", FIRST_PLACES),
    ]
)
"""Columns of `RankingDigests.queries`; ``levels`` are numbers of different higher scores, and
`FIRST_PLACES` beyond the ranking."""


class RankingDigests(NamedTuple):
    """Digests of a run's rankings, to find runs that differ only by ties.

    Attributes:
        totals: sums over all queries, modulo 2**64, shape ``[4]``: number of documents, number of
            documents tied with the one before, digest of sets of documents, digest of rankings.
        queries: a row of `DIGESTS` for each query of the test set.
    """

    totals: NDArray[np.uint64]
    queries: NDArray[Any]

    def equal_but_for_ties(self, other: RankingDigests) -> bool:
        """Return whether two runs of equal sets of documents differ only by ties.

        It is false if half of a run's documents or more are tied. The order is compared in the
        first places, and completely for queries without ties.
        """
        tied = 2 * max(self.totals[1], other.totals[1])
        if self.totals[2] != other.totals[2] or tied >= self.totals[0]:
            return False
        first, second = self.queries, other.queries
        strict = (first["ties"] == 0) & (second["ties"] == 0)
        if np.any(strict & (first["ranking"] != second["ranking"])):
            return False
        same = first["docs"][:, :, None] == second["docs"][:, None, :]
        levels, others = first["levels"], second["levels"]
        levels = np.hstack((levels, _levels_of(same.transpose(0, 2, 1), levels)))
        others = np.hstack((_levels_of(same, others), others))
        others = np.take_along_axis(others, np.lexsort((others, levels)), 1)
        return not np.any(others[:, 1:] < others[:, :-1])


def _levels_of(same: NDArray[np.bool_], levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the smallest possible levels, see `DIGESTS`, of documents in a run.

    Args:
        same: whether a document equals the run's document at a place, ``[queries, documents,
            places]``.
        levels: the levels of the run's first documents, ``[queries, places]``.
    """
    return np.where(same.any(2), np.take_along_axis(levels, same.argmax(2), 1), levels[:, -1:])


@dataclass(frozen=True, slots=True)
class RunReport:
    """Facts about a run that was read, for reports.

    Attributes:
        name: the name of the run's file or files.
        digest: SHA-256 of the bytes as stored (as ``sha256sum`` prints), several files one after
            the other; ``""`` for a run in memory.
        tag: the run tag of the first line; ``""`` where the format has none.
        ranking: digest of its queries with their document ids by score, or rank under ``rank``; it
            does not depend on tag, file or scale of scores.
        lines: lines read, without blank lines at the end and excluded documents.
        queries: number of queries in the run.
        extra_queries: number of queries in the run that are not in the test set.
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
    """A run reduced to the parts that measures need.

    Attributes:
        judgements: the test set it was judged by.
        tie_policy: one of `TIE_POLICIES`; ``best`` or ``worst`` after `with_ties`.
        hits: the relevant documents it retrieved.
        retrieved: number of documents retrieved per query of the test set, shape ``[queries]``.
        report: its report.
        digests: digests of its rankings.
        depth: number of documents of each ranking that are kept.
        kept: lines of the test set's queries, best first, down to `depth` and the ties there.
        unknown_queries: the UTF-8 ids of the first 10,000 queries outside the test set.
        sample: columns of the first documents' ids, if no relevant one was retrieved; else empty.
        emptied: positions of the queries with only excluded documents in the run.
        own_first: number of test queries whose first document by score has their id and is not
            relevant.
    """

    judgements: Judgements
    tie_policy: str
    hits: Hits
    retrieved: Ints
    report: RunReport
    digests: RankingDigests
    depth: int = 0
    kept: Sequence[Lines] = ()
    unknown_queries: Sequence[bytes] = ()
    sample: Sequence[pa.BinaryArray] = ()
    emptied: Sequence[int] = ()
    own_first: int = 0

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the test set's queries that are missing from the run, shape ``[queries]``.

        Queries in `emptied` are not missing.
        """
        missing = np.equal(self.retrieved, 0)
        missing[list(self.emptied)] = False
        return missing

    @cached_property
    def placement(self) -> Placement:
        """The possible places of the hits under the tie policy."""
        query, gain, rank, above, size = self.hits
        if self.tie_policy != "expected":
            above, size = rank - 1, np.ones_like(rank)
        order = np.lexsort((-gain, above, query))
        query, gain, above, size = query[order], gain[order], above[order], size[order]
        start, peers = _groups(query, above)
        query_start, _ = _groups(query)
        return Placement(query, gain, above, size, peers, start - query_start)

    def with_ties(self, order: Literal["best", "worst"]) -> JudgedRun:
        """Return the run with every tie broken for, or against, the relevant documents.

        In a tie the most relevant documents are first, or last: no other order gives a native
        measure a better, or worse, mean. Under the policy ``rank`` there are no ties: the run is
        returned unchanged.
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
        self, depth: int = MAX_RANK, *, tied_only: bool = False
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield the rankings, for measures that need more than the hits.

        Args:
            depth: number of documents of each ranking, at most those kept.
            tied_only: whether to yield only queries with a tie at a relevant document, which
                `with_ties` may change.

        Yields:
            Each query of the test set in the run, and its document ids in the order of the tie
            policy.

        Raises:
            UsageError: if the policy fixes no order, or fewer documents were kept.
        """
        if self.tie_policy == "expected":
            raise UsageError(
                "under the tie policy 'expected' only native measures can be computed; choose "
                "another tie policy, e.g. 'trec'"
            )
        if depth > self.depth:
            raise UsageError(
                f"this measure needs the first {depth} documents of each ranking, and "
                f"{self.depth} were kept: pass its depth to judge_run"
            )
        tied = set(self.hits.query[self.hits.tied > 1].tolist())
        for query, docs, scores in chain.from_iterable(lines.rankings() for lines in self.kept):
            if not tied_only or self.judgements.index[query] in tied:
                yield query, self._in_order(query, docs, scores)[:depth]

    def _in_order(self, query: str, docs: list[str], scores: list[float]) -> list[str]:
        if self.tie_policy == "rank" or len(set(scores)) == len(scores):
            return docs
        grades = self.judgements.judged[query]
        sign = {"best": -1, "worst": 1}.get(self.tie_policy, 0)
        ranked = sorted(
            zip(docs, scores, strict=True), reverse=self.tie_policy != "doc-id-ascending"
        )
        ranked.sort(key=lambda pair: (-pair[1], sign * max(grades.get(pair[0], 0), 0)))
        return [doc for doc, _ in ranked]


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
