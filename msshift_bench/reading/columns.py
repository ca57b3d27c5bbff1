"""Judging regular blocks of a run in columns; whatever is irregular is left to `reading.lines`.

A block is regular if every line has its fields separated by single spaces or single tabs, every
query's lines stand together with ranks 1, 2, 3, ... and scores that never rise, and no document
stands twice in a query: almost every run file ever written. On such blocks nothing but the hits
must be found, and both readers give the same result; on all others this one gives none.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from msshift_bench.reading.files import UTF8_BOM, Block
from msshift_bench.reading.hashes import Ids, SortedKeys
from msshift_bench.reading.judge import RunJudge

__all__ = [
    "ColumnJudge",
    "Columns",
    "JudgedBlock",
    "add_block",
    "group_by_query",
    "group_by_rank",
    "parse_block",
]

_N = TypeVar("_N", np.int32, np.float64)
_Hit = tuple[int, int, int, int, int]

_COLUMNS = {
    "trec": ["query_id", "Q0", "doc_id", "rank", "score", "tag"],
    "msmarco": ["query_id", "doc_id", "rank"],
}
_TYPES = {
    "query_id": pa.binary(),
    "doc_id": pa.binary(),
    "rank": pa.int32(),
    "score": pa.float64(),
}
_SPACE = 0x20


class Columns(NamedTuple):
    """The lines of whole queries, grouped by query.

    Attributes:
        queries: one UTF-8 id per query.
        starts: index of each query's first line, shape ``[queries]``.
        docs: UTF-8 ids, one per line.
        scores: finite, never rising within a query, shape ``[lines]``.
    """

    queries: list[bytes]
    starts: NDArray[np.int64]
    docs: pa.BinaryArray
    scores: NDArray[np.float32]


class JudgedBlock(NamedTuple):
    """The queries of a regular block in reading order, and their hits.

    Attributes:
        queries: UTF-8 ids.
        starts: index of each query's first line in the block.
        lines: how many lines each query has.
        hits: rows of `judged.Hits`.
    """

    queries: list[bytes]
    starts: list[int]
    lines: list[int]
    hits: list[_Hit]


def parse_block(block: Block, run_format: str) -> Columns | None:
    """Parse the lines of whole queries; `None` if they are not regular.

    Args:
        block: complete lines without NUL bytes.
        run_format: a key of `reading.lines.WIDTHS`.
    """
    text = block.text
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    names = _COLUMNS[run_format]
    gaps = np.frombuffer(text, np.uint8) <= _SPACE
    # As many gaps as fields, no two of them side by side, leave no field empty and no white space
    # unaccounted for. Arrow alone would also read ranks in hexadecimal, and drop a byte order mark
    # at the beginning of any block.
    if (
        gaps[0]
        or text.startswith(UTF8_BOM)
        or np.count_nonzero(gaps) != block.lines * len(names)
        or (gaps[1:] & gaps[:-1]).any()
        or (b"x" in text and b"0x" in text)
        or (b"X" in text and b"0X" in text)
        or not _is_utf8(text)
    ):
        return None
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text),
            pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
            pa.csv.ParseOptions(
                delimiter="\t" if b"\t" in text[: text.index(b"\n")] else " ", quote_char=False
            ),
            pa.csv.ConvertOptions(
                check_utf8=False,
                column_types=_TYPES,
                null_values=[],
                include_columns=[name for name in names if name in _TYPES],
            ),
        ).combine_chunks()
    except pa.ArrowInvalid:
        return None
    ranks = _numbers(table["rank"].chunk(0), np.int32)
    if run_format == "msmarco":
        scores = -ranks.astype(np.float32)
    else:
        with np.errstate(over="ignore"):
            scores = _numbers(table["score"].chunk(0), np.float64).astype(np.float32)
    return group_by_rank(table["query_id"].chunk(0), table["doc_id"].chunk(0), scores, ranks)


def _numbers(column: pa.Array, dtype: type[_N]) -> NDArray[_N]:
    """A column without nulls. Arrow's own `to_numpy` takes 0.2 s to import pandas."""
    return np.frombuffer(column.buffers()[1], dtype, len(column))


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def group_by_rank(
    queries: pa.BinaryArray,
    docs: pa.BinaryArray,
    scores: NDArray[np.float32],
    ranks: NDArray[np.int32],
) -> Columns | None:
    """Group lines into queries wherever the rank is 1; `None` if that is not what the ids say.

    Args:
        queries: UTF-8 ids of at least one byte.
        docs: UTF-8 ids.
        scores: one per line.
        ranks: one per line.
    """
    first = ranks == 1
    counting = (ranks[1:] - ranks[:-1] == 1) | first[1:]
    if not (first[0] and counting.all() and _are_falling(scores, first)):
        return None
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(ranks))
    _, offset_buffer, data = queries.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(queries) + 1, 4 * queries.offset)
    widths = np.diff(offsets)
    if (widths != np.repeat(widths[starts], ends - starts)).any():
        return None
    text, previous, ids = memoryview(data), b"", []
    for line, end, begin, stop in zip(
        starts.tolist(),
        ends.tolist(),
        offsets[starts].tolist(),
        offsets[ends].tolist(),
        strict=True,
    ):
        lines = end - line
        query = bytes(text[begin : begin + (stop - begin) // lines])
        if query == previous or bytes(text[begin:stop]) != query * lines:
            return None
        ids.append(query)
        previous = query
    return Columns(ids, starts, docs, scores)


def group_by_query(
    queries: pa.BinaryArray,
    docs: pa.BinaryArray,
    scores: NDArray[np.float32],
    differs: NDArray[np.bool_],
) -> Columns | None:
    """Group lines without ranks into queries; `None` if scores rise or are not finite.

    Args:
        queries: UTF-8 ids.
        docs: UTF-8 ids.
        scores: one per line.
        differs: whether the query is not that of the line before, from the second line on.
    """
    first = np.concatenate(([True], differs))
    if not _are_falling(scores, first):
        return None
    starts = np.flatnonzero(first)
    return Columns([queries[start].as_py() for start in starts.tolist()], starts, docs, scores)


def _are_falling(scores: NDArray[np.float32], first: NDArray[np.bool_]) -> bool:
    """Whether scores are finite and rise nowhere but at the first line of a query."""
    falling = (scores[1:] <= scores[:-1]) | first[1:]
    return bool(falling.all() and np.isfinite(scores).all())


class ColumnJudge:
    """Finds the hits in columns; several threads may use one.

    Args:
        judge: the run's judge, of which the test set and the tie policy are taken.
    """

    def __init__(self, judge: RunJudge) -> None:
        self._tie_policy = judge.tie_policy
        self._odd_doc_codes = tuple(judge.odd_doc_codes)
        relevant = judge.judgements.relevant
        self._positions = [entry[0] for entry in relevant.values() for _ in entry[1]]
        self._docs = [doc for _, docs in relevant.values() for doc in docs]
        self._gains = [gain for _, docs in relevant.values() for gain in docs.values()]
        self._hashes = Ids.join(self._docs).hashes()
        ends = np.cumsum(judge.judgements.relevant_counts).tolist()
        self._spans = dict(zip(relevant, itertools.pairwise([0, *ends]), strict=True))

    def judge(self, columns: Columns) -> JudgedBlock | None:
        """Find the hits; `None` if a document stands twice in a query or an id is odd."""
        starts, ids = columns.starts, Ids.of(columns.docs)
        if not (all(columns.queries) and ids.lengths.all()):
            return None
        if any(ids.hold(code) for code in self._odd_doc_codes):
            return None
        lines = np.diff(starts, append=len(ids.lengths))
        keys = SortedKeys(ids.hashes(), starts, lines)
        if keys.repeat:
            return None
        hits = self._hits(columns, keys)
        return JudgedBlock(columns.queries, starts.tolist(), lines.tolist(), hits)

    def _hits(self, columns: Columns, keys: SortedKeys) -> list[_Hit]:
        """Find where the relevant documents of a block's queries stand."""
        wanted: list[int] = []
        numbers: list[int] = []
        for number, query in enumerate(columns.queries):
            first, last = self._spans.get(query, (0, 0))
            wanted.extend(range(first, last))
            numbers.extend([number] * (last - first))
        owner = np.array(numbers, dtype=np.int64)
        rows = keys.find(self._hashes[wanted], owner)
        found = np.flatnonzero(rows >= 0)
        rows, owner = rows[found], owner[found]
        begin, end = _ties(columns.scores, columns.starts, rows)
        start = columns.starts[owner]
        hits = []
        for index, row, first, tie, stop in zip(
            found.tolist(), rows.tolist(), start.tolist(), begin.tolist(), end.tolist(), strict=True
        ):
            pair = wanted[index]
            doc = self._docs[pair]
            if columns.docs[row].as_py() != doc:
                continue
            rank, above, tied = row - first + 1, tie - first, stop - tie
            if self._tie_policy == "rank":
                above, tied = rank - 1, 1
            elif tied > 1:
                others = columns.docs[tie:stop].to_pylist()
                if self._tie_policy == "doc-id-ascending":
                    rank = above + 1 + sum(other < doc for other in others)
                else:
                    rank = above + 1 + sum(other > doc for other in others)
            hits.append((self._positions[pair], self._gains[pair], rank, above, tied))
        return hits


def _ties(
    scores: NDArray[np.float32], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row of each given row's tie, and the row after its last one."""
    new = np.empty(len(scores) + 1, dtype=np.bool_)
    np.not_equal(scores[1:], scores[:-1], out=new[1:-1])
    new[starts] = True
    new[-1] = True
    bounds = np.flatnonzero(new)
    after = np.searchsorted(bounds, rows, side="right")
    return bounds[after - 1], bounds[after]


def add_block(block: JudgedBlock, place: int, judge: RunJudge) -> None:
    """Hand a judged block to the run's judge.

    Args:
        block: the block.
        place: the place of its first line.
        judge: the run's judge.

    Raises:
        QueriesInterleavedError: if one of its queries was judged before.
    """
    for query, start, lines in zip(block.queries, block.starts, block.lines, strict=True):
        judge.begin(query, lines, place + start)
    judge.add_hits(block.hits)
