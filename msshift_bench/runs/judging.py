"""Judging complete queries of a run: findings, and the places of relevant documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.compute import call_function

from msshift_bench.arrays import Ints
from msshift_bench.errors import MAX_FINDINGS, quoted
from msshift_bench.libraries import compute as pc
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.judged import (
    DIGESTS,
    FIRST_PLACES,
    Hits,
    JudgedRun,
    Judgements,
    QueryDocuments,
    RankingDigests,
    RunReport,
)
from msshift_bench.runs.lines import (
    ODD_IDS,
    Lines,
    SortedKeys,
    digests_of_rankings,
    flags,
    id_column,
    take,
    unusual_rows,
)

_MOST_EXTRA = 10_000
"""Largest number of ids of queries outside the test set to keep, for messages."""

_MOST_SAMPLED = 1_000_000
"""Largest number of document ids to keep while no relevant document is retrieved."""


class QueriesInterleavedError(Exception):
    """The lines of a query are interleaved; the reader starts again with grouped lines."""


QueryLines = tuple[Lines, Ints]
"""Lines of complete queries, and the first row of each query."""


def lines_by_query(parts: Iterable[Lines]) -> Iterator[QueryLines]:
    """Yield `QueryLines`, in the order of the lines.

    Consecutive lines of a query are in one item, even if they are in several parts.
    """
    held: list[Lines] = []  # the lines of the last query so far
    for part in parts:
        if not len(part.scores):
            continue
        if held and held[-1].queries[-1] != part.queries[0]:
            lines = Lines.joined(held)
            yield lines, lines.starts()
            held = []
        held.append(part)
        if len(held) > 1 and part.queries[0] != part.queries[-1]:
            lines = Lines.joined(held)
            starts = lines.starts()
            last = int(starts[-1])
            yield lines.cut(slice(0, last)), starts[:-1]
            held = [lines.cut(slice(last, None))]
    if held:
        lines = Lines.joined(held)
        yield lines, lines.starts()


def grouped(parts: Iterable[Lines]) -> Iterator[QueryLines]:
    """Yield all lines as one item, grouped by query in the order of the queries' first lines."""
    filled = [part for part in parts if len(part.scores)]
    if filled:
        lines = Lines.joined(filled)
        numbers = pc.dictionary_encode(lines.queries).indices
        order = np.argsort(np.frombuffer(numbers.buffers()[1], np.int32), kind="stable")
        lines = lines.take(order)
        yield lines, lines.starts()


Oddity = tuple[str, Ints, list[str]]
"""Code of findings, their places in ascending order, messages of the first `MAX_FINDINGS`."""


class JudgedQueries(NamedTuple):
    """Complete queries after judging.

    Attributes:
        queries: their ids in UTF-8.
        positions: their positions in `Judgements.query_ids`; -1 if not in it.
        hits: rows of `Hits`, shape ``[hits, 5]``.
        odd: findings about them.
        docs: the ids of their documents in UTF-8.
        digests: digests of their rankings, with rows only for those in the test set.
        kept: lines to keep, best first; `None` if the depth is 0.
        emptied: ids of further queries, with only excluded documents in the run.
        own_first: number of test queries whose first document by score has their id and is not
            relevant.
    """

    queries: list[bytes]
    positions: Ints
    hits: Ints
    odd: list[Oddity]
    docs: pa.BinaryArray
    digests: RankingDigests
    kept: Lines | None
    emptied: Sequence[bytes] = ()
    own_first: int = 0


