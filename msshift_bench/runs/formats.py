"""The table of run formats: how to recognise and read the content of each.

A new format is one function, which yields the `Lines` of a `FileRun`, and one row of `RUN_FORMATS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Ints
from msshift_bench.errors import quoted
from msshift_bench.plumbing import MAX_LINE_BYTES, decimal_number, is_json, map_in_threads
from msshift_bench.runs.json_runs import MTEB_META, named_runs, read_json, read_jsonl, read_mteb
from msshift_bench.runs.lines import (
    Findings,
    Lines,
    NotTextError,
    parse_each,
    parse_fast,
    text_blocks,
)
from msshift_bench.runs.sources import PARQUET, FileRun, RunFormat, read_parquet

MOST_THREADS = 4

_FIRST_BYTES = 1 << 17
"""Bytes of a file's first block that are tried first: a few thousand lines."""


def read_columns(file: FileRun, findings: Findings) -> Iterator[Lines]:
    """Yield the lines of a text file, block by block.

    Reading ends, with a finding, at a query that contradicts the recognised format.

    Raises:
        NotTextError: if the file is JSON, or not text.
    """
    assert file.format is not None
    names, fields = file.format.shape.split(), _first_fields(file.head)
    if _json_kind(file.head):
        findings.add("binary-input", file.place(1), "this is JSON, not a run in lines of text")
        raise NotTextError
    if names[-1] == "tag" and len(fields) == len(names):
        file.tag = fields[-1].decode(errors="replace")
    place, contradicts = file.place(1), file.format.contradicts if len(file.formats) > 1 else None

    def parse(text: bytes) -> Lines | bytes:
        """Return a text's lines, numbered from 0, or the text for `parse_each`."""
        return parse_fast(text, names) or text

    for parsed in map_in_threads(parse, text_blocks(file.stream), MOST_THREADS):
        if isinstance(parsed, bytes):
            lines = parse_each(parsed, place, names, findings)
            place += parsed.count(b"\n")
        else:
            lines = parsed._replace(places=parsed.places + place)
            place += len(parsed.scores)
        if contradicts and len(lines.scores):
            numbers = QueryNumbers.of(
                lines.scores if lines.ranks is None else lines.ranks, lines.starts()
            )
            for row in numbers.starts[contradicts(numbers)][:1].tolist():
                query = quoted(lines.queries[row].as_py())
                message = f"query {query} is not in the format of the first lines"
                findings.add("format-contradicted", int(lines.places[row]), message)
                return
        yield lines


def _first_fields(head: bytes) -> list[bytes]:
    """Return the fields of the first line that is not blank; ``[]`` for JSON and binary data."""
    text = head.lstrip()
    first = text[: text.find(b"\n") + 1] or text
    is_text = len(first) <= MAX_LINE_BYTES and not head.startswith(PARQUET)
    return first.split() if is_text and not _json_kind(head) else []


class QueryNumbers(NamedTuple):
    """Patterns in the numbers of each query, to distinguish ranks from scores.

    Attributes:
        starts: index of the first value of each query, ``[queries]``.
        several: whether a query has several lines, ``[queries]``.
        steady: whether its numbers rise by 1 per line; true for one line, ``[queries]``.
        first: whether its first number is 0 or 1, ``[queries]``.
        falls: whether its numbers fall and never rise, but not by 1 per line, ``[queries]``.
    """

    starts: Ints
    several: NDArray[np.bool_]
    steady: NDArray[np.bool_]
    first: NDArray[np.bool_]
    falls: NDArray[np.bool_]

    @classmethod
    def of(cls, values: NDArray[Any], starts: Ints) -> QueryNumbers:
        """Return the patterns in `values`, ``[lines]``; queries begin at `starts`."""
        counts = np.diff(starts, append=len(values))
        steps = np.diff(values.astype(np.float64), prepend=0.0)
        steps[starts] = 0
        up, down = (
            np.add.reduceat(steps == step, starts, dtype=np.int64) == counts - 1 for step in (1, -1)
        )
        falls = np.maximum.reduceat(steps, starts) <= 0
        falls &= np.minimum.reduceat(steps, starts) < 0
        return cls(starts, counts > 1, up, np.isin(values[starts], (0, 1)), falls & ~down)


def _lines_by_query(head: bytes, width: int) -> tuple[list[list[bytes]], Ints]:
    """Return the fields of lines, grouped by query, and the index of each query's first line.

    Lines without `width` fields, or a number in the third, are skipped. Both are empty unless the
    first line has `width` fields.
    """
    lines = map(bytes.split, head.split(b"\n") if len(_first_fields(head)) == width else ())
    rows = [
        line for line in lines if len(line) == width and not math.isnan(decimal_number(line[2]))
    ]
    places: dict[bytes, int] = {}
    rows.sort(key=lambda fields: places.setdefault(fields[0], len(places)))
    starts = np.flatnonzero(
        [row == 0 or rows[row][0] != rows[row - 1][0] for row in range(len(rows))]
    )
    return rows, starts


