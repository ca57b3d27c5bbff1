"""Lines of a run as columns, hashes of ids, and reading of lines from text.

`parse_fast` reads regular text, as almost every run is, with Arrow's parser of CSV. For other text
it returns `None`, and `parse_each` reads line by line, with a finding for each malformed line. Both
return equal lines for regular text.
"""

from __future__ import annotations

import io
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from pyarrow.compute import call_function

from msshift_bench.arrays import Ints
from msshift_bench.errors import quoted
from msshift_bench.plumbing import MAX_LINE_BYTES, UTF8_BOM, decimal_number, rank_number, slices

ODD_IDS = {
    "id-leading-zeros": (re.compile(rb"0[0-9]+"), "an integer with leading zeros"),
    "id-decimal": (re.compile(rb"[0-9]+\.0"), "an integer turned into a decimal number"),
}
"""Code -> pattern of ids that a table of numbers has changed, and its description."""

Offsets = NDArray[np.int32]

_WORD = 8
_HASHED = 256
"""Number of an id's first bytes that are hashed; ids of equal hash are compared."""

_FEW_LINES = 64
"""With fewer lines per query, one large sort is faster than a call for each query."""

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], dtype=np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""Masks that keep the first n bytes of a little-endian word."""


def id_column(ids: Sequence[bytes]) -> pa.BinaryArray:
    """Return ids as an Arrow column, without the import of pandas by `pa.array`."""
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(ids))]
    )


def take(column: pa.BinaryArray, rows: Ints) -> pa.BinaryArray:
    """Return the values of a column at the indices `rows`, in their order."""
    indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
    return call_function("take", [column, indices])


def flags(column: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return a column without nulls and offset as an array; `to_numpy` would import pandas."""
    bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    return np.unpackbits(bits, count=len(column), bitorder="little").view(np.bool_)


def unusual_rows(ids: pa.BinaryArray, codes: Iterable[str] = ODD_IDS) -> dict[str, Ints]:
    """Return each code of `codes` -> ascending indices of the ids that match its pattern."""
    text, starts, lengths = _content(ids)
    content = np.frombuffer(text, np.uint8)
    odd: dict[str, Ints] = {}
    for code in codes:
        pattern, _ = ODD_IDS[code]
        at, sign = (starts, b"0") if code == "id-leading-zeros" else (starts + lengths - 2, b".")
        at = at if sign in text else at[:0]
        rows = np.flatnonzero(content.take(at, mode="clip") == ord(sign))
        is_odd = [pattern.fullmatch(ids[row].as_py()) is not None for row in rows.tolist()]
        odd[code] = rows[is_odd]
    return odd


def hashes_of(ids: pa.BinaryArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each id's first 256 bytes.

    Ids of up to eight bytes without NUL never collide.
    """
    text, starts, lengths = _content(ids)
    # The eight bytes from each byte of the text on.
    words = np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))
    hashes = _mix_bits(words[starts] & _FIRST_BYTES.take(lengths, mode="clip"))
    for done in range(_WORD, _HASHED, _WORD):
        rows = np.flatnonzero(lengths > done)
        if not len(rows):
            break
        more = words[starts[rows] + done] & _FIRST_BYTES.take(lengths[rows] - done, mode="clip")
        hashes[rows] = _mix_bits(hashes[rows] ^ more)
    return hashes


def _content(ids: pa.BinaryArray) -> tuple[bytes, Offsets, Offsets]:
    """Return the concatenated ids and eight NUL bytes, and each id's offset and length."""
    _, offset_buffer, data = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(ids) + 1, 4 * ids.offset)
    text = memoryview(data)[offsets[0] : offsets[-1]] if data else b""
    return b"".join((text, bytes(_WORD))), offsets[:-1] - offsets[0], np.diff(offsets)