class _Queries:
    """The lines of complete queries, each query in one piece.

    Attributes:
        lines: the lines in reading order.
        starts: the first row of each query, shape ``[queries]``.
        counts: the number of lines of each query.
        begins: whether a line is the first of its query, shape ``[lines]``.
        owner: index of each line's query, shape ``[lines]``.
        rises: whether a line has a higher score than the line before, in the same query.
        id_column: the queries' ids.
        ids: the queries' ids as a list.
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
        """Return the first of some ascending rows in each query that has any."""
        return rows if not len(rows) else rows[np.unique(self.owner[rows], return_index=True)[1]]

    def odd(self, code: str, rows: Ints, text: str, *columns: Sequence[object] | Ints) -> Oddity:
        """Return findings about some rows in reading order.

        Args:
            code: a key of `findings.CODES`.
            rows: the rows, in any order.
            text: a message with braces for the query's id and for a value of each column.
            columns: values for the message, in the order of `rows`.
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
    """Judges the queries of a run, and keeps the lines that measures need.

    Args:
        judgements: the test set; `None` checks the run without one.
        tie_policy: one of `TIE_POLICIES`.
        findings: the log of findings.
        depth: number of documents of each ranking to keep.
    """

    def __init__(
        self, judgements: Judgements | None, tie_policy: str, findings: RunFindings, depth: int = 0
    ) -> None:
        self.findings = findings
        self.queries = 0
        self.extra_queries = 0
        self._checks_queries = judgements is not None
        self._judgements = Judgements({}) if judgements is None else judgements
        self._tie_policy = tie_policy
        self._depth = depth
        self._seen: set[bytes] = set()
        self._extra: list[bytes] = []
        self._hits: list[Ints] = []
        self._docs: list[pa.BinaryArray] = []
        self._kept: list[Lines] = []
        self._emptied: list[int] = []
        self._own_first = 0
        self._digests = RankingDigests(
            np.zeros(4, np.uint64), np.zeros(len(self._judgements), DIGESTS)
        )
        self._odd_doc_codes = [
            code
            for code, rows in unusual_rows(self._judgements.relevant.doc).items()
            if not len(rows)
        ]

    def judge(self, query_lines: QueryLines) -> JudgedQueries:
        """Return complete queries after judging, not added; several threads may call it."""
        queries = _Queries(*query_lines)
        texts, positions = self._positions_of(queries)
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
        emptied: Sequence[bytes] = ()
        if (excluded := self._judgements.excluded) is not None:
            rows, *_ = _find_documents(excluded, positions, keys)
            by_score, of_all = _remove_rows(by_score, rows, queries.owner), queries.ids
            queries = _Queries(by_score, by_score.starts()[: len(by_score.scores)])
            emptied = list(dict.fromkeys(of_all).keys() - queries.ids)
            keys = SortedKeys(by_score.docs, queries.starts, queries.owner)
            _, positions = self._positions_of(queries)
        is_new = queries.begins.copy()  # whether a line is the first of its score in its query
        is_new[1:] |= by_score.scores[1:] != by_score.scores[:-1]
        hits = self._find_hits(by_score, queries.starts, positions, keys, is_new)
        own_first = self._count_own_first(queries, by_score, positions)
        known = np.flatnonzero(positions >= 0)
        return JudgedQueries(
            queries.ids,
            positions,
            hits,
            odd,
            by_score.docs,
            # numpy sums 32-bit numbers many times faster.
            self._digests_of(
                queries, by_score, known, keys.hashes, np.cumsum(is_new, dtype=np.int32)
            ),
            self._keep(queries, by_score, positions >= 0) if self._depth else None,
            emptied,
            own_first,
        )

    def _positions_of(self, queries: _Queries) -> tuple[list[str], Ints]:
        """Return the ids of queries as texts, and their positions in the test set, or -1."""
        texts = [query.decode(errors="surrogateescape") for query in queries.ids]
        index = self._judgements.index
        return texts, np.array([index.get(text, -1) for text in texts], np.int64)

    def _count_own_first(self, queries: _Queries, by_score: Lines, positions: Ints) -> int:
        """Count the test queries whose first document by score has their id and is not relevant.

        If it is relevant, the data set uses equal ids for queries and their passages.
        """
        first = take(by_score.docs, queries.starts)
        is_own = flags(call_function("equal", [first, queries.id_column])) & (positions >= 0)
        names = (queries.ids[row].decode() for row in np.flatnonzero(is_own).tolist())
        return sum(self._judgements.judged[name].get(name, 0) < 1 for name in names)

    def _digests_of(
        self,
        queries: _Queries,
        by_score: Lines,
        known: Ints,
        hashes: NDArray[np.uint64],
        levels: NDArray[np.int32],
    ) -> RankingDigests:
        """Return the digests of rankings, with rows for the queries that are `known`.

        Args:
            queries: the queries.
            by_score: their lines, scores never rising within a query.
            known: indices in `queries` of the queries that are in the test set.
            hashes: hashes of the lines' documents.
            levels: number of lines, up to each line, with a new score in their query.
        """
        starts, counts = queries.starts, queries.counts
        base = levels[starts]
        ties = counts - 1 - levels[starts + counts - 1] + base
        ranks = by_score.ranks if self._tie_policy == "rank" else None
        places = (levels, base) if ranks is None else (ranks, np.zeros_like(starts))
        rankings, sets = digests_of_rankings(queries.id_column, starts, hashes, *places)
        rows = np.zeros(len(known), DIGESTS)
        beyond = np.arange(FIRST_PLACES) >= counts[known, None]
        first = np.where(beyond, 0, starts[known, None] + np.arange(FIRST_PLACES))
        rows["ranking"], rows["lines"], rows["ties"], rows["docs"], rows["levels"] = (
            rankings[known],
            counts[known],
            ties[known],
            np.where(beyond, 0, hashes[first] >> np.uint64(32)),
            np.where(beyond, FIRST_PLACES, levels[first] - base[known, None]),
        )
        return RankingDigests(
            np.array([len(levels), ties.sum(), sets.sum(), rankings.sum()], np.uint64), rows
        )

    def _keep(self, queries: _Queries, by_score: Lines, known: NDArray[np.bool_]) -> Lines:
        """Return the lines of known queries, best first, down to the depth and its ties.

        Under the policy ``rank``, there are no ties.
        """
        last = (queries.starts + np.minimum(queries.counts, self._depth) - 1)[queries.owner]
        inside = by_score.scores >= by_score.scores[last]
        if self._tie_policy == "rank" and by_score.ranks is not None:
            by_score = by_score.take(np.lexsort((by_score.ranks, queries.owner)))
            inside = np.arange(len(last)) <= last
        return by_score.take(np.flatnonzero(inside & known[queries.owner]))._replace(
            ranks=None, places=np.zeros(0, np.int64)
        )

    def _odd_queries(
        self, queries: _Queries, positions: Ints, texts: Sequence[str]
    ) -> Iterator[Oddity]:
        """Yield findings about unjudged queries, and queries outside the test set."""
        extra = np.flatnonzero(positions < 0)
        judged = self._judgements.judged
        unjudged = [place for place, query in enumerate(texts) if judged.get(query) == {}]
        text = "query {} of the test set has no judgement"
        yield queries.odd("query-without-qrels", queries.starts[unjudged], text)
        if self._checks_queries:
            ignored_ids = self._judgements.ignored_ids
            unknown = [query for query in extra.tolist() if texts[query] not in ignored_ids]
            text = "query {} is not in the test set"
            yield queries.odd("unknown-query", queries.starts[unknown], text)
        for code, rows in unusual_rows(id_column([queries.ids[query] for query in extra])).items():
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
        """Return the relevant documents in complete queries, as rows of `Hits`.

        Args:
            lines: complete queries, scores never rising within one.
            starts: the first row of each query.
            positions: the queries' positions in the test set.
            keys: the keys of the lines' documents.
            is_new: whether a line is the first of its score in its query, ``[lines]``.
        """
        relevant = self._judgements.relevant
        rows, owner, wanted = _find_documents(relevant, positions, keys)
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
        return np.stack((relevant.query[wanted], relevant.gain[wanted], rank, above, tied), axis=1)

    def add(self, judged: JudgedQueries) -> None:
        """Add judged queries to the run; call it in reading order.

        Raises:
            QueriesInterleavedError: if a query was added before.
        """
        self.queries += len(judged.queries) + len(judged.emptied)
        self._seen.update(judged.queries, judged.emptied)
        if len(self._seen) < self.queries:
            raise QueriesInterleavedError
        positions = judged.positions[judged.positions >= 0]
        self._digests.totals[:] += judged.digests.totals
        self._digests.queries[positions] = judged.digests.queries
        if judged.kept is not None:
            self._kept.append(judged.kept)
        if len(judged.hits):
            self._hits.append(judged.hits)
            self._docs.clear()
        elif not self._hits and self._checks_queries and sum(map(len, self._docs)) < _MOST_SAMPLED:
            self._docs.append(judged.docs)
        for oddity in judged.odd:
            self.findings.add_many(*oddity)
        self._own_first += judged.own_first
        self._emptied += [self._judgements.index[query.decode()] for query in judged.emptied]
        extra = [judged.queries[row] for row in np.flatnonzero(judged.positions < 0).tolist()]
        self.extra_queries += len(extra)
        self._extra += extra[: _MOST_EXTRA - len(self._extra)]

    def finish(self, tag: str, digest: str) -> JudgedRun:
        """Return the judged run, from all queries so far.

        Args:
            tag: the run tag.
            digest: the digest of its files; "" for a run in memory.
        """
        columns = np.concatenate([np.empty((0, len(Hits._fields)), np.int64), *self._hits]).T
        report = RunReport(
            name=", ".join(self.findings.sources),
            digest=digest,
            tag=tag,
            ranking=f"{int(self._digests.totals[3]):016x}",
            lines=int(self._digests.totals[0]),
            queries=self.queries,
            extra_queries=self.extra_queries,
            warnings=self.findings.kept("warning"),
            warning_counts=self.findings.counts_of("warning"),
        )
        return JudgedRun(
            self._judgements,
            self._tie_policy,
            Hits(*columns),
            self._digests.queries["lines"].astype(np.int64),
            report,
            self._digests,
            self._depth,
            self._kept,
            self._extra,
            self._docs,
            self._emptied,
            self._own_first,
        )


