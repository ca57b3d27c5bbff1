"""Strict reading of line-based files, with findings instead of tracebacks.

All readers of passages, queries and qrels use this module. They report all findings of a file at
once, each with its line number.

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
"""The highest valid relevance; the lowest is its negative. Sums do not overflow."""


def whole_number(field: bytes, lowest: int, highest: int) -> int | None:
    """Return the value of a field; `None` unless it is a whole number from `lowest` to `highest`.

    A sign and surrounding white space are accepted.
    """
    try:
        number = int(field)
    except ValueError:
        return None
    return number if lowest <= number <= highest and b"_" not in field else None


def rank_number(field: bytes) -> int:
    """Return the value of a field; -1 unless it is a whole number from 0 to `MAX_RANK`."""
    number = whole_number(field, 0, MAX_RANK)
    return -1 if number is None else number


def decimal_number(field: bytes) -> float:
    """Return the value of a field, which can be infinite; NaN if it is NaN or not a number."""
    try:
        return float(field) if b"_" not in field else math.nan
    except ValueError:
        return math.nan


MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line; a file with a longer line is rejected as not text."""

UTF8_BOM = b"\xef\xbb\xbf"


def file_state(path: str | PathLike[str]) -> tuple[int, int, int] | None:
    """Return inode, size in bytes and modification time in ns of a file; `None` for other paths.

    Other paths are missing files, folders and pipes. A changed or replaced file has another state.
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
    """Open a file for reading bytes, decompressed if its first bytes are of a known format.

    A pipe is read once, as a stream.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if the path is a folder.
        DamagedInputError: while reading; see `decompressed`.
    """
    path = Path(path)
    if not path.exists():
        raise NotFoundError(f"there is no file {path}; correct the path")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file")
    with path.open("rb") as file:
        yield decompressed(file)


_HEADER_WORDS = (
    {"query", "queryid", "qid", "topic", "topicid", "topicno"},
    {"grade", "judgement", "judgment", "label", "qrel", "rel", "relevance", "relevancy", "score"},
)
"""First and last words of a qrels header, in lower case, without ``-_#`` and quotation marks."""

_GRADE = re.compile(rb"-?[0-9]")
_ITERATION = re.compile(rb"[0-9]{1,2}|q0|[a-z]+", re.IGNORECASE)
_WHOLE = re.compile(rb"([0-9])\.0+$")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_JSON = re.compile(rb'\s*(\{\s*("|\}|$)|\[\s*([\[{"]|$))')
_RUN = re.compile(rb"\s*(\S+\s+){3}[0-9]+\s+[-+.0-9eE]+\s+\S+\s*$")


def numbered_lines(
    path: Path, findings: FindingLog, *, problem_of: Callable[[int, bytes], str] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line)`` of a UTF-8 text file, numbers from 1, without line ends.

    A leading byte order mark, CRLF line ends and blank lines at the end are accepted. Findings are
    lines that are not UTF-8, other blank lines, a truncated file, and a file that changes while it
    is read. Blank lines are empty; they and lines that are not UTF-8 are left out. A line of more
    than `MAX_LINE_BYTES` is a finding and ends the reading: a line of a small compressed file could
    fill the memory.

    Args:
        path: the file; plain, or compressed with gzip, bzip2, xz or zstd, with any name.
        findings: the log of findings.
        problem_of: function of a line's number and bytes. It returns the reason why the file has
            another format, which ends the reading, or ``""``.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if the path is a folder.
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
                    problem = "the input is not text: a line has more than a mebibyte"
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
                    fix = "remove the line"
                    findings.add("blank-line", "the line is blank", str(path), blank_since, fix)
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
        fix = "wait until the file is written, and try again"
        findings.add("changed-while-read", "the file changed while it was read", str(path), 0, fix)