def _first_lines(head: bytes) -> bytes:
    return head[: head.rfind(b"\n", 0, _FIRST_BYTES) + 1] or head


def _third_column(head: bytes) -> str:
    """Return whether the last of three columns is ``rank``, ``score`` or ``either``; else ""."""
    for part in (_first_lines(head), head):  # reads all lines only if the first ones are ambiguous
        rows, starts = _lines_by_query(part, 3)
        if not rows:
            return ""
        texts = [fields[2] for fields in rows]
        numbers = QueryNumbers.of(np.array([decimal_number(text) for text in texts]), starts)
        ranks = numbers.steady & numbers.first
        is_decimal = np.array([re.search(rb"[-.eE]|inf", text) is not None for text in texts])
        scores = numbers.falls | (np.logical_or.reduceat(is_decimal, starts) & ~ranks)
        if ranks.all() and numbers.several.any():
            return "rank"
        if scores.any() and not (ranks & numbers.several).any():
            return "score"
    return "either"


def _is_colbert(head: bytes) -> bool:
    """Whether the third of four columns is 1, 2, 3, ... per query, and the fourth never rises.

    The second column must vary, unlike in qrels. A fourth column that never falls may be the
    iteration of qrels with another order of columns.
    """
    rows, starts = _lines_by_query(_first_lines(head), 4)
    ranks, scores = (np.array([decimal_number(row[n]) for row in rows]) for n in (2, 3))
    steps = np.diff(scores, prepend=0.0)
    steps[starts] = 0
    expected = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows))) + 1
    varies = len({fields[1] for fields in rows}) > 1
    falls = (steps < 0).any() and not (steps > 0).any()
    return varies and bool(falls and (ranks == expected).all())


# JSON.

_KEY = rb'\s*"(?:[^"\\]|\\.)*+"\s*:\s*'
_KINDS = {
    "mteb": re.compile(rb'\s*\{(?:\s*"' + MTEB_META.encode() + rb'"|%b\{%b\{)' % (_KEY, _KEY)),
    "jsonl": re.compile(rb"\s*\{" + _KEY + rb"[^\s{\[]"),
    "json": re.compile(b""),
}
"""Format -> pattern of the beginning of its JSON; the first match counts."""


def _json_kind(head: bytes) -> str:
    """Return the format of JSON; "" for other content."""
    return (
        next(kind for kind, begin in _KINDS.items() if begin.match(head)) if is_json(head) else ""
    )


_OF_TEXT = (".run", ".txt")
_IS_RANK = {"rank": True, "score": False, "either": None, "": False}
_IS_SCORE = {**_IS_RANK, "rank": False, "score": True}

RUN_FORMATS: Mapping[str, RunFormat] = {
    row.name: row
    for row in (
        RunFormat(
            "trec",
            "query_id Q0 doc_id rank score tag",
            "TREC's tools, Anserini, PyTerrier, BEIR and this package",
            (".run", ".trec", ".res", ".txt"),
            lambda head: len(_first_fields(head)) == 6,
            read_columns,
        ),
        RunFormat(
            "msmarco",
            "query_id doc_id rank",
            "MS MARCO's scripts, Anserini, ColBERT",
            _OF_TEXT,
            lambda head: _IS_RANK[_third_column(head)],
            read_columns,
            lambda numbers: numbers.falls,
        ),
        RunFormat(
            "three-scores",
            "query_id doc_id score",
            "Tevatron",
            _OF_TEXT,
            lambda head: _IS_SCORE[_third_column(head)],
            read_columns,
            lambda numbers: numbers.steady & numbers.first & numbers.several,
        ),
        RunFormat(
            "colbert",
            "query_id doc_id rank score",
            "ColBERT",
            _OF_TEXT,
            _is_colbert,
            read_columns,
            lambda numbers: ~numbers.steady,
        ),
        RunFormat(
            "json",
            "{query_id: {doc_id: score}}",
            "ranx, and dictionaries of BEIR",
            (".json",),
            lambda head: _json_kind(head) == "json",
            read_json,
        ),
        RunFormat(
            "mteb",
            "{subset: {split: {query_id: {doc_id: score}}}}",
            "MTEB's predictions",
            (".json",),
            lambda head: _json_kind(head) == "mteb",
            read_mteb,
            split=named_runs,
        ),
        RunFormat(
            "jsonl",
            "{query_id, results: [{corpus_id, score}]} on each line",
            "sentence-transformers' InformationRetrievalEvaluator",
            (".jsonl",),
            lambda head: _json_kind(head) == "jsonl",
            read_jsonl,
        ),
        RunFormat(
            "parquet",
            "columns query_id, doc_id, score and optionally rank",
            "ranx, pandas, polars",
            (".parquet",),
            lambda head: head.startswith(PARQUET),
            read_parquet,
        ),
    )
}
"""Name -> format, in the order in which content is recognised. A file may be compressed with gzip,
bzip2, xz or zstd."""