def _find_documents(
    documents: QueryDocuments, positions: Ints, keys: SortedKeys
) -> tuple[Ints, Ints, Ints]:
    """Return the rows whose document is in `documents` for the same query.

    Args:
        documents: the relevant or the excluded documents of the test set's queries.
        positions: the position in the test set of each query of the lines; -1 if not in it.
        keys: the keys of the lines' documents.

    Returns:
        Each found document's row in the lines, its query's index in `positions`, and its row in
        `documents`.
    """
    known = np.flatnonzero(positions >= 0)
    counts = documents.counts[positions[known]]
    owner = np.repeat(known, counts)
    firsts = documents.starts[positions[known]] - (np.cumsum(counts) - counts)
    wanted = np.repeat(firsts, counts) + np.arange(len(owner))
    rows = keys.find(take(documents.doc, wanted), documents.hash[wanted], owner)
    found = rows >= 0
    return rows[found], owner[found], wanted[found]


def _remove_rows(lines: Lines, rows: Ints, owner: Ints) -> Lines:
    """Return lines without some rows; each removed row reduces worse ranks by 1.

    Args:
        lines: lines of complete queries.
        rows: the rows to leave out.
        owner: index of each line's query, ascending, ``[lines]``.
    """
    if lines.ranks is not None:
        ranks = lines.ranks.copy()
        for row in rows.tolist():
            of_query = slice(*np.searchsorted(owner, (owner[row], owner[row] + 1)))
            ranks[of_query] -= lines.ranks[of_query] > lines.ranks[row]
        lines = lines._replace(ranks=ranks)
    return lines.take(np.delete(np.arange(len(owner)), rows))


