"""Runs that are already in memory: mappings, tables and records."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from msshift_bench.errors import UsageError, quoted
from msshift_bench.plumbing import MAX_LINE_BYTES, MAX_RANK
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.reading.judge import RunJudge
from msshift_bench.runs.reading.lines import SoundLines, judge_in_order, sound_lines

__all__ = ["DOC_COLUMNS", "QUERY_COLUMNS", "MemoryRun", "UncheckedLine", "lines_from_records"]

QUERY_COLUMNS = ("query_id", "qid")
"""The names of the column of query ids: here, and in PyTerrier."""

DOC_COLUMNS = ("doc_id", "docno")
"""The names of the column of document ids: here, and in PyTerrier."""

_BATCH_ROWS = 10_000
_RECORD_NAMES = (QUERY_COLUMNS, DOC_COLUMNS, ("score",), ("rank",))
UncheckedLine = tuple[int, Any, Any, Any, Any]
"""Number from 1 (0 where the source has no order), query id, doc id, score, rank or `None`."""


class MemoryRun:
    """A run given as Python values.

    Args:
        source: a mapping of mappings (query id -> doc id -> score), a table with columns
            (``query_id``, ``doc_id``, ``score``; ``qid`` and ``docno`` are understood), or an
            iterable of records: tuples (query_id, doc_id, score[, rank]), mappings with these
            keys, or objects with these attributes. Ids are strings, or integers that stand for
            their decimal digits. An iterator is held in memory.
        with_ranks: whether to take ranks where the source has them.

    Raises:
        UsageError: if the source is none of these, or lacks a column.
    """

    tag = ""

    def __init__(self, source: object, *, with_ranks: bool) -> None:
        self._with_ranks = with_ranks
        self._source: Any = source
        if isinstance(source, Mapping):
            self.name, self._records = "<mapping>", self._from_mapping
        elif hasattr(source, "columns") and hasattr(source, "__getitem__"):
            self.name, self._records = "<table>", self._from_table
        elif isinstance(source, Iterable):
            self.name, self._records = "<records>", self._from_records
            self._source = list(source)
        else:
            raise UsageError(
                f"a run is a path, a mapping, a table or records, not {quoted(source)}"
            )

    def rows(self, file: int, findings: RunFindings) -> Iterator[SoundLines]:
        """Yield the rows of whole queries, leaving out malformed ones with a finding each."""
        return lines_from_records(self._records(), file, findings, with_ranks=self._with_ranks)

    def judge(self, file: int, judge: RunJudge) -> None:
        """Judge the run in the order in which it comes."""
        for rows in self.rows(file, judge.findings):
            judge_in_order(rows, judge)

    def _from_mapping(self) -> Iterator[UncheckedLine]:
        if self._with_ranks:
            raise UsageError("a mapping has no ranks: choose a tie policy that goes by score")
        for query, docs in self._source.items():
            if not hasattr(docs, "items"):
                raise UsageError(
                    "a run as a mapping is query id -> doc id -> score, and query "
                    f"{quoted(query)} has {quoted(docs)}"
                )
            for doc, score in docs.items():
                yield 0, query, doc, score, None

    def _from_table(self) -> Iterator[UncheckedLine]:
        columns = [self._column(*QUERY_COLUMNS), self._column(*DOC_COLUMNS), self._column("score")]
        if self._with_ranks:
            columns.append(self._column("rank"))
        else:
            columns.append(itertools.repeat(None))
        yield from zip(itertools.count(1), *columns)

    def _column(self, *names: str) -> Iterable[Any]:
        # The columns of an Arrow table are values, those of data frames their names.
        is_arrow = isinstance(self._source, pa.Table)
        held = self._source.column_names if is_arrow else self._source.columns
        for name in names:
            if name in held:
                return list(self._source[name].to_numpy().tolist())
        raise UsageError(f"the table has no column {' or '.join(names)}")

    def _from_records(self) -> Iterator[UncheckedLine]:
        for number, record in enumerate(self._source, start=1):
            if isinstance(record, tuple) and not hasattr(record, "query_id"):
                fields = record
            elif isinstance(record, Mapping):
                fields = tuple(_first(record, names) for names in _RECORD_NAMES)
            else:
                values = {name: getattr(record, name, None) for name in sum(_RECORD_NAMES, ())}
                fields = tuple(_first(values, names) for names in _RECORD_NAMES)
            if len(fields) not in (3, 4):
                raise UsageError(f"record {number} is not (query_id, doc_id, score[, rank])")
            query, doc, score, rank = (*fields, None)[:4]
            yield number, query, doc, score, rank


def lines_from_records(
    records: Iterable[UncheckedLine], file: int, findings: RunFindings, *, with_ranks: bool
) -> Iterator[SoundLines]:
    """Check records of Python values, and yield the sound ones, whole queries at a time.

    Args:
        records: the records.
        file: number of the run's part that they come from.
        findings: where a finding goes for each record left out.
        with_ranks: whether to take the records' ranks.
    """
    sound: list[tuple[int, bytes, bytes, Any, Any]] = []
    for _, members in itertools.groupby(records, key=lambda record: record[1]):
        for number, query, doc, score, rank in members:
            place = place_of(file, number)
            ids = _identifier(query), _identifier(doc)
            if all(ids):
                sound.append((place, *ids, score, rank))
            else:
                message = f"query {quoted(query)}, document {quoted(doc)}: not both are ids"
                findings.add("id-invalid", place, message)
        if len(sound) >= _BATCH_ROWS:
            yield _sound_rows(sound, findings, with_ranks=with_ranks)
            sound = []
    if sound:
        yield _sound_rows(sound, findings, with_ranks=with_ranks)


def _sound_rows(
    records: list[tuple[int, bytes, bytes, Any, Any]], findings: RunFindings, *, with_ranks: bool
) -> SoundLines:
    places, queries, docs, scores, ranks = zip(*records, strict=True)
    rows = SoundLines(
        places,
        queries,
        docs,
        [_number(score) for score in scores],
        [_whole_number(rank) for rank in ranks] if with_ranks else None,
    )
    return sound_lines(rows, ranks, scores, findings)


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value under the first of `names` that the record has, or `None`."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _identifier(value: Any) -> bytes:
    """Return the UTF-8 bytes of an id; b"" if it is no string or integer that a line can hold."""
    if isinstance(value, bool):
        return b""
    if isinstance(value, numbers.Integral):
        value = str(value)
    if not isinstance(value, str) or len(value) > MAX_LINE_BYTES:
        return b""
    try:
        return value.encode()
    except UnicodeEncodeError:
        return b""


def _number(value: Any) -> float:
    """Return a score as a float; NaN if it is not a real number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf


def _whole_number(value: Any) -> int:
    """Return a rank as an integer; -1 if it is not a whole number from 0 to 10**18."""
    number = _number(value)
    return int(number) if number.is_integer() and 0 <= number <= MAX_RANK else -1
