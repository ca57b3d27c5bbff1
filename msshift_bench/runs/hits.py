"""The part of a run that measures need: the places of relevant documents under a tie policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import Finding, UnknownNameError, UsageError
from msshift_bench.runs.qrels import Judgements

__all__ = ["TIE_POLICIES", "Hits", "JudgedRun", "Placement", "RunReport", "check_tie_policy"]

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
        if self.tie_policy == "expected":
            return _place(self.hits.query, self.hits.gain, self.hits.above, self.hits.tied)
        ones = np.ones_like(self.hits.rank)
        return _place(self.hits.query, self.hits.gain, self.hits.rank - 1, ones)

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


def _place(query: Ints, gain: Ints, above: Ints, size: Ints) -> Placement:
    order = np.lexsort((-gain, above, query))
    query, gain, above, size = query[order], gain[order], above[order], size[order]
    start, peers = _groups(query, above)
    query_start, _ = _groups(query)
    return Placement(query, gain, above, size, peers, start - query_start)


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