def _repeated_documents(queries: _Queries, suspects: Iterable[int]) -> Iterator[Oddity]:
    """Yield findings about documents repeated in rankings; `suspects` are indices of queries."""
    repeats: dict[int, str] = {}
    for query in suspects:
        start = int(queries.starts[query])
        ranking = queries.lines.docs[start : start + int(queries.counts[query])].to_pylist()
        seen: set[bytes] = set()
        for row, doc in enumerate(ranking, start):
            if doc in seen:
                repeats[row] = quoted(doc)
            seen.add(doc)
    yield queries.odd(
        "duplicate-document",
        np.array(list(repeats), np.int64),
        "document {1} is twice in the ranking of {0}",
        list(repeats.values()),
    )


def _odd_documents(queries: _Queries, codes: Sequence[str]) -> Iterator[Oddity]:
    """Yield findings about each query's first document id that matches a pattern of `ODD_IDS`."""
    for code, odd in unusual_rows(queries.lines.docs, codes).items():
        rows = queries.first_of_each(odd)
        docs = [quoted(queries.lines.docs[row].as_py()) for row in rows.tolist()]
        yield queries.odd(code, rows, f"document id {{1}} looks like {ODD_IDS[code][1]}", docs)


def _odd_ranks(queries: _Queries) -> Iterator[Oddity]:
    """Yield findings about ranks, each once for a query, at its first line with the problem."""
    ranks, begins, owner = queries.lines.ranks, queries.begins, queries.owner
    if ranks is None:
        return
    steps = np.diff(ranks, prepend=ranks[:1])
    odd_lines = ((steps != 1) & ~begins) | queries.rises
    if not (odd_lines.any() or np.any(ranks[queries.starts] != 1)):
        return
    # Rows of each query in the order of their ranks.
    by_rank = np.lexsort((ranks, owner))
    in_order = ranks[by_rank]
    start = queries.starts[owner]
    lowest = in_order[start]
    zero_based = by_rank[begins & (in_order == 0)]
    yield queries.odd("rank-zero-based", zero_based, "query {}: ranks begin at 0 instead of 1")

    is_new = begins.copy()
    is_new[1:] |= in_order[1:] != in_order[:-1]
    repeated = queries.first_of_each(np.sort(by_rank[~is_new]))
    yield queries.odd(
        "rank-repeated", repeated, "query {}: rank {} is there twice", ranks[repeated]
    )

    expected = np.arange(len(owner)) - start + np.minimum(lowest, 1)
    gaps = queries.first_of_each(
        np.flatnonzero((in_order != expected) & ~np.isin(owner, owner[repeated]))
    )
    text = "query {}: rank {} where {} was expected"
    yield queries.odd("rank-gap", by_rank[gaps], text, in_order[gaps], expected[gaps])

    falls = queries.first_of_each(np.flatnonzero(~begins & (steps < 0)))
    text = "query {}: rank {} comes after rank {}"
    yield queries.odd("rank-order", falls, text, ranks[falls], ranks[falls - 1])

    # Scores as whole numbers in the same order, lower for every later query, so that one running
    # minimum is enough for all queries.
    _, levels = np.unique(queries.lines.scores, return_inverse=True)
    levels = levels[by_rank] - owner * (len(ranks) + 1)
    better = np.maximum.accumulate(np.where(is_new, np.arange(len(owner)), 0)) - 1
    disagrees = (better >= start) & (levels > np.minimum.accumulate(levels)[better])
    wrong = queries.first_of_each(np.flatnonzero(disagrees))
    text = "query {}: the document at rank {} has a higher score than one ranked better"
    yield queries.odd("rank-score-disagree", by_rank[wrong], text, in_order[wrong])
