"""The lines of a run as columns, ids by their hashes, and reading lines from text.

`parse_fast` reads regular text, as almost every run is, with Arrow's parser of CSV. What it
declines goes to `parse_each`, which reads line by line, and says what is wrong where; on what both
can read, they agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import quoted
from msshift_bench.plumbing import MAX_LINE_BYTES, UTF8_BOM, decimal_number, rank_number, slices
from msshift_bench.runs.findings import RunFindings

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), "an integer turned into a decimal number"),
}
"""Code -> a sign that ids have passed through a table of numbers: a pattern, and words for the
message."""

Offsets = NDArray[np.int32]

_WORD = 8
_HASHED = 256
"""Bytes of an id that its hash takes: ids that begin alike are compared, as all of one hash are."""

_FEW_LINES = 64
"""With fewer lines per query one large sort takes less time than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


def id_column(ids: Sequence[bytes]) -> pa.BinaryArray:
    """Make a column of ids; `pa.array` first imports pandas, to see whether they are its own."""
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(ids))]
    return pa.Array.from_buffers(pa.binary(), len(ids), buffers)


def take(column: pa.BinaryArray, rows: Ints) -> pa.BinaryArray:
    """Return some rows of a column; Arrow's own method first checks whether `rows` is pandas'."""
    return column.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


def flags(column: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return a computed column of truth values; Arrow's `to_numpy` takes 0.2 s to import pandas."""
    bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    return np.unpackbits(bits, count=len(column), bitorder="little").view(np.bool_)


def odd_rows(ids: pa.BinaryArray, codes: Iterable[str] = ODD_IDS) -> dict[str, Ints]:
    """Return finding -> the rows of ids that show its sign, for some findings of `ODD_IDS`."""
    text, starts, lengths = _content(ids)
    content = np.frombuffer(text, np.uint8)
    odd: dict[str, Ints] = {}
    for code in codes:
        pattern, _ = ODD_IDS[code]
        at, sign = (starts, b"0") if code == "id-leading-zeros" else (starts + lengths - 2, b".")
        rows = np.flatnonzero(content.take(at, mode="clip") == ord(sign))
        is_odd = [pattern.fullmatch(ids[row].as_py()) is not None for row in rows.tolist()]
        odd[code] = rows[is_odd]
    return odd


def hashes_of(ids: pa.BinaryArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each id; ids of up to eight bytes without NUL never collide."""
    text, starts, lengths = _content(ids)
    # The eight bytes that begin at each byte of the text.
    words = np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))
    hashes = _scramble(words[starts] & _FIRST_BYTES.take(lengths, mode="clip"))
    for done in range(_WORD, _HASHED, _WORD):
        rows = np.flatnonzero(lengths > done)
        if not len(rows):
            break
        more = words[starts[rows] + done] & _FIRST_BYTES.take(lengths[rows] - done, mode="clip")
        hashes[rows] = _scramble(hashes[rows] ^ more)
    return hashes


def _content(ids: pa.BinaryArray) -> tuple[bytes, Offsets, Offsets]:
    """Return ids one after the other, with padding, the offset of each, and their lengths."""
    _, offset_buffer, data = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(ids) + 1, 4 * ids.offset)
    text = memoryview(data)[offsets[0] : offsets[-1]] if data else b""
    return b"".join((text, bytes(_WORD))), offsets[:-1] - offsets[0], np.diff(offsets)


class SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From its high bits to its low ones a number holds the query, as much of the document's hash as
    fits, and the row. Sorting numbers is several times faster than sorting rows by hash. As the
    hash is cut, two documents look the same now and then (twice among three million of one query),
    so the ids themselves are compared wherever it matters.

    Args:
        ids: the documents' ids.
        starts: index of each query's first document, shape ``[queries]``.
        owner: the query that each document belongs to, ascending, shape ``[documents]``.

    Attributes:
        hashes: the documents' hashes, shape ``[documents]``.
    """

    def __init__(self, ids: pa.BinaryArray, starts: Ints, owner: Ints) -> None:
        self._ids = ids
        self._row_bits = np.uint64(len(owner).bit_length())
        self._query_bits = np.uint64(len(starts).bit_length())
        self.hashes = hashes_of(ids)
        self._keys = self._cut(self.hashes, owner)
        self._keys |= np.arange(len(owner), dtype=np.uint64)
        if len(owner) < _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), None], strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: Ints) -> NDArray[np.uint64]:
        """The numbers without their rows."""
        keys = hashes >> (self._query_bits + self._row_bits)
        keys <<= self._row_bits
        high = queries.astype(np.uint64)
        high <<= np.uint64(64) - self._query_bits
        keys |= high
        return keys

    def with_repeats(self) -> list[int]:
        """The queries that have two documents of one key: only they may hold one twice."""
        without_rows = self._keys >> self._row_bits
        alike = self._keys[1:][without_rows[1:] == without_rows[:-1]]
        queries: list[int] = np.unique(alike >> (np.uint64(64) - self._query_bits)).tolist()
        return queries

    def find(self, docs: pa.BinaryArray, hashes: NDArray[np.uint64], queries: Ints) -> Ints:
        """Return the row of each document of a query, found by its hash; -1 if there is none."""
        wanted = self._cut(hashes, queries)
        places = np.searchsorted(self._keys, wanted)
        low_bits = self._keys[np.minimum(places, len(self._keys) - 1)] ^ wanted
        likely = low_bits >> self._row_bits == 0
        rows = np.where(likely, low_bits.astype(np.int64), -1)
        at = np.flatnonzero(likely)
        is_same = flags(pc.equal(take(self._ids, rows[at]), take(docs, at)))
        for index in at[~is_same].tolist():
            alike = self._keys[(self._keys ^ wanted[index]) >> self._row_bits == 0] ^ wanted[index]
            same = [row for row in alike.tolist() if self._ids[row] == docs[index]]
            rows[index] = same[0] if same else -1
        return rows