class SortedKeys:
    """A block's documents by query and hash: one number each, sorted.

    From high to low bits, a number has the query, the part of the hash that fits, and the row.
    Sorting numbers is several times faster than sorting rows by hash. As hashes are cut, different
    documents sometimes have equal keys, so ids are compared as well.

    Args:
        ids: the documents' ids.
        starts: index of each query's first document, shape ``[queries]``.
        owner: index of each document's query, ascending, shape ``[documents]``.

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
        if len(owner) <= _FEW_LINES * len(starts):
            self._keys.sort()
        else:
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), None], strict=True):
                self._keys[start:end].sort()

    def _cut(self, hashes: NDArray[np.uint64], queries: Ints) -> NDArray[np.uint64]:
        keys = hashes >> (self._query_bits + self._row_bits)
        keys <<= self._row_bits
        high = queries.astype(np.uint64)
        high <<= np.uint64(64) - self._query_bits
        keys |= high
        return keys

    def with_repeats(self) -> list[int]:
        """Return the indices of queries with two equal keys; others have no repeated document."""
        without_rows = self._keys >> self._row_bits
        alike = self._keys[1:][without_rows[1:] == without_rows[:-1]]
        queries = alike >> (np.uint64(64) - self._query_bits)
        return list(dict.fromkeys(queries.tolist()))  # np.unique first imports numpy.ma

    def find(self, docs: pa.BinaryArray, hashes: NDArray[np.uint64], queries: Ints) -> Ints:
        """Return the row of each of `docs` in its query, an index in `queries`; -1 if not found."""
        wanted = self._cut(hashes, queries)
        places = np.searchsorted(self._keys, wanted)
        low_bits = self._keys[np.minimum(places, len(self._keys) - 1)] ^ wanted
        likely = low_bits >> self._row_bits == 0
        rows = np.where(likely, low_bits.astype(np.int64), -1)
        at = np.flatnonzero(likely)
        is_same = flags(call_function("equal", [take(self._ids, rows[at]), take(docs, at)]))
        for index in at[~is_same].tolist():
            alike = self._keys[(self._keys ^ wanted[index]) >> self._row_bits == 0] ^ wanted[index]
            same = [row for row in alike.tolist() if self._ids[row] == docs[index]]
            rows[index] = same[0] if same else -1
        return rows


def _mix_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words mapped one-to-one, so that high bits depend on all bits of a word."""
    mixed: NDArray[np.uint64] = words * _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MULTIPLIERS[1]
    return mixed


def digests_of_rankings(
    queries: pa.BinaryArray,
    starts: Ints,
    hashes: NDArray[np.uint64],
    places: NDArray[Any],
    first: NDArray[Any],
) -> list[NDArray[np.uint64]]:
    """Return two arrays: digests of the queries' rankings, and of their sets of documents.

    The digest of several queries is the sum of their digests modulo 2**64.

    Args:
        queries: the id of each query.
        starts: index of each query's first document, shape ``[queries]``.
        hashes: the documents' hashes, shape ``[documents]``.
        places: the rank of each document, or a number equal for ties, shape ``[documents]``.
        first: number from which a query's `places` count, shape ``[queries]``.
    """
    sets = np.add.reduceat(hashes, starts)
    # The sums of hash * (place - first + 1), modulo 2**64.
    placed = np.add.reduceat(hashes * places.astype(np.uint64), starts)
    placed += sets * (1 - first).astype(np.uint64)
    of_queries = hashes_of(queries)
    return [_mix_bits(part ^ of_queries) for part in (placed, sets)]


LINE_BITS = 40


def place_of(file: int, line: int) -> int:
    """Return the place of a line: an integer that sorts in reading order.

    `file` is an index among the run's files. Line 0 is the complete file.
    """
    return file << LINE_BITS | line


class Findings(Protocol):
    """The interface of `findings.RunFindings` for readers."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Code -> number of its findings."""

    def add(self, code: str, place: int, message: str, *, once: bool = False) -> None:
        """Add a finding; with `once`, only if its file has none of this code."""


_TYPES = {"query_id": pa.binary(), "doc_id": pa.binary(), "rank": pa.int32(), "score": pa.float64()}
_BLOCK_BYTES = 4 << 20
_SPACE = 0x20
_SCANNED_BYTES = 1 << 17
"""Bytes of text processed at once: allocating memory for a block takes longer than reading it."""

_DECIMALS = re.compile(rb"(?<=[0-9])\.0+$")
"""The end of a rank written as ``1.0``."""

Numbers = tuple[Sequence[float], Sequence[object]]
"""Values of a column, and the fields that they were read from, for messages."""


class NotTextError(Exception):
    """The rest of the input cannot be read as lines of text; the finding is already added."""


