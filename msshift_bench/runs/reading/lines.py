"""Reading runs line by line: exact, with a line number for every finding.

The columnar reader (`reading.columns`) must agree with this one on every input, and leaves
irregular blocks to it.
"""

from __future__ import annotations

import itertools
import marshal
import math
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any, NamedTuple

import numpy as np

from msshift_bench.errors import quoted
from msshift_bench.plumbing import decimal_numbers, rank_numbers
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.hashes import IdColumn
from msshift_bench.runs.reading.judge import QueryLines, RunJudge

__all__ = ["WIDTHS", "SoundLines", "judge_grouped", "judge_in_order", "parse_lines", "sound_lines"]

WIDTHS = {"trec": 6, "msmarco": 3}
"""Fields per line of each text format."""

_BUCKETS = 64
_BUCKET_BYTES = 1 << 20


class SoundLines(NamedTuple):
    """Some lines of a run whose fields are sound, as columns.

    Attributes:
        places: the place of each line, as `findings.place_of` encodes it.
        queries: UTF-8 query ids.
        docs: UTF-8 document ids.
        scores: finite also as 32-bit floats.
        ranks: the rank column, at least 0; `None` where there is none.
    """

    places: Sequence[int]
    queries: Sequence[bytes]
    docs: Sequence[bytes]
    scores: Sequence[float]
    ranks: Sequence[int] | None


def parse_lines(text: bytes, place: int, run_format: str, findings: RunFindings) -> SoundLines:
    """Split lines into fields; leave out malformed lines, with a finding for each.

    ASCII white space separates fields, as C's ``isspace`` defines it.

    Args:
        text: complete lines.
        place: the place of the first line.
        run_format: ``"trec"`` or ``"msmarco"``.
        findings: where findings go.
    """
    fields, places = _split(text, place, WIDTHS[run_format], findings)
    if not places:
        return SoundLines((), (), (), (), None)
    if run_format == "msmarco":
        queries, docs, ranks = fields
        return _convert(places, queries, docs, ranks, ranks, findings)
    queries, _, docs, ranks, scores, _ = fields
    return _convert(places, queries, docs, ranks, scores, findings)


def _split(
    text: bytes, place: int, width: int, findings: RunFindings
) -> tuple[list[Sequence[bytes]], Sequence[int]]:
    """Split lines into columns of fields, with the place of each line."""
    lines = text.count(b"\n")
    # One split of the whole text is several times faster than one per line. NUL bytes, which
    # text cannot hold, show that every line ends where it must.
    fields = text.replace(b"\n", b" \0 ").split()
    ends = fields[width :: width + 1]
    if text.isascii() and len(fields) == lines * (width + 1) and ends.count(b"\0") == lines:
        columns: list[Sequence[bytes]] = [fields[column :: width + 1] for column in range(width)]
        return columns, range(place, place + lines)
    places, rows = [], []
    for number, line in enumerate(text.split(b"\n")[:-1]):
        row = line.split()
        if _is_sound(place + number, line, row, width, findings):
            places.append(place + number)
            rows.append(row)
    return list(zip(*rows, strict=True)), places


def _is_sound(
    place: int, line: bytes, fields: list[bytes], width: int, findings: RunFindings
) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        findings.add("not-utf8", place, f"byte {error.start + 1} of the line is not UTF-8")
        return False
    if len(fields) != width:
        as_qrels = ", as qrels have," if len(fields) == 4 and width == WIDTHS["trec"] else ""
        message = f"found {len(fields)} fields{as_qrels} where {width} were expected"
        findings.add("field-count", place, message)
    return len(fields) == width


def _convert(
    places: Sequence[int],
    queries: Sequence[bytes],
    docs: Sequence[bytes],
    rank_fields: Sequence[bytes],
    score_fields: Sequence[bytes],
    findings: RunFindings,
) -> SoundLines:
    """Turn the fields of the rank and score columns into numbers."""
    ranks = rank_numbers(rank_fields)
    if score_fields is rank_fields:
        scores = [-float(rank) for rank in ranks]
    else:
        scores = decimal_numbers(score_fields)
    rows = SoundLines(places, queries, docs, scores, ranks)
    return sound_lines(rows, rank_fields, score_fields, findings)


