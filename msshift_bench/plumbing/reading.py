"""Strict reading of line-based files, with findings instead of tracebacks.

All readers of passages, queries and qrels use this module, so that they report all findings of a
file at once, each with its line.

Numbers are plain ASCII decimals; Python's ``int`` and ``float`` also accept underscores between
digits, and digits of every script.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from msshift_bench.errors import FindingLog, NotFoundError, UsageError, quoted
from msshift_bench.plumbing.compression import DamagedInputError, decompressed
from msshift_bench.records import Qrel

_logger = logging.getLogger(__name__)

MAX_RANK = 10**18
"""The highest valid rank."""

MAX_RELEVANCE = 2**31 - 1
"""The highest valid relevance, and with a minus sign the lowest: sums do not overflow."""


def whole_number(field: bytes, lowest: int, highest: int) -> int | None:
    """Return a field's value; `None` if it is not a whole number from `lowest` to `highest`."""
    try:
        number = int(field)
    except ValueError:
        return None
    return number if lowest <= number <= highest and b"_" not in field else None


def rank_number(field: bytes) -> int:
    """Return a field's value; -1 if it is not a whole number from 0 to `MAX_RANK`."""
    number = whole_number(field, 0, MAX_RANK)
    return -1 if number is None else number


def decimal_number(field: bytes) -> float:
    """Return a field's value, which may be infinite; NaN if it is not a decimal number."""
    try:
        return float(field) if b"_" not in field else math.nan
    except ValueError:
        return math.nan


MAX_LINE_BYTES = 1 << 20
"""The largest length of a line of a run or of qrels; longer lines are not text."""

UTF8_BOM = b"\xef\xbb\xbf"


def file_state(path: str | PathLike[str]) -> tuple[int, int, int] | None:
    """Return a regular file's inode, size and time of last write; `None` for other paths.

    They change if the file is changed or replaced.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def open_stream(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed if its first bytes are of a compressed format.

    A pipe is read once, as a stream.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if it is a folder.
        DamagedInputError: in the body, when compressed bytes cannot be read to their end.
    """
    path = Path(path)
    if not path.exists():
        raise NotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file")
    with path.open("rb") as file:
        yield decompressed(file)


_HEADER_WORDS = (
    {"query", "queryid", "qid", "topic", "topicid", "topicno"},
    {"grade", "judgement", "judgment", "label", "qrel", "rel", "relevance", "relevancy", "score"},
)
"""First and last words of a header of qrels, in lower case, without ``-_#`` and quotation marks."""

_GRADE = re.compile(rb"-?[0-9]")
_ITERATION = re.compile(rb"[0-9]{1,2}|q0|[a-z]+", re.IGNORECASE)
_WHOLE = re.compile(rb"([0-9])\.0+$")
_HALF = re.compile(r"[\ud800-\udfff]")
_JSON = re.compile(rb'\s*(\{\s*("|\}|$)|\[\s*([\[{"]|$))')
_RUN = re.compile(rb"\s*(\S+\s+){3}[0-9]+\s+[-+.0-9eE]+\s+\S+\s*$")


def numbered_lines(
    path: Path, findings: FindingLog, *, problem_of: Callable[[int, bytes], str] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line)`` of a UTF-8 text file, without line ends.

    A leading byte order mark, CRLF line ends and blank lines at the end are accepted. Findings are
    lines that are not UTF-8, other blank lines, a truncated file, and a file that changes while it
    is read. A line of more than `MAX_LINE_BYTES` is a finding and ends the reading: a small
    compressed file may have a line that fills the memory.

    Args:
        path: the file; plain, or compressed with gzip, bzip2, xz or zstd, whatever its name.
        findings: the log of findings.
        problem_of: takes a line's number and bytes, and returns the reason why the file has another
            format, or ``""``; reading ends after such a line.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if it is a folder.
    """
    number = blank_since = 0
    before = file_state(path)
    try:
        with open_stream(path) as stream:
            for raw in iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""):
                number += 1
                if number == 1:
                    raw = raw.removeprefix(UTF8_BOM)
                problem = problem_of(number, raw) if problem_of is not None else ""
                if len(raw) > MAX_LINE_BYTES and not problem:
                    problem = "the input is not text: a line of more than a mebibyte"
                if problem:
                    findings.add(
                        "binary-input", problem, str(path), number, "give lines of text in UTF-8"
                    )
                    return
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
                if not raw:
                    blank_since = blank_since or number
                    continue
                if blank_since:
                    findings.add("blank-line", "blank line", str(path), blank_since, "remove it")
                    blank_since = 0
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    message = f"byte {error.start + 1} of the line is not UTF-8"
                    findings.add(
                        "not-utf8", message, str(path), number, "convert the file to UTF-8"
                    )
    except DamagedInputError as error:
        findings.add(
            "truncated-input", str(error), str(path), number + 1, "copy or compress the file again"
        )
    if file_state(path) != before:
        fix = "wait until it is written, and try again"
        findings.add("changed-while-read", "the file changed while it was read", str(path), 0, fix)


def tsv_rows(
    path: Path, columns: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of the lines with exactly the given tab-separated columns."""
    expected = len(columns)
    for number, line in numbered_lines(path, findings):
        fields = line.split("\t")
        if len(fields) != expected:
            findings.add(
                "field-count",
                f"{len(fields)} tab-separated fields where {expected} were expected "
                f"({', '.join(columns)})",
                str(path),
                number,
                "one record per line, fields separated by single tabs",
            )
        elif not fields[0]:
            findings.add("empty-id", f"the {columns[0]} is empty", str(path), number)
        else:
            yield number, fields


