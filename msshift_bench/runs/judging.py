"""Judging whole queries of a run: what is odd about them, and the places of relevant documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import MAX_FINDINGS, quoted
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.judged import Hits, JudgedRun, Judgements, QueryRanking, RunReport
from msshift_bench.runs.lines import (
    ODD_IDS,
    Lines,
    SortedKeys,
    digest_of_rankings,
    id_column,
    odd_rows,
    take,
)

_MOST_EXTRA = 10_000
"""Most ids of queries outside the test set to keep, for a message that says whose they are."""


class QueriesInterleavedError(Exception):
    """A query came back after another one; the reader starts again with the lines grouped."""


QueryLines = tuple[Lines, Ints]
"""Lines of whole queries, and the row that each query begins in."""


def whole_queries(parts: Iterable[Lines]) -> Iterator[QueryLines]:
    """Cut lines anew, so that no query lies in two neighbouring parts."""
    held: list[Lines] = []  # from the first line of a query on
    for part in parts:
        if not len(part.scores):
            continue
        held.append(part)
        if held[0].queries[0] != part.queries[-1]:
            lines = Lines.joined(held)
            starts = lines.starts()
            last = int(starts[-1])
            yield lines.cut(slice(0, last)), starts[:-1]
            held = [lines.cut(slice(last, None))]
    if held:
        lines = Lines.joined(held)
        yield lines, lines.starts()


def grouped(parts: Iterable[Lines]) -> Iterator[QueryLines]:
    """Put the lines of each query together, in the order in which the queries came."""
    filled = [part for part in parts if len(part.scores)]
    if filled:
        lines = Lines.joined(filled)
        numbers = pc.dictionary_encode(lines.queries).indices
        order = np.argsort(np.frombuffer(numbers.buffers()[1], np.int32), kind="stable")
        lines = lines.take(order)
        yield lines, lines.starts()


Oddity = tuple[str, Ints, list[str]]
"""Findings of one code: it, their places, ascending, and messages of the first `MAX_FINDINGS`."""


class JudgedQueries(NamedTuple):
    """Whole queries, judged.

    Attributes:
        queries: their ids in UTF-8.
        positions: their positions in the test set; -1 for those that are not in it.
        counts: how many lines each has.
        hits: rows of `Hits`, shape ``[hits, 5]``.
        odd: what is odd about them.
        digest: that of their rankings, see `digest_of_rankings`.
    """

    queries: list[bytes]
    positions: Ints
    counts: Ints
    hits: Ints
    odd: list[Oddity]
    digest: int


class _Queries:
    """The lines of whole queries, each query in one piece.

    Attributes:
        lines: the lines in reading order.
        starts: the row that each query begins in, shape ``[queries]``.
        counts: how many lines each has.
        begins: whether a line is the first of its query, shape ``[lines]``.
        owner: the query that each line belongs to, shape ``[lines]``.
        rises: whether a line has a higher score than the one before it in its query's ranking.
        id_column: the queries' ids.
        ids: the same as a list.
    """

    def __init__(self, lines: Lines, starts: Ints) -> None:
        self.lines = lines
        self.starts = starts
        self.counts = np.diff(self.starts, append=len(lines.scores))
        self.begins = np.zeros(len(lines.scores), np.bool_)
        self.begins[self.starts] = True
        self.owner = np.repeat(np.arange(len(self.starts)), self.counts)
        self.rises = np.zeros(len(lines.scores), np.bool_)
        self.rises[1:] = (lines.scores[1:] > lines.scores[:-1]) & ~self.begins[1:]
        self.id_column = take(lines.queries, self.starts)
        self.ids: list[bytes] = self.id_column.to_pylist()

    def first_of_each(self, rows: Ints) -> Ints:
        """The first row, among some in ascending order, of each query that has one."""
        return rows[np.unique(self.owner[rows], return_index=True)[1]]

    def odd(self, code: str, rows: Ints, text: str, *columns: Sequence[object] | Ints) -> Oddity:
        """Describe odd rows.

        Args:
            code: a key of `findings.CODES`.
            rows: the rows, in any order.
            text: a message with braces: first for the query's id, then for a value of each column.
            columns: a value for each of the rows.
        """
        if not len(rows):  # almost always
            return code, rows, []
        order = np.argsort(self.lines.places[rows], kind="stable")
        messages = [
            text.format(quoted(self.ids[self.owner[rows[at]]]), *(values[at] for values in columns))
            for at in order[:MAX_FINDINGS].tolist()
        ]
        return code, self.lines.places[rows][order], messages


class RunJudge:
    """Judges the queries of a run and keeps what measures need.

    Args:
        judgements: the test set; `None` checks the run without one.
        tie_policy: one of `TIE_POLICIES`.
        findings: where findings go.
    """

    def __init__(
        self, judgements: Judgements | None, tie_policy: str, findings: RunFindings
    ) -> None:
        self.findings = findings
        self.queries = 0
        self.lines = 0
        self.extra_queries = 0
        self.digest = 0
        self._checks_queries = judgements is not None
        self._judgements = Judgements({}) if judgements is None else judgements
        self._tie_policy = tie_policy
        self._seen: set[bytes] = set()
        self._extra: list[bytes] = []
        self._hits: list[Ints] = []
        self._retrieved = np.zeros(len(self._judgements), np.int64)
        odd = odd_rows(self._judgements.relevant.doc)
        self._odd_doc_codes = [code for code, rows in odd.items() if not len(rows)]

    def judge(self, query_lines: QueryLines) -> JudgedQueries:
        """Judge the lines of whole queries; several threads may do so at once."""
        queries = _Queries(*query_lines)
        texts = [query.decode(errors="surrogateescape") for query in queries.ids]
        index = self._judgements.index
        positions = np.array([index.get(text, -1) for text in texts], np.int64)
        odd = [
            *self._odd_queries(queries, positions, texts),
            *_odd_ranks(queries),
            *_odd_documents(queries, self._odd_doc_codes),
        ]
        by_score = queries.lines
        if queries.rises.any():
            by_score = by_score.take(np.lexsort((-by_score.scores, queries.owner)))
        keys = SortedKeys(by_score.docs, queries.starts, queries.owner)
        odd += _repeated_documents(queries, keys.with_repeats())
        is_new = queries.begins.copy()  # whether a line is the first of its score in its query
        is_new[1:] |= by_score.scores[1:] != by_score.scores[:-1]
        hits = self._find_hits(by_score, queries.starts, positions, keys, is_new)
        places = by_score.ranks
        if self._tie_policy != "rank":
            # With 32 bits, whose sums numpy makes many times faster.
            ties = np.cumsum(is_new, dtype=np.int32)
            places = ties - ties[queries.starts][queries.owner]
        assert places is not None
        digest = digest_of_rankings(queries.id_column, queries.starts, keys.hashes, places)
        return JudgedQueries(queries.ids, positions, queries.counts, hits, odd, digest)

    def _odd_queries(
        self, queries: _Queries, positions: Ints, texts: Sequence[str]
    ) -> Iterator[Oddity]:
        """Yield findings about queries without a judgement, and those not in the test set."""
        extra = np.flatnonzero(positions < 0)
        judged = self._judgements.judged
        unjudged = [place for place, query in enumerate(texts) if judged.get(query) == {}]
        text = "query {} of the test set has no judgement"
        yield queries.odd("query-without-qrels", queries.starts[unjudged], text)
        if self._checks_queries:
            elsewhere = self._judgements.elsewhere
            unknown = [query for query in extra.tolist() if texts[query] not in elsewhere]
            text = "query {} is not in the test set"
            yield queries.odd("unknown-query", queries.starts[unknown], text)
        for code, rows in odd_rows(id_column([queries.ids[query] for query in extra])).items():
            text = f"query id {{}} looks like {ODD_IDS[code][1]}"
            yield queries.odd(code, queries.starts[extra[rows]], text)

    def _find_hits(
        self,
        lines: Lines,
        starts: Ints,
        positions: Ints,
        keys: SortedKeys,
        is_new: NDArray[np.bool_],
    ) -> Ints:
        """Find the places of relevant documents, as rows of `Hits`.

        Args:
            lines: whole queries, scores never rising within one.
            starts: the row that each query begins in.
            positions: the queries' positions in the test set.
            keys: those of the lines' documents.
            is_new: whether a line is the first of its score in its query, ``[lines]``.
        """
        known = np.flatnonzero(positions >= 0)
        relevant = self._judgements.relevant
        counts = relevant.counts[positions[known]]
        owner = np.repeat(known, counts)
        firsts = relevant.starts[positions[known]] - (np.cumsum(counts) - counts)
        wanted = np.repeat(firsts, counts) + np.arange(len(owner))
        rows = keys.find(take(relevant.doc, wanted), relevant.hash[wanted], owner)
        retrieved = rows >= 0
        rows, owner, wanted = rows[retrieved], owner[retrieved], wanted[retrieved]
        bounds = np.append(np.flatnonzero(is_new), len(lines.scores))
        after = np.searchsorted(bounds, rows, side="right")
        begin, end = bounds[after - 1], bounds[after]
        start = starts[owner]
        rank, above, tied = rows - start + 1, begin - start, end - begin
        if self._tie_policy == "rank":
            assert lines.ranks is not None
            rank = lines.ranks[rows].astype(np.int64)
            above, tied = rank - 1, np.ones_like(tied)
        ascending = self._tie_policy == "doc-id-ascending"
        for hit in np.flatnonzero(tied > 1).tolist():
            doc = relevant.doc[wanted[hit]].as_py()
            peers = lines.docs[begin[hit] : end[hit]].to_pylist()
            before = sum(peer < doc if ascending else peer > doc for peer in peers)
            rank[hit] = above[hit] + 1 + before
        gain = relevant.gain[wanted]
        return np.stack((relevant.query[wanted], gain, rank, above, tied), axis=1)

    def add(self, judged: JudgedQueries) -> None:
        """Add queries that were judged.

        Raises:
            QueriesInterleavedError: if one of them was added before.
        """
        self.queries += len(judged.queries)
        self._seen.update(judged.queries)
        if len(self._seen) < self.queries:
            raise QueriesInterleavedError
        self.lines += int(judged.counts.sum())
        self.digest += judged.digest
        self._hits.append(judged.hits)
        known = np.flatnonzero(judged.positions >= 0)
        positions = judged.positions[known]
        self._retrieved[positions] = judged.counts[known]
        for oddity in judged.odd:
            self.findings.add_many(*oddity)
        extra = [judged.queries[row] for row in np.flatnonzero(judged.positions < 0).tolist()]
        self.extra_queries += len(extra)
        self._extra += extra[: _MOST_EXTRA - len(self._extra)]

    def finish(
        self, tag: str, digest: str, reread: Callable[[], Sequence[QueryRanking]] | None
    ) -> JudgedRun:
        """Return everything judged so far as columns, with what else is known of the run.

        Args:
            tag: the run tag.
            digest: that of its files.
            reread: see `JudgedRun`.
        """
        columns = np.concatenate([np.empty((0, len(Hits._fields)), np.int64), *self._hits]).T
        report = RunReport(
            name=", ".join(self.findings.sources),
            digest=digest,
            tag=tag,
            ranking=f"{self.digest % (1 << 64):016x}",
            lines=self.lines,
            queries=self.queries,
            extra_queries=self.extra_queries,
            warnings=self.findings.kept("warning"),
            warning_counts=self.findings.counts_of("warning"),
        )
        return JudgedRun(
            self._judgements,
            self._tie_policy,
            Hits(*columns),
            self._retrieved,
            report,
            reread,
            tuple(self._extra),
        )


def _repeated_documents(queries: _Queries, suspects: Iterable[int]) -> Iterator[Oddity]:
    """Yield each document that stands in a ranking again.

    Args:
        queries: the queries.
        suspects: those that may have such a document.
    """
    repeats: dict[int, str] = {}
    for query in suspects:
        start = int(queries.starts[query])
        ranking = queries.lines.docs[start : start + int(queries.counts[query])].to_pylist()
        seen: set[bytes] = set()
        for row, doc in enumerate(ranking, start):
            if doc in seen:
                repeats[row] = quoted(doc)
            seen.add(doc)
    text = "document {1} stands twice in the ranking of {0}"
    rows = np.array(list(repeats), np.int64)
    yield queries.odd("duplicate-document", rows, text, list(repeats.values()))


def _odd_documents(queries: _Queries, codes: Sequence[str]) -> Iterator[Oddity]:
    """Yield the first document of each query whose id shows a sign of `ODD_IDS`."""
    for code, odd in odd_rows(queries.lines.docs, codes).items():
        rows = queries.first_of_each(odd)
        docs = [quoted(queries.lines.docs[row].as_py()) for row in rows.tolist()]
        text = f"document id {{1}} looks like {ODD_IDS[code][1]}"
        yield queries.odd(code, rows, text, docs)


def _odd_ranks(queries: _Queries) -> Iterator[Oddity]:
    """Yield each way in which the ranks of a query are odd, once for a query, at its first line."""
    ranks, begins, owner = queries.lines.ranks, queries.begins, queries.owner
    if ranks is None:
        return
    steps = np.ones(len(ranks), np.int64)
    steps[1:] = ranks[1:] - ranks[:-1]
    odd_lines = np.where(begins, ranks != 1, steps != 1) | queries.rises
    if not odd_lines.any():
        return
    # Rows in the order of their ranks, a query after the other. What is computed for the rows in
    # that order has names that say so.
    by_rank = np.lexsort((ranks, owner))
    in_order = ranks[by_rank]
    start = queries.starts[owner]
    lowest = in_order[start]
    zero_based = by_rank[begins & (in_order == 0)]
    yield queries.odd("rank-zero-based", zero_based, "query {}: ranks begin at 0 instead of 1")

    is_new = begins.copy()
    is_new[1:] |= in_order[1:] != in_order[:-1]
    repeated = queries.first_of_each(np.sort(by_rank[~is_new]))
    yield queries.odd("rank-repeated", repeated, "query {}: rank {} stands twice", ranks[repeated])

    expected = np.arange(len(owner)) - start + np.minimum(lowest, 1)
    gaps = queries.first_of_each(
        np.flatnonzero((in_order != expected) & ~np.isin(owner, owner[repeated]))
    )
    text = "query {}: rank {} where {} was expected"
    yield queries.odd("rank-gap", by_rank[gaps], text, in_order[gaps], expected[gaps])

    falls = queries.first_of_each(np.flatnonzero(~begins & (steps < 0)))
    text = "query {}: rank {} comes after rank {}"
    yield queries.odd("rank-order", falls, text, ranks[falls], ranks[falls - 1])

    # Scores as whole numbers that order as they do, and lie lower for every later query, so that
    # one running minimum serves all queries.
    _, levels = np.unique(queries.lines.scores, return_inverse=True)
    levels = levels[by_rank] - owner * (len(ranks) + 1)
    lowest_so_far = np.minimum.accumulate(levels)
    better = np.maximum.accumulate(np.where(is_new, np.arange(len(owner)), 0)) - 1
    disagrees = (better >= start) & (levels > lowest_so_far[better])
    wrong = queries.first_of_each(np.flatnonzero(disagrees))
    text = "query {}: the document at rank {} has a higher score than one ranked better"
    yield queries.odd("rank-score-disagree", by_rank[wrong], text, in_order[wrong])