def _scramble(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map words to words, one to one, so that the high bits depend on all bits."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed


def digest_of_rankings(
    queries: pa.BinaryArray, starts: Ints, hashes: NDArray[np.uint64], places: Ints
) -> int:
    """Return a number that stands for queries with their rankings.

    The order of queries does not change it: those of several blocks are added, modulo 2**64.

    Args:
        queries: the id of each query.
        starts: index of each query's first document, shape ``[queries]``.
        hashes: the documents' hashes, shape ``[documents]``.
        places: the place of each document in its ranking, shape ``[documents]``.
    """
    placed = hashes * (places + 1).astype(np.uint64)
    rankings = _scramble(np.add.reduceat(placed, starts) ^ hashes_of(queries))
    return int(rankings.sum())


FORMATS = {
    "trec": ("query", "Q0", "doc", "rank", "score", "tag"),
    "msmarco": ("query", "doc", "rank"),
}
"""The fields of a line in each text format."""

_TYPES = {"query": pa.binary(), "doc": pa.binary(), "rank": pa.int32(), "score": pa.float64()}
_BLOCK_BYTES = 2 << 20
_SPACE = 0x20
_SCANNED_BYTES = 1 << 16
"""Bytes of text looked at together; new memory for all of a block costs more than to look at it."""

Numbers = tuple[Sequence[float], Sequence[object]]
"""Values of a column, and the fields that they were read from, for messages."""


class NotTextError(Exception):
    """The input is no text from here on; who raises it has added the finding."""


class Lines(NamedTuple):
    """Some lines of a run, wherever they come from, as columns.

    Attributes:
        queries: UTF-8 ids.
        docs: UTF-8 ids.
        scores: finite; minus the rank where a format has no scores.
        ranks: at least 0; `None` where there are none.
        places: where each line stands, as `findings.place_of` encodes it.
    """

    queries: pa.BinaryArray
    docs: pa.BinaryArray
    scores: NDArray[np.float32]
    ranks: NDArray[Any] | None
    places: Ints

    def starts(self) -> Ints:
        """The row that each query begins in; a query that comes back begins anew."""
        differs = flags(pc.not_equal(self.queries[1:], self.queries[:-1]))
        return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(differs) + 1))

    def cut(self, rows: slice) -> Lines:
        """Some neighbouring lines."""
        return Lines(
            self.queries[rows],
            self.docs[rows],
            self.scores[rows],
            None if self.ranks is None else self.ranks[rows],
            self.places[rows],
        )

    def take(self, rows: Ints) -> Lines:
        """Some lines in any order."""
        return Lines(
            take(self.queries, rows),
            take(self.docs, rows),
            self.scores[rows],
            None if self.ranks is None else self.ranks[rows],
            self.places[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """All lines of one or more parts, in order; without ranks, if a part has none."""
        queries, docs, scores, ranks, places = zip(*parts, strict=True)
        return cls(
            pa.concat_arrays(queries),
            pa.concat_arrays(docs),
            np.concatenate(scores),
            None if any(column is None for column in ranks) else np.concatenate(ranks),
            np.concatenate(places),
        )


def _numbers(column: pa.Array, dtype: type) -> NDArray[Any]:
    """Return a column without nulls; see `flags`."""
    return np.frombuffer(column.buffers()[1], dtype, len(column))


def text_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Cut a text into blocks of whole lines.

    A byte order mark and blank lines at the end are left out; a missing last newline is added. A
    block with a NUL byte, or that ends within a line of more than a mebibyte, is the last one.

    Args:
        stream: the decompressed run, from its beginning.
    """
    block, tail = b"", b""
    chunk = stream.read(_BLOCK_BYTES).removeprefix(UTF8_BOM) or stream.read(_BLOCK_BYTES)
    while chunk:
        end = chunk.rfind(b"\n") + 1
        if b"\0" in chunk or len(chunk) - end + (0 if end else len(tail)) > MAX_LINE_BYTES:
            yield from filter(None, (block, tail + chunk))
            return
        if not end:
            tail += chunk
        else:
            if block and not chunk.isspace():
                yield block
                block = b""
            block = b"".join((block, tail, memoryview(chunk)[:end]))
            tail = chunk[end:]
        chunk = stream.read(_BLOCK_BYTES)
    if last := (block + tail).rstrip():
        yield last + b"\n"


def parse_fast(text: bytes, run_format: str) -> Lines | None:
    """Parse lines whose fields are separated by single spaces, or single tabs; `None` for others.

    The places of the lines are their numbers from 0.

    Args:
        text: a block of `text_blocks`.
        run_format: a key of `FORMATS`.
    """
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    gaps = _count_gaps(text)
    if not gaps or _misleads_arrow(text):
        return None
    names = FORMATS[run_format]
    try:
        if not text.isascii():
            text.decode()
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
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return None
    # If there are as many gaps as fields, and no two side by side, no field is empty and there is
    # no other white space.
    if table.num_rows * len(names) != gaps:
        return None
    columns = {name: table[name].chunk(0) for name in table.column_names}
    ranks = _numbers(columns["rank"], np.int32)
    if "score" in columns:
        with np.errstate(over="ignore"):
            scores = _numbers(columns["score"], np.float64).astype(np.float32)
    else:
        scores = -ranks.astype(np.float32)
    if ranks.min() < 0 or not np.isfinite(scores).all():
        return None
    return Lines(columns["query"], columns["doc"], scores, ranks, np.arange(len(ranks)))


def _count_gaps(text: bytes) -> int:
    """Return how many bytes are white space; 0 if two are side by side, or one is the first."""
    text_bytes = np.frombuffer(text, np.uint8)
    gaps, adjacent = np.empty(_SCANNED_BYTES + 1, np.bool_), np.empty(_SCANNED_BYTES, np.bool_)
    total, gaps[0] = 0, True
    for piece in slices(len(text_bytes), _SCANNED_BYTES):
        part = text_bytes[piece]
        here, before = gaps[1 : len(part) + 1], gaps[: len(part)]
        np.less_equal(part, _SPACE, out=here)
        if np.logical_and(here, before, out=adjacent[: len(part)]).any():
            return 0
        total += int(np.count_nonzero(here))
        gaps[0] = here[-1]
    return total


def _misleads_arrow(text: bytes) -> bool:
    """Whether Arrow would read a text, and not as it must be read.

    It reads ranks in hexadecimal, NUL bytes and lines of any length, ends a line at any carriage
    return, and drops a byte order mark at the beginning of any block.
    """
    half = MAX_LINE_BYTES // 2
    return (
        b"\r" in text
        or b"\0" in text
        or (b"x" in text and b"0x" in text)
        or (b"X" in text and b"0X" in text)
        or not text.endswith(b"\n")
        or text.startswith(UTF8_BOM)
        or any(text.find(b"\n", at, at + half) < 0 for at in range(0, len(text), half))
    )


def parse_each(text: bytes, place: int, run_format: str, findings: RunFindings) -> Lines:
    """Parse line by line, and leave out malformed lines, with a finding for each.

    ASCII white space separates fields, as C's ``isspace`` defines it.

    Args:
        text: a block of `text_blocks`.
        place: the place of its first line.
        run_format: a key of `FORMATS`.
        findings: where findings go.

    Raises:
        NotTextError: if a line holds a NUL byte or is longer than a mebibyte.
    """
    lines = text.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, place):
        if len(line) > MAX_LINE_BYTES or b"\0" in line:
            message = "the input is not text: a NUL byte or a line of more than a mebibyte"
            findings.add("binary-input", number, message)
            raise NotTextError
    names = FORMATS[run_format]
    places, rows = [], []
    for number, line in enumerate(lines, place):
        fields = line.split()
        if _has_fields(line, fields, len(names), number, findings):
            places.append(number)
            rows.append(fields)
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    rank_fields = columns["rank"]
    score_fields = columns.get("score", rank_fields)
    ranks = list(map(rank_number, rank_fields))
    scores = [-float(n) for n in ranks]
    if "score" in names:
        scores = list(map(decimal_number, score_fields))
    ids = id_column(columns["query"]), id_column(columns["doc"])
    return sound_lines(places, ids, (scores, score_fields), (ranks, rank_fields), findings)


def _has_fields(
    line: bytes, fields: list[bytes], width: int, place: int, findings: RunFindings
) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        findings.add("not-utf8", place, f"byte {error.start + 1} of the line is not UTF-8")
        return False
    if len(fields) != width:
        as_qrels = (
            ", as qrels and ColBERT's rankings have,"
            if len(fields) == 4 and width == len(FORMATS["trec"])
            else ""
        )
        message = f"found {len(fields)} fields{as_qrels} where {width} were expected"
        findings.add("field-count", place, message)
    return len(fields) == width


def sound_lines(
    places: Sequence[int],
    ids: tuple[pa.BinaryArray, pa.BinaryArray],
    scores: Numbers,
    ranks: Numbers | None,
    findings: RunFindings,
) -> Lines:
    """Make lines of columns; leave out those with an unsound score or rank, a finding for each.

    Args:
        places: the place of each line.
        ids: those of queries and of documents.
        scores: as 64-bit floats; NaN stands for what is no number.
        ranks: -1 stands for what is no rank; `None` where there are none.
        findings: where findings go.
    """
    with np.errstate(over="ignore"):
        narrow = np.array(scores[0], np.float32)
    sound = np.isfinite(narrow)
    for row in np.flatnonzero(~sound).tolist():
        code, problem = _score_problem(scores[0][row], scores[1][row])
        pair = [quoted(column[row].as_py()) for column in ids]
        of = "" if places[row] else f" of query {pair[0]}, document {pair[1]}"
        findings.add(code, places[row], f"score {quoted(scores[1][row])}{of} is {problem}")
    rank_column = None
    if ranks is not None:
        rank_column = np.array(ranks[0], np.int64)
        for row in np.flatnonzero(rank_column < 0).tolist():
            message = f"rank {quoted(ranks[1][row])} is not a whole number from 0"
            findings.add("rank-not-integer", places[row], message)
        sound &= rank_column >= 0
    lines = Lines(*ids, narrow, rank_column, np.array(places, np.int64))
    return lines if sound.all() else lines.take(np.flatnonzero(sound))


def _score_problem(score: float, field: object) -> tuple[str, str]:
    if not math.isnan(score):
        return "score-infinite", "infinite as a 32-bit float"
    text = field if isinstance(field, bytes) else str(field).encode()
    if text.strip(b"+-").lower() == b"nan":
        return "score-nan", "not a number that can be compared"
    return "score-not-number", "not a decimal number"