def jsonl_rows(
    path: Path, fields: tuple[str, ...], findings: FindingLog, *, optional: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield ``(line number, record)`` of the JSON lines with all `fields`, as strings.

    A record has only `fields` and `optional`. Each is a string or a whole number; an optional one
    may be missing or null, and is then "". Other values are findings, such as pandas' NaN for an
    empty cell, or a string that is not Unicode.
    """
    for number, record in jsonl_records(path, fields, findings):
        strings = {}
        for key in (*fields, *optional):
            value = "" if key in optional and record.get(key) is None else record[key]
            text = str(value)
            # isinstance would accept true and false as whole numbers.
            if type(value) not in (str, int):
                message = f"{key!r} is {json.dumps(value)[:60]}, and no string"
                fix = "write a string, or leave the record out"
                findings.add("wrong-type", message, str(path), number, fix)
            # A fast check, as most texts are ASCII.
            elif not text.isascii() and _HALF.search(text):
                message = f"{key!r} holds half of a character (a lone surrogate)"
                fix = "write the complete character, or leave it out"
                findings.add("not-utf8", f"{message}, which is not UTF-8", str(path), number, fix)
            else:
                strings[key] = text
        if len(strings) == len(fields) + len(optional):
            yield number, strings


def jsonl_records(
    path: Path, fields: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, record)`` of the JSON lines with all `fields`, with any values."""
    for number, line in numbered_lines(path, findings):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            findings.add("not-json", f"not a JSON object: {error}", str(path), number)
            continue
        missing = [f for f in fields if not isinstance(record, dict) or f not in record]
        if missing:
            findings.add(
                "missing-field",
                f"no {' and no '.join(map(repr, missing))} in the record",
                str(path),
                number,
                f"every line is an object with {', '.join(fields)}",
            )
        else:
            yield number, record


def csv_rows(
    path: Path, needed: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield ``(line number, column -> cell)`` of a CSV file with a header, cells without spaces.

    Cells are separated by commas, or by tabs if the header has one. A leading byte order mark, as
    from spreadsheets, is accepted. A cell may have line ends; the line number is of the row's last
    line. Missing cells are "", and columns without a name are left out.

    Args:
        path: the file.
        needed: the required columns.
        findings: the log of findings.

    Raises:
        OSError: if it cannot be read.
    """
    try:
        text = path.read_bytes().removeprefix(UTF8_BOM).decode()
    except UnicodeDecodeError as error:
        findings.add("not-utf8", f"byte {error.start + 1} is not UTF-8", str(path))
        return
    # Strict, as otherwise an open quotation mark would include the following rows.
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        lacking = [name for name in needed if name not in header]
        if lacking:
            fix = f"keep the columns {', '.join(needed)}, separated by commas"
            findings.add("no-column", f"no column {', '.join(lacking)}", str(path), 1, fix)
            return
        for name in {name for name in header if name and header.count(name) > 1}:
            findings.add("repeated-column", f"column {name!r} again", str(path), 1)
        for row in reader:
            surplus: Any = row.pop(None, ())
            if any(surplus):
                # A decimal comma would move all following cells.
                message = f"{len(header) + len(surplus)} cells, where the header has {len(header)}"
                findings.add("wrong-columns", message, str(path), reader.line_num)
            else:
                cells = {name: (cell or "").strip() for name, cell in row.items() if name}
                yield reader.line_num, cells
    except csv.Error as error:
        fix = "close every quotation mark, and write one within a cell twice"
        findings.add("not-csv", f"not CSV: {error}", str(path), reader.reader.line_num, fix)


def qrels_rows(path: Path, findings: FindingLog) -> Iterator[tuple[int, Qrel]]:
    """Yield ``(line number, judgement)`` of a qrels file.

    It accepts TREC's four columns (query, iteration, document, relevance) and three (query,
    document, relevance), separated by spaces or tabs, with or without a header line. All lines must
    have the same number of columns, as a truncated line of four could have three. Four columns with
    the document in the second are a finding. A relevance of ``1.0`` is 1. There are no comments: a
    query id may begin with ``#``.
    """
    width = 0
    moved, named = True, False
    for number, line in numbered_lines(path, findings, problem_of=_reason_not_qrels):
        # Only ASCII white space separates fields: an id may have any other character.
        fields = line.encode().split()
        if number == 1 and _is_header(line.split()):
            continue
        if number == 1 and _RUN.match(line.encode()):
            message = "this is a run (six columns, with a rank and a score), not qrels"
            findings.add("field-count", message, str(path), number, "give the file of judgements")
            return
        uncomment = "; remove a comment" if line.startswith("#") else ""
        if len(fields) not in (3, 4):
            message = f"found {len(fields)} fields where four (TREC) or three were expected"
            fix = "write 'query_id 0 doc_id relevance' or 'query_id doc_id relevance'"
            findings.add("field-count", message, str(path), number, fix + uncomment)
            continue
        width = width or len(fields)
        if len(fields) != width:
            message = f"found {len(fields)} fields where the lines before have {width}"
            fix = "write the same fields on all lines, or copy the file again if it was cut off"
            findings.add("field-count", message, str(path), number, fix + uncomment)
            continue
        moved = moved and width == 4 and _GRADE.fullmatch(fields[2]) is not None
        named = named or (moved and _ITERATION.fullmatch(fields[1]) is None)
        grade = _WHOLE.sub(rb"\1", fields[-1]) if b"." in fields[-1] else fields[-1]
        relevance = whole_number(grade, -MAX_RELEVANCE, MAX_RELEVANCE)
        if relevance is None:
            message = (
                f"relevance {quoted(fields[-1])} is not a whole number of at most {MAX_RELEVANCE}"
            )
            fix = "write 0, 1, 2, ...; remove a header"
            findings.add("relevance-not-integer", message, str(path), number, fix + uncomment)
        else:
            yield number, Qrel(fields[0].decode(), fields[-2].decode(), relevance)
    if moved and named:
        message = (
            "the second column has the documents, and the third their relevance, as ir_datasets "
            "exports qrels with --format tsv"
        )
        fix = "write 'query_id 0 doc_id relevance', as ir_datasets does with --format trec"
        findings.add("wrong-columns", message, str(path), 1, fix)


def judged_once(rows: Iterable[tuple[str, int, Qrel]], findings: FindingLog) -> Iterator[Qrel]:
    """Yield judgements, each pair of a query and a document once.

    Repeated judgements are left out, and a logged warning counts them. A pair with another
    relevance is a finding.

    Args:
        rows: source, line (0 without lines) and judgement of each row.
        findings: the log of findings.
    """
    first: dict[tuple[str, str], tuple[int, int]] = {}
    repeated: Counter[str] = Counter()
    for source, line, qrel in rows:
        pair = qrel.query_id, qrel.doc_id
        if pair not in first:
            first[pair] = line, qrel.relevance
            yield qrel
        elif first[pair][1] == qrel.relevance:
            repeated[source] += 1
        else:
            where = f" in line {first[pair][0]}" if line else ""
            message = (
                f"document {qrel.doc_id!r} of query {qrel.query_id!r} "
                f"is judged already{where}, with another relevance"
            )
            fix = (
                "keep one judgement per query and document; of diversity qrels, whose second "
                "column is a subtopic, the highest relevance"
            )
            findings.add("duplicate-judgement", message, source, line, fix)
    for source, count in repeated.items():
        _logger.warning("%s: %d lines repeat a judgement; each counts once", source, count)


def is_json(line: bytes) -> bool:
    """Return whether the first line of a file is JSON."""
    return _JSON.match(line) is not None


def _is_header(fields: Sequence[str]) -> bool:
    names = [re.sub(r"[-_#'\"]", "", field.lower()) for field in fields]
    return len(names) in (3, 4) and names[0] in _HEADER_WORDS[0] and names[-1] in _HEADER_WORDS[1]


def _reason_not_qrels(number: int, line: bytes) -> str:
    """Return the reason why a file with this line is not qrels; ``""`` if it may be."""
    if number == 1 and line.startswith(b"PAR1"):
        return "this is a Parquet file, not qrels in lines of text"
    if number == 1 and is_json(line):
        return "this is JSON, not qrels in lines of text"
    return "the input is not text: a NUL byte" if b"\0" in line else ""
