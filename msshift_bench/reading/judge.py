"""Judging a run query by query: the checks that need a whole query, and each hit's place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.judged import Hits, JudgedRun, RunReport
from msshift_bench.qrels import Judgements
from msshift_bench.reading.findings import RunFindings, show

__all__ = ["ODD_IDS", "QueriesInterleavedError", "Ranking", "RunJudge"]

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), b"\n0", "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), b".0\n", "an integer turned into a decimal number"),
}
"""Code -> what ids look like that have passed through a table of numbers: a pattern, what shows
in a list of ids if one may match, and words."""


class QueriesInterleavedError(Exception):
    """A query came back after another one; the reader starts again and groups the lines."""


class Ranking(NamedTuple):
    """One query's lines, as columns in the order in which they were read.

    Attributes:
        places: where each line was, as `reading.findings.place_of` encodes it.
        docs: UTF-8 document ids.
        scores: finite, 32-bit, shape ``[lines]``.
        ranks: the file's rank column, at least 0, shape ``[lines]``; `None` if there is none.
    """

    places: Sequence[int]
    docs: Sequence[bytes]
    scores: NDArray[np.float32]
    ranks: NDArray[np.int64] | None


class RunJudge:
    """Takes a run's queries one after the other and keeps what measures need.

    Args:
        judgements: the test set; `None` checks the run without one.
        tie_policy: one of `TIE_POLICIES`.
        findings: where findings go.
    """

    def __init__(
        self, judgements: Judgements | None, tie_policy: str, findings: RunFindings
    ) -> None:
        self.findings = findings
        self.tie_policy = tie_policy
        self.seen: set[bytes] = set()
        self.lines = 0
        self.extra_queries = 0
        self.checks_queries = judgements is not None
        self.judgements = Judgements({}) if judgements is None else judgements
        self._uncounted = {query.encode() for query in self.judgements.uncounted}
        self._hits: list[tuple[int, int, int, int, int]] = []
        self._retrieved = np.zeros(len(self.judgements), dtype=np.int64)
        judged = [doc for _, docs in self.judgements.relevant.values() for doc in docs]
        self.odd_doc_codes = [
            code
            for code, (pattern, *_) in ODD_IDS.items()
            if not any(pattern.fullmatch(doc) for doc in judged)
        ]

    def add(self, query: bytes, ranking: Ranking) -> None:
        """Check and judge one query.

        Raises:
            QueriesInterleavedError: if the query was added before.
        """
        relevant = self.begin(query, len(ranking.docs), ranking.places[0])
        self._check_documents(query, ranking)
        if ranking.ranks is not None:
            self._check_ranks(query, ranking, ranking.ranks)
        if relevant:
            self.add_hits(_hits(self.judgements.relevant[query], ranking, self.tie_policy))

    def begin(self, query: bytes, lines: int, place: int) -> dict[bytes, int]:
        """Register a query, and return the gains of its relevant documents.

        Args:
            query: UTF-8 id.
            lines: how many documents were retrieved for it.
            place: where its first line was.

        Raises:
            QueriesInterleavedError: if the query was registered before.
        """
        if query in self.seen:
            raise QueriesInterleavedError
        self.seen.add(query)
        self.lines += lines
        if query in self.judgements.relevant:
            position, relevant = self.judgements.relevant[query]
            self._retrieved[position] = lines
            if not self.judgements.judged[self.judgements.query_ids[position]]:
                message = f"query {show(query)} of the test set has no judgement"
                self.findings.add("query-without-qrels", place, message)
            return relevant
        self.extra_queries += 1
        if self.checks_queries:
            reason = "is judged, but does not count" if query in self._uncounted else "is not"
            message = f"query {show(query)} {reason} in the test set"
            self.findings.add("unknown-query", place, message)
        for code, (pattern, _, look) in ODD_IDS.items():
            if pattern.fullmatch(query):
                self.findings.add(code, place, f"query id {show(query)} looks like {look}")
        return {}

    def add_hits(self, hits: Iterable[tuple[int, int, int, int, int]]) -> None:
        """Keep hits, given as rows of `Hits`."""
        self._hits.extend(hits)

    def finish(self, report: RunReport) -> JudgedRun:
        """Return everything judged so far as columns."""
        columns = np.array(self._hits, dtype=np.int64).reshape(-1, len(Hits._fields)).T
        return JudgedRun(self.judgements, self.tie_policy, Hits(*columns), self._retrieved, report)

    def _check_documents(self, query: bytes, ranking: Ranking) -> None:
        if len(set(ranking.docs)) < len(ranking.docs):
            first: dict[bytes, int] = {}
            for place, doc in zip(ranking.places, ranking.docs, strict=True):
                if doc in first:
                    message = f"document {show(doc)} stands twice in the ranking of {show(query)}"
                    self.findings.add("duplicate-document", place, message)
                first[doc] = place
        together = b"\n".join((b"", *ranking.docs, b""))
        for code in self.odd_doc_codes:
            pattern, hint, look = ODD_IDS[code]
            if hint not in together:
                continue
            for place, doc in zip(ranking.places, ranking.docs, strict=True):
                if pattern.fullmatch(doc):
                    message = f"document id {show(doc)} looks like {look}"
                    self.findings.add(code, place, message)
                    break

    def _check_ranks(self, query: bytes, ranking: Ranking, ranks: NDArray[np.int64]) -> None:
        """Report each way in which the ranks of one query are odd once, where it begins."""
        scores, count = ranking.scores, len(ranks)
        steps = np.diff(ranks)
        if (steps == 1).all() and ranks[0] == 1 and (scores[1:] <= scores[:-1]).all():
            return

        def report(code: str, line: np.intp | int, message: str) -> None:
            text = f"query {show(query)}: {message}"
            self.findings.add(code, ranking.places[int(line)], text)

        by_rank = np.argsort(ranks, kind="stable")
        in_order = ranks[by_rank]
        first = int(in_order[0])
        if first == 0:
            report("rank-zero-based", by_rank[0], "ranks begin at 0 instead of 1")
        repeats = by_rank[1:][in_order[1:] == in_order[:-1]]
        if len(repeats):
            line = repeats.min()
            report("rank-repeated", line, f"rank {ranks[line]} stands twice")
        else:
            gaps = np.flatnonzero(in_order != np.arange(count) + min(first, 1))
            if len(gaps):
                at = gaps[0]
                wanted = at + min(first, 1)
                report("rank-gap", by_rank[at], f"rank {in_order[at]} where {wanted} was expected")
        if (steps < 0).any():
            line = np.flatnonzero(steps < 0)[0] + 1
            report("rank-order", line, f"rank {ranks[line]} comes after rank {ranks[line - 1]}")
        lowest = np.minimum.accumulate(scores[by_rank])
        better_ranked = np.searchsorted(in_order, in_order)
        disagreeing = (better_ranked > 0) & (scores[by_rank] > lowest[better_ranked - 1])
        if disagreeing.any():
            at = np.flatnonzero(disagreeing)[0]
            report(
                "rank-score-disagree",
                by_rank[at],
                f"the document at rank {in_order[at]} has a higher score than one ranked better",
            )


def _hits(
    judged: tuple[int, dict[bytes, int]], ranking: Ranking, tie_policy: str
) -> Iterable[tuple[int, int, int, int, int]]:
    """Yield a row of `Hits` for each relevant document in a ranking without duplicates."""
    position, relevant = judged
    docs, scores = ranking.docs, ranking.scores
    retrieved = set(docs)
    for doc, gain in relevant.items():
        if doc not in retrieved:
            continue
        line = docs.index(doc)
        if tie_policy == "rank":
            assert ranking.ranks is not None
            rank = int(ranking.ranks[line])
            yield position, gain, rank, rank - 1, 1
            continue
        above = int(np.count_nonzero(scores > scores[line]))
        ties = np.flatnonzero(scores == scores[line])
        if tie_policy == "doc-id-ascending":
            first = sum(docs[other] < doc for other in ties.tolist())
        else:
            first = sum(docs[other] > doc for other in ties.tolist())
        yield position, gain, above + first + 1, above, len(ties)
