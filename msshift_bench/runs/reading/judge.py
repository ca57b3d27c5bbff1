"""Judging a run query by query: check whole queries, and find the place of each hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import quoted
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.hashes import ODD_IDS, IdColumn, SeenHashes
from msshift_bench.runs.hits import Hits, JudgedRun, RunReport
from msshift_bench.runs.qrels import Judgements

__all__ = ["QueriesInterleavedError", "QueryLines", "RunJudge"]

_FROM_ZERO = "ranks begin at 0 instead of 1"


MAX_OTHERS = 10_000
"""Most ids of queries outside the test set to keep, for a message that says whose they are."""


class QueriesInterleavedError(Exception):
    """A query came back after another one; the reader starts again and groups the lines."""


class QueryLines(NamedTuple):
    """One query's lines, as columns in the order in which they were read.

    Attributes:
        places: the place of each line, as `findings.place_of` encodes it.
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
        self.queries = 0
        self.lines = 0
        self.extra_queries = 0
        self.checks_queries = judgements is not None
        self.judgements = Judgements({}) if judgements is None else judgements
        self._seen = SeenHashes()
        self._others: list[bytes] = []
        self._hits: list[Ints] = []
        self._retrieved = np.zeros(len(self.judgements), dtype=np.int64)
        docs = self.judgements.relevant.doc
        self.odd_doc_codes = [code for code in ODD_IDS if next(docs.odd(code), None) is None]

    def register(self, hashes: NDArray[np.uint64]) -> None:
        """Register queries before they are added, by the hashes of their ids.

        Raises:
            QueriesInterleavedError: if one hash, and so perhaps its query, was registered before.
        """
        if not self._seen.add(hashes):
            raise QueriesInterleavedError

    def add(self, query: bytes, ranking: QueryLines) -> None:
        """Check and judge one query; add each query only once."""
        place = ranking.places[0]
        self._count(1, len(ranking.docs))
        position = self.judgements.position(query)
        if position < 0:
            self._add_extra(query, place)
        else:
            self._retrieved[position] = len(ranking.docs)
            if self.judgements.unjudged[position]:
                self._report_unjudged(query, place)
        self._check_documents(query, ranking)
        if ranking.ranks is not None:
            self.check_ranks(query, ranking.places, ranking.scores, ranking.ranks)
        if position >= 0:
            grades = self.judgements.judged[self.judgements.query_ids[position]]
            hits = list(_hits(position, grades, ranking, self.tie_policy))
            if hits:
                self.add_hits(np.array(hits, np.int64))

    def add_columns(
        self,
        queries: IdColumn,
        places: NDArray[np.int64],
        lines: NDArray[np.int64],
        known: NDArray[np.int64],
        positions: NDArray[np.int64],
    ) -> None:
        """Check the ids of queries whose documents and ranks have been checked.

        Args:
            queries: UTF-8 ids.
            places: the place of each query's first line, shape ``[queries]``.
            lines: documents retrieved for each query, shape ``[queries]``.
            known: indices of the queries that are in the test set.
            positions: the positions of these queries in the test set.
        """
        self._count(len(lines), int(lines.sum()))
        self._retrieved[positions] = lines[known]
        for index in known[self.judgements.unjudged[positions]].tolist():
            self._report_unjudged(queries[index], int(places[index]))
        extra = np.delete(np.arange(len(lines)), known)
        if len(extra):
            self._add_extras(queries.take(extra), places[extra])

    def _count(self, queries: int, lines: int) -> None:
        self.queries += queries
        self.lines += lines

    def _report_unjudged(self, query: bytes, place: int) -> None:
        message = f"query {quoted(query)} of the test set has no judgement"
        self.findings.add("query-without-qrels", place, message)

    def _add_extra(self, query: bytes, place: int) -> None:
        """Register a query that is not in the test set."""
        self.extra_queries += 1
        if len(self._others) < MAX_OTHERS:
            self._others.append(query)
        elsewhere = query.decode(errors="surrogateescape") in self.judgements.elsewhere
        if self.checks_queries and not elsewhere:
            self.findings.add("unknown-query", place, self._unknown(query))
        for code, (pattern, *_) in ODD_IDS.items():
            if pattern.fullmatch(query):
                self.findings.add(code, place, _looks_odd(code, query))

    def _add_extras(self, queries: IdColumn, places: NDArray[np.int64]) -> None:
        """Register many queries that are not in the test set."""
        self.extra_queries += len(places)
        room = MAX_OTHERS - len(self._others)
        self._others += [queries[row] for row in range(min(room, len(places)))]
        if self.checks_queries:
            rows = self._nowhere(queries)
            self.findings.add_many(
                "unknown-query",
                places[rows],
                lambda index: self._unknown(queries[int(rows[index])]),
            )
        for code in ODD_IDS:
            self._add_odd(code, queries, places)

    def _nowhere(self, queries: IdColumn) -> NDArray[np.intp]:
        """Return the rows of queries that are in no test set of the shift."""
        if not self.judgements.elsewhere:
            return np.arange(len(queries.starts))
        return np.flatnonzero(~np.isin(queries.hashes(), self.judgements.elsewhere_hashes))

    def _add_odd(self, code: str, queries: IdColumn, places: NDArray[np.int64]) -> None:
        rows = list(queries.odd(code))
        self.findings.add_many(
            code, places[rows], lambda index: _looks_odd(code, queries[rows[index]])
        )

    def _unknown(self, query: bytes) -> str:
        uncounted = query.decode(errors="surrogateescape") in self.judgements.uncounted
        reason = "is judged, but does not count" if uncounted else "is not"
        return f"query {quoted(query)} {reason} in the test set"

    def add_hits(self, hits: Ints) -> None:
        """Keep hits, given as rows of `Hits`, shape ``[hits, 5]``."""
        self._hits.append(hits)

    def finish(self, report: RunReport) -> JudgedRun:
        """Return everything judged so far as columns."""
        columns = np.concatenate([np.empty((0, len(Hits._fields)), np.int64), *self._hits]).T
        return JudgedRun(
            self.judgements,
            self.tie_policy,
            Hits(*columns),
            self._retrieved,
            report,
            others=tuple(self._others),
        )

    def _check_documents(self, query: bytes, ranking: QueryLines) -> None:
        if len(set(ranking.docs)) < len(ranking.docs):
            first: dict[bytes, int] = {}
            for place, doc in zip(ranking.places, ranking.docs, strict=True):
                if doc in first:
                    message = (
                        f"document {quoted(doc)} stands twice in the ranking of {quoted(query)}"
                    )
                    self.findings.add("duplicate-document", place, message)
                first[doc] = place
        together = b"\n".join((b"", *ranking.docs, b""))
        for code in self.odd_doc_codes:
            pattern, hint, look = ODD_IDS[code]
            if hint not in together:
                continue
            for place, doc in zip(ranking.places, ranking.docs, strict=True):
                if pattern.fullmatch(doc):
                    message = f"document id {quoted(doc)} looks like {look}"
                    self.findings.add(code, place, message)
                    break

    def check_lone_ranks(
        self, queries: IdColumn, places: NDArray[np.int64], ranks: NDArray[np.int64]
    ) -> None:
        """Do what `check_ranks` does for queries of a single line each."""
        for code, odd in (("rank-zero-based", ranks == 0), ("rank-gap", ranks > 1)):
            rows = np.flatnonzero(odd)

            def message_of(index: int, code: str = code, rows: NDArray[np.int64] = rows) -> str:
                row = int(rows[index])
                message = _FROM_ZERO if code == "rank-zero-based" else _gap(int(ranks[row]), 1)
                return f"query {quoted(queries[row])}: {message}"

            self.findings.add_many(code, places[rows], message_of)

    def check_ranks(
        self,
        query: bytes,
        places: Sequence[int],
        scores: NDArray[np.float32],
        ranks: NDArray[np.int64],
    ) -> None:
        """Report each way in which the ranks of one query are odd, once, at its first line.

        Args:
            query: UTF-8 id.
            places: the place of each line.
            scores: finite, shape ``[lines]``.
            ranks: at least 0, shape ``[lines]``.
        """
        count = len(ranks)
        steps = np.diff(ranks)
        if (steps == 1).all() and ranks[0] == 1 and (scores[1:] <= scores[:-1]).all():
            return

        def report(code: str, line: np.intp | int, message: str) -> None:
            text = f"query {quoted(query)}: {message}"
            self.findings.add(code, places[int(line)], text)

        by_rank = np.argsort(ranks, kind="stable")
        in_order = ranks[by_rank]
        first = int(in_order[0])
        if first == 0:
            report("rank-zero-based", by_rank[0], _FROM_ZERO)
        repeats = by_rank[1:][in_order[1:] == in_order[:-1]]
        if len(repeats):
            line = repeats.min()
            report("rank-repeated", line, f"rank {ranks[line]} stands twice")
        else:
            gaps = np.flatnonzero(in_order != np.arange(count) + min(first, 1))
            if len(gaps):
                at = gaps[0]
                wanted = at + min(first, 1)
                report("rank-gap", by_rank[at], _gap(int(in_order[at]), int(wanted)))
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


def _looks_odd(code: str, query: bytes) -> str:
    return f"query id {quoted(query)} looks like {ODD_IDS[code][2]}"


def _gap(found: int, wanted: int) -> str:
    return f"rank {found} where {wanted} was expected"


def _hits(
    position: int, grades: Mapping[str, int], ranking: QueryLines, tie_policy: str
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield a row of `Hits` for each relevant document in a ranking without duplicates."""
    docs, scores = ranking.docs, ranking.scores
    retrieved = set(docs)
    for doc_id, gain in grades.items():
        doc = doc_id.encode()
        if gain < 1 or doc not in retrieved:
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