class Lines(NamedTuple):
    """Some lines of a run as columns.

    Attributes:
        queries: the query id of each line, in UTF-8.
        docs: the document ids in UTF-8.
        scores: finite; minus the rank for formats without scores.
        ranks: at least 0; `None` for formats without ranks.
        places: the place of each line, encoded by `place_of`.
    """

    queries: pa.BinaryArray
    docs: pa.BinaryArray
    scores: NDArray[np.float32]
    ranks: NDArray[Any] | None
    places: Ints

    def starts(self) -> Ints:
        """The first row of each query; several if it is interleaved; ``[0]`` without lines."""
        differs = flags(call_function("not_equal", [self.queries[1:], self.queries[:-1]]))
        return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(differs) + 1))

    def rankings(self) -> Iterator[tuple[str, list[str], list[float]]]:
        """Yield each query id, several times if interleaved, its document ids and their scores."""
        starts = self.starts().tolist() if len(self.scores) else []
        for start, end in zip(starts, [*starts[1:], None], strict=False):
            docs: list[str] = self.docs[start:end].cast(pa.string()).to_pylist()
            yield self.queries[start].as_py().decode(), docs, self.scores[start:end].tolist()

    def cut(self, rows: slice) -> Lines:
        """Return the lines of a slice."""
        return Lines(
            self.queries[rows],
            self.docs[rows],
            self.scores[rows],
            None if self.ranks is None else self.ranks[rows],
            self.places[rows],
        )

    def take(self, rows: Ints) -> Lines:
        """Return the lines at the indices `rows`, in their order."""
        return Lines(
            take(self.queries, rows),
            take(self.docs, rows),
            self.scores[rows],
            None if self.ranks is None else self.ranks[rows],
            self.places[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """Return the lines of one or more parts, in order; without ranks if a part has none."""
        if len(parts) == 1:
            return parts[0]
        queries, docs, scores, ranks, places = zip(*parts, strict=True)
        return cls(
            pa.concat_arrays(queries),
            pa.concat_arrays(docs),
            np.concatenate(scores),
            None if any(column is None for column in ranks) else np.concatenate(ranks),
            np.concatenate(places),
        )


def _numbers(column: pa.Array, dtype: type) -> NDArray[Any]:
    """Return a column of numbers as an array; see `flags`."""
    return np.frombuffer(column.buffers()[1], dtype, len(column))


def read_ahead(stream: BinaryIO) -> tuple[BinaryIO, bytes]:
    """Return a stream of the same bytes from its beginning, and its first block.

    The block has complete lines of at most 4 MiB, without a byte order mark. A longer first line is
    cut.
    """
    buffered = io.BufferedReader(cast("io.RawIOBase", stream), _BLOCK_BYTES)
    head = buffered.peek()
    if len(head) == _BLOCK_BYTES:
        head = head[: head.rfind(b"\n") + 1] or head
    return cast("BinaryIO", buffered), head.removeprefix(UTF8_BOM)


def text_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a text in blocks of complete lines.

    A byte order mark and white space at the end are left out; a missing last newline is added. A
    blank text yields nothing. Reading may stop in a line of more than `MAX_LINE_BYTES`; the last
    block then ends in that line.

    Args:
        stream: the decompressed run, from its beginning.
    """
    block, tail = b"", b""
    chunk = stream.read(_BLOCK_BYTES).removeprefix(UTF8_BOM) or stream.read(_BLOCK_BYTES)
    while chunk:
        end = chunk.rfind(b"\n") + 1
        if len(chunk) - end + (0 if end else len(tail)) > MAX_LINE_BYTES:
            yield from filter(None, (block, tail + chunk))
            return
        if not end:
            tail += chunk
        else:
            if block and not chunk.isspace():
                yield block
                block = b""
            end = _last_query(chunk, end) or end
            block = b"".join((block, tail, memoryview(chunk)[:end]))
            tail = chunk[end:]
        chunk = stream.read(_BLOCK_BYTES)
    if last := (block + tail).rstrip():
        yield last + b"\n"


def _last_query(text: bytes, end: int) -> int:
    """Return the offset of the last query's first line, if queries are not interleaved.

    A block of complete queries need not be joined with the next one.
    """
    last = text.rfind(b"\n", 0, end - 1) + 1
    field = text[last:end].replace(b"\t", b" ").partition(b" ")[0]
    begin = text[last : last + len(field) + 1]
    return bisect_left(
        range(last), True, key=lambda at: text.startswith(begin, text.rfind(b"\n", 0, at) + 1)
    )


def parse_fast(text: bytes, names: Sequence[str]) -> Lines | None:
    """Return lines of fields separated by single spaces or tabs; `None` for other or invalid text.

    The places of the lines are their numbers from 0.

    Args:
        text: a block of `text_blocks`.
        names: the fields of a line, in order: ``query_id``, ``doc_id``, and ``rank`` or ``score``
            or both. Other fields are ignored.
    """
    if b"\r" in text and b"\r" in (text := text.replace(b"\r\n", b"\n")):
        return None
    try:
        gaps = _count_gaps(text, np.int8)  # bytes beyond ASCII are negative, and count as gaps
        if not (gaps or text.isascii()):
            text.decode()
            gaps = _count_gaps(text, np.uint8)
        if not gaps or _arrow_misreads(text):
            return None
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
    # With as many gaps as fields and no two adjacent, no field is empty, and there is no other
    # white space.
    if table.num_rows * len(names) != gaps:
        return None
    columns = {name: table[name].chunk(0) for name in table.column_names}
    ranks = _numbers(columns["rank"], np.int32) if "rank" in columns else None
    if "score" in columns:
        with np.errstate(over="ignore"):
            scores = _numbers(columns["score"], np.float64).astype(np.float32)
    elif ranks is not None:
        scores = -ranks.astype(np.float32)
    if (ranks is not None and ranks.min() < 0) or not np.isfinite(scores).all():
        return None
    return Lines(columns["query_id"], columns["doc_id"], scores, ranks, np.arange(len(scores)))


def _count_gaps(text: bytes, dtype: type) -> int:
    """Return the number of bytes up to 0x20, the space; 0 if two are adjacent, or one is first."""
    text_bytes: NDArray[Any] = np.frombuffer(text, dtype)
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


def _arrow_misreads(text: bytes) -> bool:
    """Return whether Arrow may read a text wrongly without an error.

    Arrow reads hexadecimal ranks and lines of any length, and drops each block's byte order mark.
    """
    half = MAX_LINE_BYTES // 2
    return (
        (b"x" in text and b"0x" in text)
        or (b"X" in text and b"0X" in text)
        or not text.endswith(b"\n")
        or text.startswith(UTF8_BOM)
        or any(text.find(b"\n", at, at + half) < 0 for at in range(0, len(text), half))
    )


def parse_each(text: bytes, place: int, names: Sequence[str], findings: Findings) -> Lines:
    """Return the well-formed lines of a text, with a finding for each malformed line.

    ASCII white space separates fields, as C's ``isspace`` defines it.

    Args:
        text: a block of `text_blocks`.
        place: the place of its first line.
        names: as in `parse_fast`.
        findings: the log of findings.

    Raises:
        NotTextError: if a line holds a NUL byte or is longer than a mebibyte.
    """
    lines = text.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, place):
        if len(line) > MAX_LINE_BYTES or b"\0" in line:
            message = "the input is not text: a NUL byte or a line of more than a mebibyte"
            findings.add("binary-input", number, message)
            raise NotTextError
    places, rows = [], []
    for number, line in enumerate(lines, place):
        fields = line.split()
        if _has_fields(line, fields, len(names), number, findings):
            places.append(number)
            rows.append(fields)
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    ids = id_column(columns["query_id"]), id_column(columns["doc_id"])
    ranks: Numbers | None = None
    if "rank" in columns:
        texts = columns["rank"]
        for row in [row for row, text in enumerate(texts) if _DECIMALS.search(text)][:1]:
            message = f"rank {quoted(texts[row])} is written as a decimal number"
            findings.add("rank-decimal", places[row], message, once=True)
        ranks = [rank_number(_DECIMALS.sub(b"", text)) for text in texts], texts
    if "score" in columns:
        scores: Numbers = list(map(decimal_number, columns["score"])), columns["score"]
    else:
        assert ranks is not None
        scores = [-number for number in ranks[0]], ranks[1]
    return checked_lines(places, ids, scores, ranks, findings)


def _has_fields(
    line: bytes, fields: list[bytes], width: int, place: int, findings: Findings
) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        findings.add("not-utf8", place, f"byte {error.start + 1} of the line is not UTF-8")
        return False
    if len(fields) != width:
        message = f"found {len(fields)} fields where {width} were expected"
        if (len(fields), width) == (4, 6):
            message += "; these are qrels, or name --run-format colbert"
        findings.add("field-count", place, message)
    return len(fields) == width


def checked_lines(
    places: Sequence[int],
    ids: tuple[pa.BinaryArray, pa.BinaryArray],
    scores: Numbers,
    ranks: Numbers | None,
    findings: Findings,
) -> Lines:
    """Return the lines with valid scores and ranks, with a finding for each invalid value.

    Args:
        places: the place of each line.
        ids: the ids of queries and of documents.
        scores: 64-bit floats; NaN for values that are not numbers.
        ranks: ranks; -1 for values that are not ranks; `None` without ranks.
        findings: the log of findings.
    """
    with np.errstate(over="ignore"):
        narrow = np.array(scores[0], np.float32)
    sound = np.isfinite(narrow)
    for row in np.flatnonzero(~sound).tolist():
        code, problem = _score_problem(scores[0][row], scores[1][row])
        pair = [quoted(column[row].as_py()) for column in ids]
        message = f"score {quoted(scores[1][row])} of query {pair[0]}, document {pair[1]} is "
        findings.add(code, places[row], message + problem)
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
