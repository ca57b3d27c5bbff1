"""Judging regular blocks of a run in columns; whatever is irregular is left to `run_lines`.

A block is regular if every line has its fields separated by single spaces or single tabs, every
query's lines stand together with ranks 1, 2, 3, ... and scores that never rise, and no document
stands twice in a query: almost every run file ever written. On such blocks nothing but the hits
must be found, and both readers give the same result; on all others this one gives none.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from msshift_bench.run_files import Block
from msshift_bench.run_judge import ODD_IDS, RunJudge

__all__ = [
    "ColumnJudge",
    "Columns",
    "JudgedBlock",
    "add_block",
    "group_by_query",
    "group_by_rank",
    "parse_block",
]

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
_WORD = 8
_FEW_LINES = 64
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


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
        run_format: a key of `run_lines.WIDTHS`.
    """
    text = block.text
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    names = _COLUMNS[run_format]
    gaps = np.frombuffer(text, np.uint8) <= _SPACE
    # As many gaps as fields, no two of them side by side, leave no field empty and no white space
    # unaccounted for. Arrow alone would also read ranks in hexadecimal.
    if (
        gaps[0]
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
    ranks = table["rank"].chunk(0).to_numpy()
    if run_format == "msmarco":
        scores = -ranks.astype(np.float32)
    else:
        with np.errstate(over="ignore"):
            scores = table["score"].chunk(0).to_numpy().astype(np.float32)
    return group_by_rank(table["query_id"].chunk(0), table["doc_id"].chunk(0), scores, ranks)


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
    return Columns(queries.take(pa.array(starts)).to_pylist(), starts, docs, scores)


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
        self._hashes = _Ids.of(pa.array(self._docs, pa.binary())).hashes()
        ends = np.cumsum(judge.judgements.relevant_counts).tolist()
        self._spans = dict(zip(relevant, itertools.pairwise([0, *ends]), strict=True))

    def judge(self, columns: Columns) -> JudgedBlock | None:
        """Find the hits; `None` if a document stands twice in a query or an id is odd."""
        starts, ids = columns.starts, _Ids.of(columns.docs)
        if not (all(columns.queries) and ids.lengths.all()):
            return None
        if any(ids.hold(code) for code in self._odd_doc_codes):
            return None
        lines = np.diff(starts, append=len(ids.lengths))
        keys = _SortedKeys(ids.hashes(), starts, lines)
        if keys.repeat:
            return None
        hits = self._hits(columns, keys)
        return JudgedBlock(columns.queries, starts.tolist(), lines.tolist(), hits)

    def _hits(self, columns: Columns, keys: _SortedKeys) -> list[_Hit]:
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


class _SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From its high bits to its low ones a number holds the query, as much of the document's hash as
    there is room for, and the row. Sorting numbers is several times faster than sorting rows by
    hash; what is lost of a hash only makes false candidates more likely, and those are looked at
    again.
    """

    def __init__(
        self, hashes: NDArray[np.uint64], starts: NDArray[np.int64], lines: NDArray[np.int64]
    ) -> None:
        self._row_bits = np.uint64(len(hashes).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        queries = np.repeat(np.arange(len(starts)), lines)
        self._keys = self._cut(hashes, queries) | np.arange(len(hashes), dtype=np.uint64)
        if len(hashes) < _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), (starts + lines).tolist(), strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The numbers without their rows."""
        high = queries.astype(np.uint64) << (np.uint64(64) - self._query_bits)
        low = hashes >> (self._query_bits + self._row_bits) << self._row_bits
        return high | low

    @property
    def repeat(self) -> bool:
        """Whether two documents of a query have the same hash, as equal ones do."""
        without_rows = self._keys >> self._row_bits
        return bool((without_rows[1:] == without_rows[:-1]).any())

    def find(self, hashes: NDArray[np.uint64], queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row that may hold each document of a query; -1 where surely none does."""
        wanted = self._cut(hashes, queries)
        at = np.searchsorted(self._keys, wanted)
        rows = self._keys[np.minimum(at, len(self._keys) - 1)] ^ wanted
        return np.where(rows >> self._row_bits == 0, rows.astype(np.int64), -1)


class _Ids(NamedTuple):
    """A column of ids as bytes and numbers.

    Attributes:
        text: all ids one after the other, and eight bytes of padding.
        starts: where each id begins, shape ``[ids]``.
        lengths: bytes of each id, shape ``[ids]``.
    """

    text: bytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.BinaryArray) -> _Ids:
        """Take apart a column without nulls."""
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, 4 * column.offset)
        text = bytes(memoryview(data)[offsets[0] : offsets[-1]]) if data else b""
        starts = (offsets[:-1] - offsets[0]).astype(np.int64)
        return cls(text + bytes(_WORD), starts, np.diff(offsets).astype(np.int64))

    def hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each id; ids of up to eight bytes without NUL never collide."""
        words: NDArray[np.uint64] = np.ndarray(
            len(self.text) - _WORD + 1, "<u8", self.text, strides=(1,)
        )
        hashes = _scramble(words[self.starts] & _FIRST_BYTES[np.minimum(self.lengths, _WORD)])
        rows = np.flatnonzero(self.lengths > _WORD)
        done = _WORD
        while len(rows):
            left = np.minimum(self.lengths[rows] - done, _WORD)
            more = words[self.starts[rows] + done] & _FIRST_BYTES[left]
            hashes[rows] = _scramble(hashes[rows] ^ more)
            done += _WORD
            rows = rows[self.lengths[rows] > done]
        return hashes

    def hold(self, code: str) -> bool:
        """Whether one of the ids looks as the finding `code` says."""
        text = np.frombuffer(self.text, np.uint8)
        if code == "id-leading-zeros":
            candidates = (text[self.starts] == ord("0")) & (self.lengths > 1)
        elif b"." not in self.text:
            return False
        else:
            before_last = self.starts + np.maximum(self.lengths - 2, 0)
            candidates = text[before_last] == ord(".")
        pattern = ODD_IDS[code][0]
        for row in np.flatnonzero(candidates).tolist():
            start = self.starts[row]
            if pattern.fullmatch(self.text, start, start + self.lengths[row]):
                return True
        return False


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed


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