def sound_lines(
    rows: SoundLines,
    rank_fields: Sequence[object] | None,
    score_fields: Sequence[object],
    findings: RunFindings,
) -> SoundLines:
    """Leave out rows whose rank is negative or whose score is not finite in 32 bits.

    Args:
        rows: the rows; a field that is not a number has become rank -1 or a score of NaN.
        rank_fields: the ranks as they were given, for messages.
        score_fields: the scores as they were given, for messages.
        findings: where a finding goes for each row left out.
    """
    with np.errstate(over="ignore"):
        sound = np.isfinite(np.array(rows.scores, dtype=np.float32))
    for row in np.flatnonzero(~sound).tolist():
        code, problem = _score_problem(rows.scores[row], score_fields[row])
        findings.add(code, rows.places[row], f"score {quoted(score_fields[row])} is {problem}")
    if rows.ranks is not None and rank_fields is not None:
        negative = np.array(rows.ranks, dtype=np.int64) < 0
        for row in np.flatnonzero(negative).tolist():
            message = f"rank {quoted(rank_fields[row])} is not a whole number from 0"
            findings.add("rank-not-integer", rows.places[row], message)
        sound &= ~negative
    if sound.all():
        return rows
    keep = sound.tolist()
    return SoundLines(
        list(itertools.compress(rows.places, keep)),
        list(itertools.compress(rows.queries, keep)),
        list(itertools.compress(rows.docs, keep)),
        list(itertools.compress(rows.scores, keep)),
        None if rows.ranks is None else list(itertools.compress(rows.ranks, keep)),
    )


def _score_problem(score: float, field: object) -> tuple[str, str]:
    if not math.isnan(score):
        return "score-infinite", "infinite as a 32-bit float"
    text = field if isinstance(field, bytes) else str(field).encode()
    if text.strip(b"+-").lower() == b"nan":
        return "score-nan", "not a number that can be compared"
    return "score-not-number", "not a decimal number"


def judge_in_order(rows: SoundLines, judge: RunJudge) -> None:
    """Judge rows whose queries are contiguous.

    Raises:
        QueriesInterleavedError: if a query comes back after another one.
    """
    start = 0
    groups = itertools.groupby(rows.queries)
    judge.register(IdColumn.join([query for query, _ in groups]).hashes())
    for query, members in itertools.groupby(rows.queries):
        stop = start + sum(1 for _ in members)
        ranks = None if rows.ranks is None else rows.ranks[start:stop]
        ranking = _ranking(
            rows.places[start:stop], rows.docs[start:stop], rows.scores[start:stop], ranks
        )
        judge.add(query, ranking)
        start = stop


def judge_grouped(parts: Iterable[SoundLines], judge: RunJudge) -> None:
    """Judge rows whose queries may be interleaved, in bounded memory.

    It deals the rows to temporary files by query, and then judges one file at a time.
    """
    with ExitStack() as stack:
        buckets = [
            stack.enter_context(tempfile.SpooledTemporaryFile(max_size=_BUCKET_BYTES))
            for _ in range(_BUCKETS)
        ]
        for rows in parts:
            dealt: dict[int, list[tuple[Any, ...]]] = {}
            ranks = itertools.repeat(None) if rows.ranks is None else rows.ranks
            for row in zip(rows.queries, rows.places, rows.docs, rows.scores, ranks, strict=False):
                dealt.setdefault(zlib.crc32(row[0]) % _BUCKETS, []).append(row)
            for number, members in dealt.items():
                marshal.dump(members, buckets[number])
        for bucket in buckets:
            for query, members in _gather(bucket).items():
                places, docs, scores, ranks = zip(*members, strict=True)
                judge.add(query, _ranking(places, docs, scores, None if None in ranks else ranks))


def _gather(bucket: IO[bytes]) -> dict[bytes, list[tuple[Any, ...]]]:
    """Read one temporary file back: query id -> its rows in reading order."""
    bucket.seek(0)
    by_query: dict[bytes, list[tuple[Any, ...]]] = {}
    with suppress(EOFError):
        while True:
            for query, *row in marshal.load(bucket):
                by_query.setdefault(query, []).append(tuple(row))
    return by_query


def _ranking(
    places: Sequence[int],
    docs: Sequence[bytes],
    scores: Sequence[float],
    ranks: Sequence[int] | None,
) -> QueryLines:
    rank_column = None if ranks is None else np.array(ranks, dtype=np.int64)
    return QueryLines(places, docs, np.array(scores, dtype=np.float32), rank_column)
