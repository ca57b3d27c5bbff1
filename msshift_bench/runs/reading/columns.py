"""Judging sound blocks of a run in columns; `reading.lines` handles malformed blocks.

A block is sound if every line has its fields separated by single spaces or single tabs, ids that
look like ids, a rank and a finite score, and no query has a document twice: almost every run file
is. On such blocks both readers give the same result. On all others this one gives none, so that the
other can say which line is wrong, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.plumbing import MAX_LINE_BYTES, UTF8_BOM, slices
from msshift_bench.runs.hashes import IdColumn, SortedKeys
from msshift_bench.runs.reading.judge import RunJudge
from msshift_bench.runs.reading.query_blocks import QueryBlock

__all__ = [
    "ColumnJudge",
    "Columns",
    "JudgedBlock",
    "add_block",
    "group_lines",
    "parse_block",
]

_N = TypeVar("_N", np.int32, np.float64)

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
_SCANNED_BYTES = 1 << 17
"""Bytes of text looked at together; new memory for all of a block costs more than to look at it."""


class Columns(NamedTuple):
    """The lines of whole queries, grouped by query, scores never rising within one.

    Attributes:
        queries: one UTF-8 id per query.
        starts: index of each query's first line, shape ``[queries]``.
        docs: UTF-8 ids, one per line.
        scores: finite, shape ``[lines]``.
        ranks: the file's ranks, at least 0, in the order of the lines above; `None` if they are
            1, 2, 3, ... in every query, or if there are none.
        odd: indices of the queries whose ranks need a check.
        read: scores and ranks of the lines in reading order, if a query is odd.
    """

    queries: pa.BinaryArray
    starts: NDArray[np.int64]
    docs: pa.BinaryArray
    scores: NDArray[np.float32]
    ranks: NDArray[Any] | None
    odd: NDArray[np.int64]
    read: tuple[NDArray[np.float32], NDArray[Any]] | None


class JudgedBlock(NamedTuple):
    """The queries of a sound block in reading order, and their hits.

    Attributes:
        columns: the block.
        queries: the ids of its queries.
        hashes: hashes of these ids, shape ``[queries]``.
        known: indices of the queries that are in the test set.
        positions: the positions of these queries in the test set.
        hits: rows of `Hits`, shape ``[hits, 5]``.
    """

    columns: Columns
    queries: IdColumn
    hashes: NDArray[np.uint64]
    known: Ints
    positions: Ints
    hits: Ints


class _Part(NamedTuple):
    """Some lines: `heads` are the query ids of those lines that `begins` marks."""

    heads: pa.BinaryArray
    begins: NDArray[np.bool_]
    last: bytes
    docs: pa.BinaryArray
    scores: NDArray[np.float32]
    ranks: NDArray[Any] | None


def parse_block(block: QueryBlock, run_format: str) -> Columns | None:
    """Parse the lines of whole queries; `None` if they are not sound.

    Args:
        block: complete lines without NUL bytes.
        run_format: a key of `reading.lines.WIDTHS`.
    """
    parts: list[_Part] = []
    for text in block.parts:
        part = _parse_part(text, run_format)
        if part is None:
            return None
        if parts and part.heads[0].as_py() == parts[-1].last:
            part.begins[0] = False
            part = part._replace(heads=part.heads[1:])
        parts.append(part)
    return _group(parts)


def group_lines(
    queries: pa.BinaryArray,
    docs: pa.BinaryArray,
    scores: NDArray[np.float32],
    ranks: NDArray[Any] | None,
) -> Columns | None:
    """Group lines into queries; `None` if a rank is negative or a score is not finite.

    Args:
        queries: UTF-8 ids, one per line.
        docs: UTF-8 ids.
        scores: one per line.
        ranks: one per line, or `None`.
    """
    return _group([_part(queries, docs, scores, ranks)])


def _part(
    queries: pa.BinaryArray,
    docs: pa.BinaryArray,
    scores: NDArray[np.float32],
    ranks: NDArray[Any] | None,
) -> _Part:
    differs = pc.not_equal(queries[1:], queries[:-1])
    bits = np.frombuffer(differs.buffers()[1] or b"", np.uint8)
    stop = differs.offset + len(differs)
    flags = np.unpackbits(bits, count=stop, bitorder="little")[differs.offset :]
    begins = np.concatenate(([True], flags.view(np.bool_)))
    heads = _take(queries, np.flatnonzero(begins))
    return _Part(heads, begins, queries[-1].as_py(), docs, scores, ranks)


def _parse_part(text: bytes, run_format: str) -> _Part | None:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        # Arrow ends a line at any carriage return.
        if b"\r" in text:
            return None
    names = _COLUMNS[run_format]
    gaps = _count_gaps(text)
    # Arrow alone would also read ranks in hexadecimal, and drop a byte order mark at the beginning
    # of any block.
    if (
        not gaps
        or text.startswith(UTF8_BOM)
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
    # If there are as many gaps as fields, and no two side by side, no field is empty and there is
    # no other white space.
    if table.num_rows * len(names) != gaps:
        return None
    ranks = _numbers(table["rank"].chunk(0), np.int32)
    if run_format == "msmarco":
        scores = -ranks.astype(np.float32)
    else:
        with np.errstate(over="ignore"):
            scores = _numbers(table["score"].chunk(0), np.float64).astype(np.float32)
    return _part(table["query_id"].chunk(0), table["doc_id"].chunk(0), scores, ranks)


def _count_gaps(text: bytes) -> int:
    """Return how many bytes are white space; 0 if two are side by side, or one is the first."""
    whole = np.frombuffer(text, np.uint8)
    gaps = np.empty(_SCANNED_BYTES + 1, np.bool_)
    both = np.empty(_SCANNED_BYTES, np.bool_)
    gaps[0] = True
    total = 0
    for piece in slices(len(whole), _SCANNED_BYTES):
        part = whole[piece]
        here, before = gaps[1 : len(part) + 1], gaps[: len(part)]
        np.less_equal(part, _SPACE, out=here)
        if np.logical_and(here, before, out=both[: len(part)]).any():
            return 0
        total += int(np.count_nonzero(here))
        gaps[0] = here[-1]
    return total


def _group(parts: list[_Part]) -> Columns | None:
    begins = _joined([part.begins for part in parts])
    scores = _joined([part.scores for part in parts])
    ranks = None if parts[0].ranks is None else _joined([p.ranks for p in parts])
    if not np.isfinite(scores).all() or (ranks is not None and ranks.min() < 0):
        return None
    try:
        queries = pa.concat_arrays([part.heads for part in parts])
        docs = parts[0].docs if len(parts) == 1 else pa.concat_arrays([p.docs for p in parts])
    except pa.ArrowInvalid:  # more bytes than 32-bit offsets reach
        return None
    starts = np.flatnonzero(begins)
    rises = (scores[1:] > scores[:-1]) & ~begins[1:]
    odd_lines = np.concatenate(([False], rises))
    if ranks is not None:
        odd_lines |= begins & (ranks != 1)
        odd_lines[1:] |= ~begins[1:] & (ranks[1:] - ranks[:-1] != 1)
    odd = np.flatnonzero(odd_lines)
    if not len(odd):
        return Columns(queries, starts, docs, scores, None, odd, None)
    odd = np.unique(np.searchsorted(starts, odd, side="right") - 1)
    read = None if ranks is None else (scores, ranks)
    if rises.any():
        order = np.lexsort((-scores, np.cumsum(begins)))
        docs, scores = _take(docs, order), scores[order]
        ranks = None if ranks is None else ranks[order]
    return Columns(queries, starts, docs, scores, ranks, odd, read)


def _joined(arrays: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    given = [array for array in arrays if array is not None]
    return given[0] if len(given) == 1 else np.concatenate(given)


def _take(column: pa.BinaryArray, rows: NDArray[np.int64]) -> pa.BinaryArray:
    """Return some rows of a column; Arrow's own method first checks whether `rows` is pandas'."""
    return column.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


def _numbers(column: pa.Array, dtype: type[_N]) -> NDArray[_N]:
    """Return a column without nulls; Arrow's own `to_numpy` takes 0.2 s to import pandas."""
    return np.frombuffer(column.buffers()[1], dtype, len(column))


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class ColumnJudge:
    """Finds the hits in columns; several threads may use one.

    Args:
        judge: the run's judge, which has the test set and the tie policy.
    """

    def __init__(self, judge: RunJudge) -> None:
        self._tie_policy = judge.tie_policy
        self._odd_doc_codes = tuple(judge.odd_doc_codes)
        self._judgements = judge.judgements

    def judge(self, columns: Columns) -> JudgedBlock | None:
        """Find the hits; `None` if a document stands twice in a query or an id is odd."""
        starts, ids, queries = (
            columns.starts,
            IdColumn.of(columns.docs),
            IdColumn.of(columns.queries),
        )
        for column in (queries, ids):
            if not column.lengths.all() or column.lengths.max() > MAX_LINE_BYTES:
                return None
        if any(True for code in self._odd_doc_codes for _ in ids.odd(code)):
            return None
        lines = np.diff(starts, append=len(ids.lengths))
        keys = SortedKeys(ids, starts, lines)
        if keys.repeat:
            return None
        hashes = queries.hashes()
        known, positions = self._known(queries, hashes)
        hits = self._hits(columns, known, positions, keys)
        return JudgedBlock(columns, queries, hashes, known, positions, hits)

    def _known(self, queries: IdColumn, hashes: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Return the indices of the queries that are in the test set, and their positions in it."""
        positions = self._judgements.positions(queries, hashes)
        known = np.flatnonzero(positions >= 0)
        return known, positions[known]

    def _hits(self, columns: Columns, known: Ints, positions: Ints, keys: SortedKeys) -> Ints:
        """Find the places of the relevant documents of a block's queries, as rows of `Hits`."""
        relevant, counts = self._judgements.relevant, self._judgements.relevant_counts[positions]
        owner = np.repeat(known, counts)
        firsts = relevant.starts[positions] - (np.cumsum(counts) - counts)
        wanted = np.repeat(firsts, counts) + np.arange(len(owner))
        rows = keys.find(relevant.doc.take(wanted), relevant.hash[wanted], owner)
        retrieved = rows >= 0
        rows, owner, wanted = rows[retrieved], owner[retrieved], wanted[retrieved]
        begin, end = _ties(columns.scores, columns.starts, rows)
        start = columns.starts[owner]
        rank, above, tied = rows - start + 1, begin - start, end - begin
        if self._tie_policy == "rank":
            if columns.ranks is not None:
                rank = columns.ranks[rows]
            above, tied = rank - 1, np.ones_like(tied)
        ascending = self._tie_policy == "doc-id-ascending"
        for index in np.flatnonzero(tied > 1).tolist():
            doc = relevant.doc[wanted[index]]
            others = columns.docs[begin[index] : end[index]].to_pylist()
            first = sum(other < doc if ascending else other > doc for other in others)
            rank[index] = above[index] + 1 + first
        gain = relevant.gain[wanted]
        return np.stack((relevant.query[wanted], gain, rank, above, tied), axis=1)


def _ties(
    scores: NDArray[np.float32], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each given row's tie, and the row after its last one."""
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
    columns = block.columns
    judge.register(block.hashes)
    starts = columns.starts
    lines = np.diff(starts, append=len(columns.scores))
    judge.add_columns(block.queries, place + starts, lines, block.known, block.positions)
    if columns.read is not None:
        _check_odd(block, lines, place, judge)
    judge.add_hits(block.hits)


def _check_odd(block: JudgedBlock, lines: NDArray[np.int64], place: int, judge: RunJudge) -> None:
    """Report odd ranks of a block's queries."""
    starts, odd, read = block.columns.starts, block.columns.odd, block.columns.read
    assert read is not None
    scores, ranks = read
    lone = odd[lines[odd] == 1]
    judge.check_lone_ranks(block.queries.take(lone), place + starts[lone], ranks[starts[lone]])
    for query in odd[lines[odd] > 1].tolist():
        start = int(starts[query])
        stop = start + int(lines[query])
        places = range(place + start, place + stop)
        judge.check_ranks(block.queries[query], places, scores[start:stop], ranks[start:stop])
