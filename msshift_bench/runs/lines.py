"""The lines of a run as columns, and reading them from text: fast, or saying what is wrong where.

`parse_fast` reads regular text, as almost every run is, with Arrow's parser of CSV. What it
declines goes to `parse_each`, which reads line by line; on what both can read, they agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import quoted
from msshift_bench.plumbing import (
    MAX_LINE_BYTES,
    UTF8_BOM,
    decimal_numbers,
    rank_numbers,
    slices,
)
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.ids import flags, id_column, take

__all__ = [
    "FORMATS",
    "Lines",
    "NotTextError",
    "parse_each",
    "parse_fast",
    "sound_lines",
    "text_blocks",
]

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

_N = TypeVar("_N", np.int32, np.float64)
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

    @property
    def size(self) -> int:
        """How many lines there are."""
        return len(self.scores)

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
        ranks = None if self.ranks is None else self.ranks[rows]
        queries, docs = take(self.queries, rows), take(self.docs, rows)
        return Lines(queries, docs, self.scores[rows], ranks, self.places[rows])

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


def _numbers(column: pa.Array, dtype: type[_N]) -> NDArray[_N]:
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
    ranks = rank_numbers(rank_fields)
    scores = decimal_numbers(score_fields) if "score" in names else [-float(n) for n in ranks]
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
        as_qrels = ", as qrels have," if len(fields) == 4 and width == len(FORMATS["trec"]) else ""
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
        findings.add(code, places[row], f"score {quoted(scores[1][row])} is {problem}")
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