def tsv_rows(
    path: Path, columns: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of the lines with exactly the given tab-separated columns.

    Other lines, and lines with an empty first field, are findings; errors as in `numbered_lines`.
    """
    expected = len(columns)
    for number, line in numbered_lines(path, findings):
        fields = line.split("\t")
        if len(fields) != expected:
            findings.add(
                "field-count",
                f"expected {expected} tab-separated fields ({', '.join(columns)}), found "
                f"{len(fields)}",
                str(path),
                number,
                "write one record per line, with fields separated by single tabs",
            )
        elif not fields[0]:
            findings.add("empty-id", f"the {columns[0]} is empty", str(path), number)
        else:
            yield number, fields


def jsonl_rows(
    path: Path, fields: tuple[str, ...], findings: FindingLog, *, optional: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield ``(line number, record)`` of the JSON lines with all `fields`, as strings.

    A yielded record has only `fields` and `optional`; other fields are left out. Values must be
    strings or whole numbers; a missing or null optional field is "". Records with other values are
    findings, such as pandas' NaN for an empty cell, or a string that is not Unicode. Other lines
    and errors are as in `jsonl_records`.
    """
    for number, record in jsonl_records(path, fields, findings):
        strings = {}
        for key in (*fields, *optional):
            value = "" if key in optional and record.get(key) is None else record[key]
            text = str(value)
            # isinstance would accept true and false as whole numbers.
            if type(value) not in (str, int):
                message = f"{key!r} must be a string, found {json.dumps(value)[:60]}"
                fix = "write a string, or leave the record out"
                findings.add("wrong-type", message, str(path), number, fix)
            # A fast check, as most texts are ASCII.
            elif not text.isascii() and _SURROGATE.search(text):
                message = f"{key!r} contains half of a character (a lone surrogate)"
                fix = "write the complete character, or leave it out"
                findings.add("not-utf8", f"{message}, which is not UTF-8", str(path), number, fix)
            else:
                strings[key] = text
        if len(strings) == len(fields) + len(optional):
            yield number, strings


def jsonl_records(
    path: Path, fields: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, record)`` of the JSON lines with all `fields`, with any values.

    Records keep their other fields. Other lines are findings; errors as in `numbered_lines`.
    """
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
                f"the record has no {' and no '.join(map(repr, missing))}",
                str(path),
                number,
                f"write every line as an object with {', '.join(fields)}",
            )
        else:
            yield number, record


def csv_rows(
    path: Path, needed: tuple[str, ...], findings: FindingLog
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield ``(line number, column -> cell)`` of a CSV file with a header.

    Cells have no white space around them. They are separated by commas, or by tabs if the header
    contains a tab. A leading byte order mark, as from spreadsheets, is accepted. A cell may contain
    line ends; the line number is the row's last line. Missing cells are "", and columns without a
    name are left out. Findings are text that is not UTF-8 or CSV, a required column that is
    missing, and repeated columns. A row with surplus cells is a finding and left out.

    Args:
        path: the file.
        needed: the required columns.
        findings: the log of findings.

    Raises:
        OSError: if the file cannot be read.
    """
    try:
        text = path.read_bytes().removeprefix(UTF8_BOM).decode()
    except UnicodeDecodeError as error:
        findings.add("not-utf8", f"byte {error.start + 1} is not UTF-8", str(path))
        return
    # Strict, because otherwise a cell with an open quotation mark includes the next rows.
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
            findings.add("repeated-column", f"the column {name!r} is repeated", str(path), 1)
        for row in reader:
            surplus: Any = row.pop(None, ())
            if any(surplus):
                # E.g. a decimal comma, which moves all following cells.
                message = f"{len(header) + len(surplus)} cells, but the header has {len(header)}"
                findings.add("wrong-columns", message, str(path), reader.line_num)
            else:
                cells = {name: (cell or "").strip() for name, cell in row.items() if name}
                yield reader.line_num, cells
    except csv.Error as error:
        fix = "close every quotation mark, and double quotation marks within a cell"
        findings.add("not-csv", f"not CSV: {error}", str(path), reader.reader.line_num, fix)


def qrels_rows(path: Path, findings: FindingLog) -> Iterator[tuple[int, Qrel]]:
    """Yield ``(line number, judgement)`` of a qrels file.

    Lines have TREC's four columns (query, iteration, document, relevance) or three (query,
    document, relevance), separated by spaces or tabs, with or without a header line. All lines must
    have the same number of columns, because a truncated line of four columns could have three. Four
    columns with the document in the second are a finding. A relevance of ``1.0`` is 1. There are no
    comments: a query id may begin with ``#``. Other lines are findings; a run, JSON or Parquet
    ends the reading. Errors are as in `numbered_lines`.
    """
    width = 0
    is_swapped, has_names = True, False
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
            message = f"expected four fields (TREC) or three, found {len(fields)}"
            fix = "write 'query_id 0 doc_id relevance' or 'query_id doc_id relevance'"
            findings.add("field-count", message, str(path), number, fix + uncomment)
            continue
        width = width or len(fields)
        if len(fields) != width:
            message = f"expected {width} fields as in the lines before, found {len(fields)}"
            fix = "write the same fields on all lines, or copy a truncated file again"
            findings.add("field-count", message, str(path), number, fix + uncomment)
            continue
        is_swapped = is_swapped and width == 4 and _GRADE.fullmatch(fields[2]) is not None
        has_names = has_names or (is_swapped and _ITERATION.fullmatch(fields[1]) is None)
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
    if is_swapped and has_names:
        message = (
            "the second column contains documents and the third relevance, as in the qrels of "
            "'ir_datasets export --format tsv'"
        )
        fix = "write 'query_id 0 doc_id relevance', as 'ir_datasets export --format trec' does"
        findings.add("wrong-columns", message, str(path), 1, fix)


def judged_once(rows: Iterable[tuple[str, int, Qrel]], findings: FindingLog) -> Iterator[Qrel]:
    """Yield one judgement per pair of query and document.

    The first judgement of a pair counts. Repeated judgements are left out, and a logged warning
    counts them. A repeated pair with another relevance is a finding.

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
                f"is already judged{where}, with another relevance"
            )
            fix = (
                "keep one judgement per query and document; in diversity qrels, whose second "
                "column is a subtopic, keep the highest relevance"
            )
            findings.add("duplicate-judgement", message, source, line, fix)
    for source, count in repeated.items():
        _logger.warning("%s: %d lines repeat a judgement; each counts once", source, count)


def is_json(line: bytes) -> bool:
    """Return whether a line, the first of a file, begins a JSON object or array."""
    return _JSON.match(line) is not None


def _is_header(fields: Sequence[str]) -> bool:
    names = [re.sub(r"[-_#'\"]", "", field.lower()) for field in fields]
    return len(names) in (3, 4) and names[0] in _HEADER_WORDS[0] and names[-1] in _HEADER_WORDS[1]


def _reason_not_qrels(number: int, line: bytes) -> str:
    """Return the reason why a file with this line is not qrels; ``""`` if there is none."""
    if number == 1 and line.startswith(b"PAR1"):
        return "this is a Parquet file, not qrels in lines of text"
    if number == 1 and is_json(line):
        return "this is JSON, not qrels in lines of text"
    return "the input is not text: it contains a NUL byte" if b"\0" in line else ""
